import { expect, test } from 'vitest';
import { clientWorld } from '../support/client.ts';
import { suspendedRun } from '../support/suspended.ts';
import { millrace, settings } from './support/cli-process.ts';

const money = [{ kind: 'budget', id: 'batch:b1', reason: 'the next call may cost $0.02' }] as const;

test('a run that waits for money shows what for and how it goes on', async () => {
  const world = await clientWorld();
  const { runId } = await suspendedRun(world, money, { batch: 'b1' });
  const got = await millrace(['get', runId], { env: settings(world.prefix) });
  expect(got.stdout).toContain('money of batch b1: the next call may cost $0.02');
  for (const way of [`millrace approve ${runId}`, `millrace deny ${runId}`, '--top-up'])
    expect(got.stdout).toContain(way);
  const listed = await millrace(['runs', '--status', 'suspended'], { env: settings(world.prefix) });
  expect(listed.stdout).toContain('money of batch b1');
});

test('approve and deny resume a run, and say that there is nothing to decide afterwards', async () => {
  const world = await clientWorld();
  const [first, second] = [await suspendedRun(world, money), await suspendedRun(world, money)];
  const approved = await millrace(['approve', first.runId], { env: settings(world.prefix) });
  expect([approved.code, approved.stdout]).toEqual([0, `${first.runId} goes on; its next step may pass the cap\n`]);
  const denied = await millrace(['deny', second.runId, '--reason', 'too dear', '--json'], {
    env: settings(world.prefix),
  });
  expect([denied.code, JSON.parse(denied.stdout).run.status]).toEqual([0, 'queued']);
  const again = await millrace(['approve', first.runId], { env: settings(world.prefix) });
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('approval_not_pending')]);
});

test('tool calls cannot be named yet, and a clear sentence says so', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, money);
  const answer = await millrace(['deny', run.runId, 'call-1'], { env: settings(world.prefix) });
  expect([answer.code, answer.stderr]).toEqual([2, expect.stringContaining('tool calls cannot be decided one by one')]);
  expect((await run.get()).status).toBe('suspended');
});

test('get shows attempts and cost by model', async () => {
  const world = await clientWorld();
  const { runId } = await suspendedRun(world, money);
  const attempt = { step: 1, requestId: 'r', priced: true, latencyMs: 1, attemptNumber: 1 };
  const usage = { input: 1_000, output: 200, cached: 34, cacheWrite: 0, total: 1_234 };
  const attempts = [
    {
      ...attempt,
      provider: 'a',
      model: 'big',
      outcome: 'failed',
      costMicrocents: 0,
      error: { kind: 'transient', message: 'gone' },
    },
    { ...attempt, provider: 'b', model: 'small', outcome: 'succeeded', costMicrocents: 1_000_000, usage },
    { ...attempt, provider: 'b', model: 'small', outcome: 'succeeded', costMicrocents: 2_000_000, usage },
  ];
  await world.redis.hset(world.keys.run(runId), 'attempts', JSON.stringify(attempts));
  const { stdout } = await millrace(['get', runId], { env: settings(world.prefix) });
  expect(stdout).toMatch(/^MODEL\s+ATTEMPTS\s+FAILED\s+IN\s+OUT\s+COST$/m);
  expect(stdout).toMatch(/^a\/big\s+1\s+1\s+0\s+0\s+\$0\.0000\s+transient: gone$/m);
  expect(stdout).toMatch(/^b\/small\s+2\s+0\s+2,068\s+400\s+\$0\.0300$/m);
});
