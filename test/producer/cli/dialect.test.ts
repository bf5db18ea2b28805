import { dialectNames } from '../../../src/shared/dialects/project.ts';
import { expect, test } from 'vitest';
import type { RunStatus } from '../../../src/shared/contract/plain/ends.ts';
import { clientWorld, request } from './options/client.ts';
import { RunWriter } from '../support/run-writer.ts';
import { millrace, settings } from './support/cli-process.ts';

async function endedRun(status: RunStatus = 'completed') {
  const world = await clientWorld();
  const run = await world.mill.enqueue(request);
  const writer = new RunWriter(world.redis, world.keys, run.runId);
  await writer.emit([
    { type: 'step.start', stepNumber: 1, model: 'm', modelSource: 'agent' },
    { type: 'text.delta', delta: 'Sent.', model: 'm' },
  ]);
  await writer.end(status);
  return { run, env: settings(world.prefix) };
}

test('tail prints a run in a dialect, one event a line, also from the middle', async () => {
  const { run, env } = await endedRun();
  const types = async (...args: string[]) => {
    const { code, stdout } = await millrace(['tail', run.runId, '--dialect', 'afk', ...args], { env });
    expect(code).toBe(0);
    return stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { type: string; step: number })
      .map(({ type, step }) => `${type} ${step}`);
  };
  expect(await types()).toEqual(['step_started 1', 'text_delta 1', 'completed 1']);
  expect(await types('--after', '3')).toEqual(['completed 1']);
});

test.each([
  ['completed', 0],
  ['degraded', 0],
  ['blocked', 1],
  ['failed', 1],
] as const)('tail after the last event of a run that is %s says so, and ends as the run did', async (status, ends) => {
  const { run, env } = await endedRun(status);
  const { code, stderr } = await millrace(['tail', run.runId, '--after', '999'], { env });
  expect([code, stderr]).toEqual([
    ends,
    expect.stringContaining(`no event comes after that one: the run is ${status}`),
  ]);
});

test('a dialect is one of those that there are, and of one run', async () => {
  const { run, env } = await endedRun();
  const unknown = await millrace(['tail', run.runId, '--dialect', 'klingon'], { env });
  expect([unknown.code, unknown.stderr.includes('relavium')]).toEqual([2, true]);
  const all = await millrace(['tail', '--dialect', 'afk'], { env });
  expect([all.code, all.stderr.includes('--dialect needs a run')]).toEqual([2, true]);
});

test('the help of `run` names no other system, that of `tail` lists them at its end', async () => {
  const { stdout: run } = await millrace(['run', '--help']);
  expect(run).toContain('--dialect <name>');
  for (const name of dialectNames) expect(run).not.toContain(name);
  const { stdout: tail } = await millrace(['tail', '--help']);
  expect(tail).toContain(`Formats of --dialect: ${dialectNames.join(', ')}.`);
});
