import { expect, onTestFinished, test } from 'vitest';
import { Millrace } from '../../../src/producer/client/millrace.ts';
import { parseEvent } from '../../../src/shared/contract/event.ts';
import { connect, whenReady } from '../../../src/shared/state/connect.ts';
import { keysFor } from '../../../src/shared/state/keys.ts';
import { redisSupervision } from '../../../src/shared/state/run/supervision.ts';
import { until } from '../../support/redis.ts';
import { runKeySpace } from '../../support/run-key-space.ts';
import { startMasters } from '../../support/two-masters.ts';

/** Where `mr:lifecycle` is. */
const slot = 9_539;

test('runs are accepted and cancelled while the node of the lifecycle stream is away, and their events are published afterwards', async () => {
  // The other two are a majority without it: one alone refuses writes soon.
  const [large, , small] = await startMasters([
    [slot - 1, slot - 1],
    [slot, slot],
  ]);
  if (!large || !small) throw new Error('three masters were started');
  const keys = keysFor('mr');
  expect(await small.redis.call('CLUSTER', 'KEYSLOT', keys.lifecycle)).toBe(slot);
  const url = `redis+cluster://127.0.0.1:${large.port}`;
  const mill = new Millrace({ redis: url });
  onTestFinished(() => mill.close());
  const redis = connect(url, 'work', () => {});
  onTestFinished(() => redis.disconnect());
  await whenReady(redis, 20_000);

  const request = { agent: 'a', input: 'x' };
  const early = await mill.enqueue(request);
  await small.server.stop();
  const late = await mill.enqueue(request);
  expect(await early.cancel()).toMatchObject({ status: 'cancelled' });
  expect(await redis.xlen(keys.unpublished(late.runId))).toBe(1);
  await small.restart();
  await until('writes go through again', async () => (await mill.writeProblem()) === undefined);

  const { runId: last } = await mill.enqueue(request);
  const published = async () => {
    const entries = await redis.xrange(keys.lifecycle, '-', '+');
    return new Set(entries.map(([, [, json = '']]) => parseEvent(json)).map(({ runId, type }) => `${runId} ${type}`));
  };
  const supervision = redisSupervision(runKeySpace(redis, keys, true));
  await until('all is published', async () => {
    for (const { runId } of [early, late]) await redis.zadd(keys.checks, 0, runId);
    await supervision.dueRuns(10);
    return (await published()).size === 4;
  });
  expect(await published()).toEqual(
    new Set([
      `${early.runId} run.queued`,
      `${early.runId} run.cancelled`,
      `${late.runId} run.queued`,
      `${last} run.queued`,
    ]),
  );
});
