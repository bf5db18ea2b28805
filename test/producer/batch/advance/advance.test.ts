import { redisFleet } from '../../../../src/shared/state/fleet/fleet.ts';
import { expect, test } from 'vitest';
import { until } from '../../../support/redis.ts';
import { RunWriter } from '../../support/run-writer.ts';
import { playFleet } from '../support.ts';
import { batchWorld } from './batch-world.ts';

const inputs = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: `l${index}`, input: `input ${index}` }));

test('every line has one line of output, and counts and cost add up', async () => {
  const world = await batchWorld();
  playFleet(world, (writer) => writer.end());
  await world.advance();
  const { id } = await world.submit(inputs(100), { maxOpen: 20 });
  const ended = await world.is(id, 'completed');
  expect(ended.request_counts).toEqual({ total: 100, completed: 100, failed: 0 });
  expect(ended.cost.microcents).toBe(100 * 700);
  expect(ended.usage).toEqual({ input_tokens: 300, output_tokens: 200, total_tokens: 500 });
  const lines = await world.read(ended.output_file_id);
  expect(new Set(lines.map((line) => line['id']))).toEqual(new Set(inputs(100).map((line) => line.id)));
  expect(lines).toHaveLength(100);
});

test('a bad line and a failed run are failures that hinder no other', async () => {
  const world = await batchWorld();
  playFleet(world, (writer, input) => writer.end(input === 'fail' ? 'failed' : 'completed'));
  await world.advance();
  const lines = [
    { id: 'a', input: 'a' },
    { id: 'b', inptu: 'x' },
    { id: 'c', input: 'fail' },
    { id: 'd', input: 'x', metadata: { password: 'p' } },
  ];
  const { id } = await world.submit(lines);
  const ended = await world.is(id, 'completed');
  expect(ended.request_counts).toEqual({ total: 4, completed: 1, failed: 3 });
  const output = await world.read(ended.output_file_id);
  expect(
    Object.fromEntries(output.map((line) => [line['id'], (line['error'] as { code?: string } | null)?.code])),
  ).toEqual({
    a: undefined,
    b: 'validation',
    c: 'provider_unavailable',
    d: 'secret_in_payload',
  });
  expect(ended.error_file_id).toBeUndefined();
  const counted = world.news.flatMap((news) => (news.kind === 'line' ? [news.end] : []));
  expect(counted.toSorted()).toEqual(['answered', 'failed', 'refused', 'refused']);
});

test('no more lines are open than may be, and a paused batch begins none until it is resumed', async () => {
  const world = await batchWorld();
  await world.advance();
  const { id } = await world.submit(inputs(30), { maxOpen: 7 });
  await until('as many are open as may be', async () => (await world.mill.batches.get(id)).open.total === 7);
  expect((await world.mill.batches.pause(id)).status).toBe('paused');
  playFleet(world, (writer) => writer.end());
  const paused = await until('the open lines have ended', async () => {
    const view = await world.mill.batches.get(id);
    return view.open.total === 0 ? view : undefined;
  });
  expect(paused).toMatchObject({ status: 'paused', reason: 'asked', request_counts: { completed: 7, failed: 0 } });
  await until('nobody has the batch', async () => (await world.redis.hget(world.keys.batch(id), 'stay')) === '');
  expect((await world.mill.list({ batch: id, limit: 100 })).runs).toHaveLength(7);
  expect((await world.mill.batches.resume(id)).status).toBe('in_progress');
  const ended = await world.is(id, 'completed');
  expect(ended.request_counts).toEqual({ total: 30, completed: 30, failed: 0 });
  expect(await world.read(ended.output_file_id)).toHaveLength(30);
});

test('a cancelled batch has the answers that there are, and says of all other lines that it was cancelled', async () => {
  const world = await batchWorld();
  await world.advance();
  const { id } = await world.submit(inputs(20), { maxOpen: 5 });
  const ended = new Set<string>();
  playFleet(world, async (writer) => {
    if (ended.size === 2) return;
    ended.add(writer.runId);
    await writer.end();
  });
  await until('two lines have answers', async () => (await world.mill.batches.get(id)).request_counts.completed === 2);
  expect(['cancelling', 'cancelled']).toContain((await world.mill.batches.cancel(id)).status);
  const cancelled = await world.is(id, 'cancelled');
  expect(cancelled.request_counts).toEqual({ total: 20, completed: 2, failed: 18 });
  const output = await world.read(cancelled.output_file_id);
  expect(new Set(output.map((line) => line['id'])).size).toBe(20);
  expect(output).toHaveLength(20);
  expect(output.filter((line) => (line['error'] as { code?: string } | null)?.code === 'cancelled')).toHaveLength(18);
  await expect(world.mill.batches.cancel(id)).rejects.toMatchObject({ code: 'already_terminal' });
  await expect(world.mill.batches.pause(id)).rejects.toMatchObject({ code: 'already_terminal' });
});

