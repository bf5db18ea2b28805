import { expect, test } from 'vitest';
import { until } from '../../../support/redis.ts';
import { playFleet } from '../support.ts';
import { batchWorld } from './batch-world.ts';

const inputs = (count: number) => Array.from({ length: count }, (_, i) => ({ id: `l${i}`, input: `input ${i}` }));

test('equal requests at once with one key make one batch, and without one a batch each', async () => {
  const world = await batchWorld();
  const file = await world.mill.files.upload(Buffer.from('"x"\n'), { filename: 'in.jsonl', purpose: 'batch' });
  const asked = { endpoint: '/v1/runs', agent: 'support', input_file_id: file.id } as const;
  const same = Array.from({ length: 10 }, () => world.mill.batches.create(asked, { idempotencyKey: 'once' }));
  expect(new Set((await Promise.all(same)).map(({ id }) => id)).size).toBe(1);
  const others = Array.from({ length: 3 }, () => world.mill.batches.create(asked));
  expect(new Set((await Promise.all(others)).map(({ id }) => id)).size).toBe(3);
  expect((await world.mill.batches.list()).data).toHaveLength(4);
});

test('one that is paused before its lines were counted is counted once it is resumed', async () => {
  const world = await batchWorld();
  playFleet(world, (writer) => writer.end());
  const { id } = await world.submit(inputs(5));
  expect((await world.mill.batches.pause(id)).status).toBe('paused');
  expect((await world.mill.batches.pause(id)).status).toBe('paused');
  await world.advance();
  await until('nobody has the batch', async () => (await world.redis.hget(world.keys.batch(id), 'stay')) === '');
  expect((await world.mill.batches.get(id)).request_counts.total).toBe(0);
  expect((await world.mill.batches.resume(id)).status).toBe('validating');
  expect((await world.is(id, 'completed')).request_counts).toEqual({ total: 5, completed: 5, failed: 0 });
});

test('a cancel that comes twice is one, also before the lines were counted', async () => {
  const world = await batchWorld();
  const { id } = await world.submit(inputs(5));
  const twice = await Promise.all([world.mill.batches.cancel(id), world.mill.batches.cancel(id)]);
  expect(twice.map(({ status }) => status)).toEqual(['cancelling', 'cancelling']);
  await world.advance();
  const cancelled = await world.is(id, 'cancelled');
  expect(cancelled.request_counts.completed).toBe(0);
  expect((await world.mill.list({ batch: id })).runs).toEqual([]);
});

test('failed lines that are redriven while others run have one outcome each', async () => {
  const world = await batchWorld();
  const works = { now: false };
  const kept: (() => Promise<void>)[] = [];
  playFleet(world, async (writer, input) => {
    const fails = Number(input.slice(6)) % 2 === 1 && !works.now;
    if (fails) await writer.end('failed');
    else if (works.now) await writer.end();
    else kept.push(() => writer.end());
  });
  await world.advance();
  const { id } = await world.submit([...inputs(20), { id: 'bad' }]);
  await until('half has failed', async () => (await world.mill.batches.get(id)).request_counts.failed === 11);
  works.now = true;
  expect((await world.mill.batches.redrive(id)).lines).toBe(11);
  await until('the failed runs are queued again', async () => {
    const { runs } = await world.mill.list({ status: 'queued', limit: 100 });
    return runs.length === 20 ? runs : undefined;
  });
  for (const end of kept) await end();
  const { runs } = await world.mill.list({ status: 'queued', limit: 100 });
  await Promise.all(runs.map(({ runId }) => world.mill.cancel(runId)));
  const ended = await world.is(id, 'completed');
  expect(ended.request_counts).toEqual({ total: 21, completed: 10, failed: 11 });
  const output = await world.read(ended.output_file_id);
  expect(output).toHaveLength(21);
  expect(new Set(output.map((line) => line['id']))).toEqual(new Set([...inputs(20).map((line) => line.id), 'bad']));
  expect(ended.cost.microcents).toBe(output.reduce((sum, line) => sum + Number(line['costMicrocents'] ?? 0), 0));
});

test('a file whose every line is bad ends with an error for each, and an empty one fails', async () => {
  const world = await batchWorld();
  await world.advance();
  const bad = await world.submit('{}\nx\n[]\n');
  const ended = await world.is(bad.id, 'completed');
  expect(ended.request_counts).toEqual({ total: 3, completed: 0, failed: 3 });
  expect(await world.read(ended.output_file_id)).toHaveLength(3);
  const empty = await world.submit('');
  expect((await world.is(empty.id, 'failed')).errors?.data).toMatchObject([{ param: 'input_file_id' }]);
});

test('an agent that is gone by the time of a line is an error of that line', async () => {
  const world = await batchWorld();
  await world.mill.registerAgents([{ id: 'support', model: 'm', tools: [] }]);
  playFleet(world, (writer) => writer.end());
  await world.advance();
  const { id } = await world.submit([
    { id: 'a', input: 'x' },
    { id: 'b', input: 'x', agent: 'vanished' },
  ]);
  const ended = await world.is(id, 'completed');
  expect(ended.request_counts).toEqual({ total: 2, completed: 1, failed: 1 });
  const output = await world.read(ended.output_file_id);
  expect(output.find((line) => line['id'] === 'b')?.['error']).toMatchObject({ code: 'validation' });
});
