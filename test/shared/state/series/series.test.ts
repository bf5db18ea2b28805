import { expect, test } from 'vitest';
import { newRunId } from '../../../../src/shared/base/ids.ts';
import { countLifecycle } from '../../../../src/shared/state/series/count-lifecycle.ts';
import { readSeries } from '../../../../src/shared/state/series/read-series.ts';
import { keysFor } from '../../../../src/shared/state/keys.ts';
import { testPrefix, testRedis } from '../../../support/redis.ts';

/** In the middle of a step, so that what is written "now" is all in one. */
const nowMs = Date.UTC(2026, 10, 23, 12, 0, 5);
const stepAt = '2026-11-23T12:00:00.000Z';

async function lifecycle({ cluster = false } = {}) {
  const redis = await testRedis();
  const keys = keysFor(testPrefix());
  const space = { redis, keys, cluster };
  const count = async () => {
    while (await countLifecycle(space, nowMs));
  };
  const read = async (tenant = 'default', stepS = 10) => {
    const toS = Math.ceil(nowMs / 1_000 / stepS) * stepS;
    return await readSeries(space, tenant, { fromS: toS - 6 * stepS, toS, stepS });
  };
  const last = async (tenant?: string) => (await read(tenant)).points.at(-1);
  const add = (runId: string, sequenceNumber: number, body: object, atMs = nowMs) =>
    redis.xadd(
      keys.lifecycle,
      '*',
      'e',
      JSON.stringify({ v: 1, runId, sequenceNumber, timestamp: new Date(atMs).toISOString(), agentId: 'a', ...body }),
    );
  const record = (runId: string, fields: Record<string, string | number>) =>
    redis.hset(keys.run(runId), {
      tenant: 'default',
      createdAt: new Date(nowMs - 3_000).toISOString(),
      listedRequest: '{"delayMs":1000}',
      ...fields,
    });
  return { redis, keys, space, count, read, last, add, record };
}

const attempt = (model: string, costMicrocents: number) => ({
  attemptNumber: 1,
  step: 1,
  provider: 'p',
  model,
  outcome: 'succeeded',
  requestId: 'r',
  usage: { input: 10, output: 5, cached: 3, cacheWrite: 2, total: 20 },
  costMicrocents,
  priced: true,
  latencyMs: 1,
});
const usage = { input: 0, output: 0, cached: 0, cacheWrite: 0, total: 0, byModel: {} };
const queued = { type: 'run.queued', kind: 'agent.turn', queuedAt: '' };
const started = { type: 'run.started', kind: 'agent.turn', attempt: 1 };
const completed = { type: 'run.completed', status: 'completed', result: { text: '' }, usage, durationMs: 40, steps: 1 };
const failed = {
  type: 'run.failed',
  error: { code: 'tool_failed', message: '', retryable: false },
  usage,
  durationMs: 60,
};

async function aRun(
  { add, record }: Awaited<ReturnType<typeof lifecycle>>,
  end: object = completed,
  tenant = 'default',
) {
  const runId = newRunId(nowMs);
  const attempts = JSON.stringify([attempt('m', 100), attempt('n', 7)]);
  await record(runId, { tenant, attempts, toolCalls: 3, toolErrors: 1 });
  await add(runId, 1, queued);
  await add(runId, 2, started);
  await add(runId, 9, end);
  return runId;
}

test('what runs did is counted by steps of time, by status, error, agent and model', async () => {
  const world = await lifecycle();
  await aRun(world);
  await aRun(world, failed);
  await aRun(world, { type: 'run.cancelled', drained: false, usage }, 'south');
  await world.count();
  const { points, agents, models } = await world.read();
  expect(points).toHaveLength(6);
  expect(points.at(-1)).toEqual({
    at: stepAt,
    queued: 2,
    started: 2,
    queueWaitMs: 4_000,
    maxQueueWaitMs: 2_000,
    ended: 2,
    failed: 1,
    durationMs: 100,
    toolCalls: 6,
    toolErrors: 2,
    inputTokens: 60,
    outputTokens: 20,
    costMicrocents: 214,
    endedBy: { completed: 1, failed: 1 },
    errors: { tool_failed: 1 },
  });
  expect(points.at(-2)).toMatchObject({ queued: 0, ended: 0, endedBy: {}, errors: {} });
  expect(agents).toMatchObject([{ agent: 'a', ended: 2, failed: 1, toolErrors: 2, costMicrocents: 214 }]);
  expect(models).toEqual([
    { model: 'm', attempts: 2, inputTokens: 30, outputTokens: 10, costMicrocents: 200 },
    { model: 'n', attempts: 2, inputTokens: 30, outputTokens: 10, costMicrocents: 14 },
  ]);
  expect(await world.last('south')).toMatchObject({ ended: 1, endedBy: { cancelled: 1 } });
  expect((await world.read('default', 600)).points.at(-1)).toMatchObject({ queued: 2, costMicrocents: 214 });
});

test('many processes that count at the same time, and some that die before they say so, count each event once', async () => {
  const world = await lifecycle();
  const { redis, keys } = world;
  for (let i = 0; i < 30; i++) await aRun(world, i % 2 === 0 ? completed : failed, i % 3 === 0 ? 'south' : 'default');
  await Promise.all(Array.from({ length: 8 }, world.count));
  // It had counted, and died before it moved the cursor on.
  await redis.del(keys.seriesCursor);
  await aRun(world);
  await Promise.all(Array.from({ length: 8 }, world.count));
  await redis.set(keys.seriesCursor, '0-0');
  await world.count();
  expect(await world.last()).toMatchObject({ queued: 21, started: 21, ended: 21, costMicrocents: 21 * 107 });
  expect(await world.last('south')).toMatchObject({ queued: 10, ended: 10, costMicrocents: 10 * 107 });
});

