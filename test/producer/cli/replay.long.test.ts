import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { agentFrom, scriptedModel } from '../../../src/testing/index.ts';
import { exportOf } from '../../support/export-of.ts';
import { CliProcess } from './support/cli-process.ts';

const instructions = (text: string) => `model: gpt-5.2-mini\ninstructions: ${text}\n`;

async function replay(...args: string[]) {
  const command = new CliProcess(['replay', ...args]);
  return { code: await command.exited, stdout: command.stdout, stderr: command.stderr };
}

test('a replay of an export says that it goes the same way, or where it departs, and exits with that', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-replay-'));
  const agent = join(folder, 'support.yaml');
  writeFileSync(agent, instructions('You answer briefly.'));
  const { agent: loaded } = await agentFrom(folder, 'support');
  const file = join(folder, 'run.json');
  const recorded = await exportOf(loaded, 'Where is order 7?', { provider: scriptedModel(['It was shipped.']) });
  writeFileSync(file, JSON.stringify(recorded));

  const same = await replay(file, '--agent', agent);
  expect(same.stderr).toBe('');
  expect(same.code).toBe(0);
  expect(same.stdout).toContain(`run ${recorded.run.runId} against agent support and the recorded answers: the same`);
  expect(same.stdout).toMatch(/It cost \$0\.\d+; at present prices it would cost \$0\.\d+\./);

  writeFileSync(agent, instructions('You answer at length.'));
  const other = await replay(file, '--agent', agent, '--json');
  expect(other.code).toBe(1);
  expect(JSON.parse(other.stdout)).toMatchObject({
    agent: 'support',
    mode: 'recorded',
    departures: [{ kind: 'system', recorded: '"You answer briefly."' }],
  });
  const live = await replay(file, '--agent', agent, '--live');
  expect(live.code).toBe(1);
  expect(live.stdout).toContain('against agent support and its model: departs');
  const missing = await replay(join(folder, 'none.json'), '--agent', agent);
  expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining('cannot be read')]);
  writeFileSync(file, '['.repeat(1_000_000));
  const deep = await replay(file, '--agent', agent);
  expect([deep.code, deep.stderr]).toEqual([2, `the export ${file} is nested too deep\n`]);
});

test('a replay with a module that waits at its top for what never comes, with a timer open, ends after a while and says why', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-replay-'));
  writeFileSync(join(folder, 'support.yaml'), instructions('You answer briefly.'));
  const { agent: loaded } = await agentFrom(folder, 'support');
  const file = join(folder, 'run.json');
  writeFileSync(file, JSON.stringify(await exportOf(loaded, 'Hi.', { provider: scriptedModel(['Hello.']) })));
  const agent = join(mkdtempSync(join(tmpdir(), 'millrace-agents-')), 'support.ts');
  writeFileSync(agent, 'setInterval(() => {}, 1_000); await new Promise(() => {});');
  const { code, stdout, stderr } = await replay(file, '--agent', agent);
  expect([code, stdout, stderr]).toEqual([
    2,
    '',
    expect.stringMatching(/^the folder of the agent was not loaded within 30 s/),
  ]);
});