test('failed lines run again, and the output of an ended batch is made anew with one entry for each line', async () => {
  const world = await batchWorld();
  const works = { now: false };
  playFleet(world, (writer, input) => writer.end(input === 'input 3' && !works.now ? 'failed' : 'completed'));
  await world.advance();
  const { id } = await world.submit([...inputs(6), { id: 'bad' }]);
  const first = await world.is(id, 'completed');
  expect(first.request_counts).toEqual({ total: 7, completed: 5, failed: 2 });
  works.now = true;
  const redriven = await world.mill.batches.redrive(id);
  const { runId } = await until('the failed run is queued again', async () => {
    const { runs } = await world.mill.list({ status: 'queued' });
    return runs[0];
  });
  await new RunWriter(world.redis, world.keys, runId, await world.redis.xlen(world.keys.events(runId))).end();
  expect(redriven.lines).toBe(2);
  expect(redriven.batch.status).toBe('in_progress');
  expect(redriven.batch.output_file_id).toBeUndefined();
  const second = await world.is(id, 'completed');
  expect(second.request_counts).toEqual({ total: 7, completed: 6, failed: 1 });
  const output = await world.read(second.output_file_id);
  expect(output.map((line) => String(line['id'])).toSorted(byText)).toEqual([
    'bad',
    'l0',
    'l1',
    'l2',
    'l3',
    'l4',
    'l5',
  ]);
  expect(second.cost.microcents).toBe(output.reduce((sum, line) => sum + Number(line['costMicrocents'] ?? 0), 0));
  await expect(world.mill.files.get(first.output_file_id as string)).rejects.toMatchObject({ code: 'not_found' });
});

test('a batch that expires ends with what there is', async () => {
  const world = await batchWorld();
  await world.advance();
  const { id } = await world.submit(inputs(4), { maxOpen: 2, completion_window: '1h' });
  await until('lines are open', async () => (await world.mill.batches.get(id)).open.total === 2);
  await world.redis.hset(world.keys.batch(id), 'expiresAt', Date.now());
  const expired = await world.is(id, 'expired');
  expect(expired.request_counts).toEqual({ total: 4, completed: 0, failed: 4 });
  const output = await world.read(expired.output_file_id);
  expect(output.map((line) => (line['error'] as { code?: string }).code)).toEqual(Array(4).fill('batch_expired'));
});

test('a quote waits, goes on below its cap, or refuses above it; lines of the sample are lines of the batch', async () => {
  const world = await batchWorld();
  playFleet(world, (writer) => writer.end());
  await world.advance();
  const [waits, cheap, dear] = await Promise.all([
    world.submit(inputs(40), { quote: { lines: 4 } }),
    world.submit(inputs(40), { quote: { lines: 4, maxCostUsd: 1 } }),
    world.submit(inputs(40), { quote: { lines: 4, maxCostUsd: 0.000_001 } }),
  ]);
  const quoted = await world.is(waits.id, 'quoted');
  expect(quoted).toMatchObject({ reason: 'quote', quote: { lines: 40, sampled: 4 }, request_counts: { completed: 4 } });
  expect(quoted.quote?.costUsd.low).toBeLessThanOrEqual(0.000_28);
  expect(quoted.quote?.costUsd.high).toBeGreaterThanOrEqual(0.000_28);
  expect((await world.is(cheap.id, 'completed')).request_counts.completed).toBe(40);
  expect(await world.is(dear.id, 'quoted')).toMatchObject({ reason: 'over_max_cost' });
  await world.mill.batches.resume(waits.id);
  const ended = await world.is(waits.id, 'completed');
  expect(await world.read(ended.output_file_id)).toHaveLength(40);
  await world.mill.batches.cancel(dear.id);
  expect((await world.is(dear.id, 'cancelled')).request_counts).toEqual({ total: 40, completed: 4, failed: 36 });
});

test('a quote knows what the provider of the workers takes a minute', async () => {
  const world = await batchWorld();
  const fleet = redisFleet(world);
  const announce = async (tokensPerMinute: number) => {
    const providers = [{ id: 'openai', kind: 'openai', hasKey: true, tokensPerMinute }] as const;
    const worker = {
      name: 'w',
      queues: ['runs'],
      concurrency: 50,
      active: 0,
      startedAt: '',
      runs: [],
      version: '',
      providers,
    };
    await fleet.heartbeat(worker);
  };
  playFleet(world, (writer) => writer.end());
  await world.advance();
  const secondsAt = async (tokensPerMinute: number) => {
    await announce(tokensPerMinute);
    const { id } = await world.submit(inputs(40), { quote: { lines: 4 } });
    return (await world.is(id, 'quoted')).quote?.seconds ?? { low: 0, high: 0 };
  };
  expect((await secondsAt(1_000_000)).low).toBeLessThan(60);
  expect((await secondsAt(1)).low).toBeGreaterThan(600);
});

test('after so many failures a batch is paused, and resumed it may fail as often again', async () => {
  const world = await batchWorld();
  playFleet(world, (writer) => writer.end('failed'));
  await world.advance();
  const { id } = await world.submit(inputs(40), { maxOpen: 2, maxFailures: 3 });
  const paused = await world.is(id, 'paused');
  expect(paused.reason).toBe('max_failures');
  expect(paused.request_counts.failed).toBeLessThan(8);
  await world.mill.batches.resume(id);
  await until('it fails again', async () => (await world.mill.batches.get(id)).request_counts.failed >= 6);
  expect(await world.is(id, 'paused')).toMatchObject({ reason: 'max_failures' });
});

function byText(a: string, b: string): number {
  return a < b ? -1 : 1;
}
