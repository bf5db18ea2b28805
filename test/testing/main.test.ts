import { execFile, spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { scriptedModel } from '../../src/testing/index.ts';
import { defineAgent } from '../../src/worker/index.ts';
import { childEnv } from '../support/child-env.ts';
import { exportOf } from '../support/export-of.ts';

const entry = fileURLToPath(new URL('../../src/testing/main.ts', import.meta.url));

/** The process of `millrace replay`. */
async function replay(file: string, agent: string): Promise<{ code: unknown; stdout: string; stderr: string }> {
  return await new Promise((resolve) => {
    const args = [entry, 'replay', file, '--agent', agent];
    const child = execFile(process.execPath, args, { env: childEnv(), timeout: 60_000 }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    );
  });
}

const answersBriefly = `
  import { defineAgent } from 'millrace/worker';
  export default defineAgent({ id: 'support', model: 'gpt-5.2-mini' });`;

/** The export of a run of the agent `support`, and the file of a module in a folder of agents. */
async function exportAndModule(source: string): Promise<{ file: string; module: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-replay-'));
  const agent = defineAgent({ id: 'support', model: 'gpt-5.2-mini' });
  const file = join(folder, 'run.json');
  const recorded = await exportOf(agent, 'Where is order 7?', { provider: scriptedModel(['Here.']) });
  writeFileSync(file, JSON.stringify(recorded));
  const module = join(mkdtempSync(join(tmpdir(), 'millrace-agents-')), 'support.ts');
  writeFileSync(module, source);
  return { file, module };
}

test.each([
  ['ends the process', 'process.exit(0);'],
  ['ends the process a moment later', 'setTimeout(() => process.exit(0), 5); await new Promise(() => {});'],
  ['waits for what never comes', 'await new Promise(() => {});'],
  ['throws where nothing catches it', "setTimeout(() => { throw new Error('late'); }); await new Promise(() => {});"],
])('a replay with a module that %s has no result, and says so', async (_, source) => {
  const { file, module } = await exportAndModule(source);
  const { code, stdout, stderr } = await replay(file, module);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain('the process ended before the replay had a result');
  expect(stderr).not.toContain('Warning');
});

test('a replay with a module that loads and leaves a timer and a socket open ends when it has its result', async () => {
  const source = `
    import { createServer } from 'node:net';
    setInterval(() => {}, 1_000);
    createServer().listen(0, '127.0.0.1');
    ${answersBriefly}`;
  const { file, module } = await exportAndModule(source);
  const { code, stdout, stderr } = await replay(file, module);
  expect([code, stdout, stderr]).toEqual([0, expect.stringContaining('the same'), '']);
});

test('a replay whose result finds no room is no success', async () => {
  const { file, module } = await exportAndModule(answersBriefly);
  const full = openSync('/dev/full', 'w');
  onTestFinished(() => closeSync(full));
  const args = [entry, 'replay', file, '--agent', module];
  const { status, stderr } = spawnSync(process.execPath, args, { env: childEnv(), stdio: ['ignore', full, 'pipe'] });
  expect([status, String(stderr)]).toEqual([1, expect.stringMatching(/^The output is not whole: .*ENOSPC/)]);
});
