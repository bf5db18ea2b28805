import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, inject, test } from 'vitest';
import { play } from './play.ts';
import { ownCorpus, readCorpus } from './read-corpus.ts';
import { countsOf, failuresOf, reportOf, type Report } from './report.ts';

const all = readCorpus(ownCorpus);
/** Of each kind some: several agents, servers, scripts, conversations. */
const sample = all.filter(
  (one, at) => at % 12 === 0 || (one.agents.length > 1 && at % 2 === 0) || one.turns.length > 0,
);
const expected = { minStopped: 1, maxBlocked: 0.05 };

async function played(mode: Report['mode'], variant: Report['variant']): Promise<Report> {
  const scenarios = sample.filter(({ turns }) => variant !== 'child' || turns.length === 0);
  const options = { redisUrl: inject('redisUrl'), corpus: ownCorpus, scenarios, mode, variant, workers: 1 };
  return reportOf(scenarios, await play(options), { mode, variant });
}

test('without a policy an obedient model makes every call, the attacks too', async () => {
  const report = await played('off', 'plain');
  expect(failuresOf(report, expected)).toEqual([]);
  expect(report.calls.filter(({ ran, label }) => !ran && label !== 'either')).toEqual([]);
  expect(countsOf(report, report.calls).attacks).toBeGreaterThan(10);
}, 120_000);

test('the command explains itself, and refuses what it cannot play', async () => {
  const guards = async (...args: string[]) =>
    await promisify(execFile)(process.execPath, [join(import.meta.dirname, 'main.ts'), ...args]).then(
      ({ stdout }) => ({ code: 0, stdout, stderr: '' }),
      (error: { code: number; stdout: string; stderr: string }) => error,
    );
  const help = await guards('--help');
  expect(help.code).toBe(0);
  for (const option of ['--scenarios', '--mode', '--variant', '--only', '--max-blocked', '--min-stopped', '--json'])
    expect(help.stdout).toContain(option);
  expect(await guards('--scenarios', '/nowhere')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('/nowhere: is no folder that can be read'),
  });
  expect(await guards('--mode', 'strict')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--mode: strict is none of off, shadow, confirm, enforce'),
  });
  expect(await guards('--max-blocked', '5')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('must be a number from 0 to 1'),
  });
  expect(await guards('--only', 'no-such-id')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('no scenario has no-such-id in its id'),
  });
}, 120_000);
