import { expect, test } from 'vitest';
import { batchIs, fileLines, submitBatch } from '../support/batches.ts';
import { call } from '../support/http.ts';
import { OwnRedis } from '../support/own-redis.ts';
import { planInput } from '../support/plan.ts';
import { until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';

const count = 600;
const awayMs = 20_000;
const endMs = 200_000;
const lines = Array.from({ length: count }, (_, i) => ({
  custom_id: `c-${i}`,
  agent: 'plain',
  input: planInput({ text: `answer ${i}` }),
}));

test('while Redis is away doors answer 503 at once, and afterwards a batch goes on and has each line once', async () => {
  const redis = await OwnRedis.start();
  const world = await makeWorld({ redisUrl: redis.url, workers: 1, producer: true });
  const { mill, url } = world;
  const { id } = await submitBatch(mill, lines, { maxOpen: 40 });
  const done = async () => (await mill.batches.get(id)).request_counts.completed;
  await until('a third has its answer', async () => (await done()) >= count / 3, endMs);
  await redis.kill();
  const killedAt = performance.now();
  while (performance.now() - killedAt < awayMs) {
    const askedAt = performance.now();
    const { status, body } = await call('GET', `${url}/v1/batches/${id}`);
    expect([status, body.error.code, performance.now() - askedAt < 5_000]).toEqual([503, 'queue_unavailable', true]);
  }
  await redis.start();
  await world.reachable();
  const ended = await batchIs(mill, id, ['completed'], endMs);
  expect(ended.request_counts).toEqual({ total: count, completed: count, failed: 0 });
  const output = await fileLines(mill, ended.output_file_id);
  expect(output).toHaveLength(count);
  expect(new Set(output.map((line) => line['custom_id'])).size).toBe(count);
}, 400_000);

test('a producer that drains in the midst of a batch ends in time, and the next one goes on with it', async () => {
  const world = await makeWorld({ workers: 1 });
  const { mill, fleet } = world;
  const first = await fleet.startProducer();
  const { id } = await submitBatch(mill, lines, { maxOpen: 40 });
  const done = async () => (await mill.batches.get(id)).request_counts.completed;
  await until('a third has its answer', async () => (await done()) >= count / 3, endMs);
  first.child.signal('SIGTERM');
  expect(await first.child.exited).toEqual({ code: 0, signal: null });
  await fleet.startProducer();
  const ended = await batchIs(mill, id, ['completed'], endMs);
  expect(ended.request_counts).toEqual({ total: count, completed: count, failed: 0 });
  expect(await fileLines(mill, ended.output_file_id)).toHaveLength(count);
}, 400_000);