test('an event that the stream of a Cluster has twice counts once', async () => {
  const world = await lifecycle({ cluster: true });
  const runId = await aRun(world);
  await world.add(runId, 9, completed);
  await world.count();
  await world.add(runId, 9, completed);
  await world.count();
  expect(await world.last()).toMatchObject({ ended: 1, costMicrocents: 107 });
  const seen = world.keys.seriesSeen('default');
  expect(await world.redis.zcard(seen)).toBe(3);
  expect(await world.redis.ttl(seen)).toBeGreaterThan(0);
});

test.each(['after', 'before'])(
  'a redriven run counts only what is new, also when it is counted %s the redrive',
  async (when) => {
    const world = await lifecycle();
    const runId = await aRun(world, failed);
    if (when === 'after') await world.count();
    const attempts = [attempt('m', 100), attempt('n', 7), attempt('m', 1_000)];
    await world.record(runId, {
      attempts: JSON.stringify(attempts),
      toolCalls: 5,
      toolErrors: 1,
      logStart: 9,
      attemptsBefore: 2,
      toolCallsBefore: 3,
      toolErrorsBefore: 1,
    });
    await world.add(runId, 20, completed);
    await world.count();
    expect(await world.last()).toMatchObject({
      ended: 2,
      failed: 1,
      toolCalls: 5,
      toolErrors: 1,
      costMicrocents: 1_107,
    });
  },
);

test.each(['one count', 'a count of each event'])(
  'a run that is redriven is among those of its agent once, as it ended last, in %s',
  async (how) => {
    const world = await lifecycle();
    const runId = await aRun(world, failed);
    await world.record(runId, { startedAt: new Date(nowMs - 60).toISOString() });
    const failedAt = new Date(nowMs).toISOString();
    const steps = [{ ...queued, failedAt }, failed, { ...queued, failedAt }, { ...completed, durationMs: 90 }];
    for (const [at, body] of steps.entries()) {
      if (how !== 'one count') await world.count();
      await world.add(runId, 10 + at, body);
    }
    await world.count();
    const [day, fine] = [await world.read('default', 600), await world.read()];
    for (const { agents, points } of [day, fine]) {
      expect(agents).toMatchObject([{ agent: 'a', ended: 1, failed: 0, durationMs: 90 }]);
      expect(points.at(-1)).toMatchObject({ ended: 3, failed: 2, endedBy: { completed: 1, failed: 2 } });
    }
  },
);

test('a redrive of a run whose failure is in no counter takes nothing back', async () => {
  const { count, read, add, record, redis, keys } = await lifecycle();
  const runId = newRunId(nowMs);
  await record(runId, {});
  const hourAgo = new Date(nowMs - 3_600_000).toISOString();
  await add(runId, 5, { ...queued, failedAt: hourAgo });
  await add(runId, 6, { ...queued, failedAt: 'never' });
  await add(runId, 7, completed);
  await count();
  expect((await read('default', 600)).agents).toMatchObject([{ agent: 'a', ended: 1, failed: 0 }]);
  const bucket = Math.floor((nowMs - 3_600_000) / 600_000) * 600;
  expect(await redis.exists(keys.series('default', 600, bucket))).toBe(0);
});

test('names beyond the twentieth of a step are counted together, and every key has an end', async () => {
  const world = await lifecycle();
  const { redis, keys, add, record } = world;
  for (let i = 0; i < 25; i++) {
    const runId = newRunId(nowMs);
    await record(runId, {});
    await add(runId, 1, { ...completed, agentId: `agent-${i}` });
  }
  await world.count();
  const { agents } = await world.read();
  expect(agents).toHaveLength(21);
  expect(agents[0]).toMatchObject({ agent: 'other', ended: 5 });
  const prefix = keys.firehose.split(':')[0];
  const written = (await redis.keys(`${prefix}:*series*`)).sort();
  expect(written).toHaveLength(4);
  for (const key of written) expect(await redis.ttl(key), key).toBeGreaterThan(3_000);
});

test('an event that is too old for a step is in none, and one for the week only there', async () => {
  const world = await lifecycle();
  const { redis, keys, add, record } = world;
  const runId = newRunId(nowMs);
  await record(runId, {});
  await add(runId, 1, queued, nowMs - 8 * 86_400_000);
  await add(runId, 2, queued, nowMs - 2 * 3_600_000);
  await add(newRunId(nowMs), 1, queued);
  await world.count();
  expect(await redis.keys(`${keys.series('default', 10, 0).slice(0, -1)}*`)).toEqual([]);
  expect(await redis.keys(`${keys.series('default', 600, 0).slice(0, -1)}*`)).toHaveLength(1);
});

test('an entry with numbers that cannot be counted keeps no later one from being counted', async () => {
  const { count, last, add, record } = await lifecycle();
  for (const durationMs of [1.5, 1e30, -1, 'x', null]) {
    const runId = newRunId(nowMs);
    await record(runId, { status: 'completed' });
    await add(runId, 1, { ...completed, durationMs, usage: { ...usage, input: durationMs, total: durationMs } });
  }
  await count();
  const runId = newRunId(nowMs);
  await record(runId, { status: 'completed' });
  await add(runId, 1, completed);
  await count();
  expect((await last())?.endedBy).toEqual({ completed: 6 });
});
