import { Queue } from 'bullmq';
import { expect, onTestFinished, test } from 'vitest';
import type { RunHandle } from '../../src/producer/index.ts';
import { jobIdFor } from '../../src/shared/base/ids.ts';
import { testRedis, until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

const shared = shareWorld();
const charge = { calls: [{ name: 'charge', args: { id: 'c' } }] };

/** How BullMQ counts a job of a run, once it is done with it. */
async function jobOf({ runId }: RunHandle, segment = 0) {
  const { fleet } = shared.world;
  const queue = new Queue('runs', { connection: await testRedis('work', fleet.redisUrl), prefix: fleet.prefix });
  onTestFinished(() => queue.close());
  return await until('the job is done', async () => {
    const job = await queue.getJob(jobIdFor(runId, segment));
    if (job?.finishedOn === undefined) return undefined;
    const { attemptsMade, returnvalue, failedReason } = job;
    return { state: await job.getState(), attemptsMade, returnvalue: returnvalue as unknown, failedReason };
  });
}

test('the job of a run that completed is completed, after one attempt', async () => {
  const { world } = shared;
  const run = await world.submit('plain', [{ text: 'Done.' }]);
  await world.ended(run);
  expect(await jobOf(run)).toMatchObject({ state: 'completed', attemptsMade: 1, returnvalue: { status: 'completed' } });
});

test('the job of a run that failed is failed and not tried again, also where its error may be retried', async () => {
  const { world } = shared;
  const busy = Array.from({ length: 20 }, () => ({ kind: 'status' as const, status: 503 }));
  for (const [faults, code, retryable] of [
    [[{ kind: 'status' as const, status: 400 }], 'validation', false],
    [busy, 'provider_unavailable', true],
  ] as const) {
    const run = await world.submit('hasty', [{ text: 'never', faults }]);
    const { view } = await world.ended(run);
    expect(view.error).toMatchObject({ code, retryable });
    expect(await jobOf(run)).toMatchObject({ state: 'failed', attemptsMade: 1, failedReason: `run failed: ${code}` });
  }
});

test('the job of a cancelled run is completed: no retry, and no failure in the numbers', async () => {
  const { world } = shared;
  const run = await world.submit('plain', [{ text: 'never', hold: { gate: 'cancelled', afterPieces: 0 } }]);
  await world.provider.gates.reached('cancelled');
  await run.cancel();
  const { events } = await world.ended(run);
  expect(events.at(-1)?.type).toBe('run.cancelled');
  expect(events.map(({ type }) => type)).not.toContain('agent.error');
  expect(await jobOf(run)).toMatchObject({ state: 'completed', attemptsMade: 1, returnvalue: { status: 'cancelled' } });
});

test('the job of a run that waits is completed, and the run goes on in another one', async () => {
  const { world } = shared;
  const run = await world.submit('gated', [charge, { text: 'Paid.' }]);
  await until('it asks', async () => (await run.get()).status === 'suspended');
  expect(await jobOf(run)).toMatchObject({ state: 'completed', attemptsMade: 1, returnvalue: { status: 'suspended' } });
  await run.approve();
  await world.ended(run);
  expect(await jobOf(run, 1)).toMatchObject({ state: 'completed', returnvalue: { status: 'completed' } });
});

test('a run that takes too long says so, then fails, and its job is not tried again', async () => {
  const { world } = shared;
  const silent = [{ text: 'never', hold: { gate: 'silence', afterPieces: 0 } }];
  const run = await world.submit('plain', silent, { limits: { wallTimeMs: 500 } });
  const { view, events } = await world.ended(run);
  expect(view).toMatchObject({ status: 'failed', error: { code: 'run_timeout' } });
  const [timeout, failed] = events.filter(({ type }) => type === 'run.timeout' || type === 'run.failed');
  expect(timeout).toMatchObject({ type: 'run.timeout', timeoutMs: 500, elapsedMs: expect.any(Number) });
  expect(failed).toMatchObject({ type: 'run.failed', error: { code: 'run_timeout' } });
  expect(events.filter(({ type }) => type === 'run.started')).toHaveLength(1);
  expect(await jobOf(run)).toMatchObject({ state: 'failed', attemptsMade: 1, failedReason: 'run failed: run_timeout' });
  expect(world.provider.callsOf(run.runId)).toHaveLength(1);
});
