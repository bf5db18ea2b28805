import { expect, test } from 'vitest';
import { jobIdFor } from '../../src/shared/base/ids.ts';
import { bullPrefix, keysFor } from '../../src/shared/state/keys.ts';
import { testRedis, until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';

test('a run in a queue without workers ends as expired, its job is gone, and a redrive begins its time anew', async () => {
  const world = await makeWorld({ workers: 0 });
  const redis = await testRedis('work', world.fleet.redisUrl);
  const { prefix } = world.fleet;
  // It existed once: a worker announced it.
  await redis.zadd(keysFor(prefix).queues, Date.now(), 'night');
  const run = await world.submit('plain', [{ text: 'late' }], { queue: 'night', queueTtlMs: 300 });
  const delayed = await world.submit('plain', [{ text: 'x' }], { queue: 'night', queueTtlMs: 300, delayMs: 60_000 });
  await world.addWorker();

  const { view, events } = await world.ended(run);
  expect(view).toMatchObject({ status: 'failed', error: { code: 'queue_expired', retryable: true } });
  expect(events.map(({ type }) => type)).toEqual(['run.queued', 'run.failed']);
  const job = `${bullPrefix(prefix, false)}:night:${jobIdFor(run.runId, 0)}`;
  await until('its job is gone', async () => (await redis.exists(job)) === 0);
  const { deadlines } = keysFor(prefix);
  await redis.zadd(deadlines, 1, delayed.runId);
  const isAhead = async () => Number(await redis.zscore(deadlines, delayed.runId)) > Date.now() + 30_000;
  await until('one that was listed too early is looked at in its time', isAhead);
  expect(await world.mill.get(delayed.runId)).toMatchObject({ status: 'queued' });

  expect((await world.mill.redrive({ runId: run.runId })).redriven).toEqual([run.runId]);
  const startBy = Date.parse((await redis.hget(keysFor(prefix).run(run.runId), 'startBy')) ?? '');
  expect(startBy).toBeGreaterThan(Date.parse(view.createdAt) + 300);
});

test('a run that a worker has begun does not expire', async () => {
  const world = await makeWorld();
  const run = await world.submit('plain', [{ text: 'in time' }], { queueTtlMs: 60_000 });
  expect((await world.ended(run)).view.status).toBe('completed');
  const redis = await testRedis('work', world.fleet.redisUrl);
  const { deadlines, openOf } = keysFor(world.fleet.prefix);
  await until('nothing is left', async () => (await redis.exists(deadlines, openOf('default'))) === 0);
});
