import { expect, test } from 'vitest';
import { redisFleet } from '../../../../src/shared/state/fleet/fleet.ts';
import { until } from '../../../support/redis.ts';
import { fileText } from '../../../support/batches.ts';
import { playFleet } from '../support.ts';
import { batchWorld } from './batch-world.ts';

const inputs = (count: number, of = 'input') =>
  Array.from({ length: count }, (_, index) => ({ id: `l${index}`, input: `${of} ${index}` }));

test('a batch whose job was lost is found, and one that rests is found when it expires', async () => {
  const world = await batchWorld();
  const lost = await world.submit(inputs(3));
  await world.redis.del(world.bull('batches', 'wait'), world.bull('batches', `${lost.id}-1`));
  const resting = await world.submit(inputs(3));
  await world.mill.batches.pause(resting.id);
  playFleet(world, (writer) => writer.end());
  await world.advance();
  await until('it rests', async () => (await world.redis.lrange(world.bull('batches', 'active'), 0, -1)).length === 0);
  for (const { id } of [lost, resting]) await world.redis.hset(world.keys.batch(id), 'createdAt', Date.now() - 60_000);
  await world.redis.hset(world.keys.batch(resting.id), 'expiresAt', Date.now() - 1);
  await world.redis.del(world.keys.batchSweep);
  expect((await world.is(lost.id, 'completed')).request_counts.completed).toBe(3);
  expect((await world.is(resting.id, 'expired')).request_counts.completed).toBe(0);
  await until('none is listed as open', async () => (await world.redis.zcard(world.keys.batchesOpen)) === 0);
});

test('batches that wait for a process get it in turns', async () => {
  const world = await batchWorld();
  await world.advance({ atOnce: 1, turnMs: 1 });
  const first = await world.submit(inputs(5), { maxOpen: 1 });
  await until('a line of the first is open', async () => (await world.mill.batches.get(first.id)).open.total === 1);
  const second = await world.submit(inputs(5, 'other'), { maxOpen: 1 });
  await until('a line of the second is open', async () => (await world.mill.batches.get(second.id)).open.total === 1);
  playFleet(world, (writer) => writer.end());
  for (const { id } of [first, second]) {
    const ended = await world.is(id, 'completed');
    expect(await world.read(ended.output_file_id)).toHaveLength(5);
  }
});

test('a process that is closed lets its batches go on elsewhere, with what is open', async () => {
  const world = await batchWorld();
  const first = await world.advance();
  const { id } = await world.submit(inputs(6), { maxOpen: 2 });
  await until('lines are open', async () => (await world.mill.batches.get(id)).open.total === 2);
  await first[Symbol.asyncDispose]();
  expect((await world.mill.batches.get(id)).open.total).toBe(2);
  await world.advance();
  playFleet(world, (writer) => writer.end());
  const ended = await world.is(id, 'completed');
  expect(ended.cost.microcents).toBe(6 * 700);
  expect((await world.mill.list({ batch: id, limit: 100 })).runs).toHaveLength(6);
});

test('the same line in a batch of the same name is the same run', async () => {
  const world = await batchWorld();
  playFleet(world, (writer) => writer.end());
  await world.advance();
  const first = await world.is((await world.submit(inputs(2), { name: 'night' })).id, 'completed');
  const again = inputs(3).toReversed();
  const second = await world.is((await world.submit(again, { name: 'night' })).id, 'completed');
  const runsOf = async (fileId: string | undefined) =>
    Object.fromEntries((await world.read(fileId)).map((line) => [line['id'], line['runId']]));
  expect(await runsOf(second.output_file_id)).toMatchObject(await runsOf(first.output_file_id));
  expect((await world.mill.list({ batch: 'night', limit: 100 })).runs).toHaveLength(3);
});

test('lines of a cancelled batch that are redriven run anew', async () => {
  const world = await batchWorld();
  await world.advance();
  const { id } = await world.submit(inputs(4), { maxOpen: 2 });
  await until('lines are open', async () => (await world.mill.batches.get(id)).open.total === 2);
  await world.mill.batches.cancel(id);
  expect((await world.is(id, 'cancelled')).request_counts).toEqual({ total: 4, completed: 0, failed: 4 });
  playFleet(world, (writer) => writer.end());
  expect((await world.mill.batches.redrive(id)).lines).toBe(4);
  const ended = await world.is(id, 'completed');
  expect(ended.request_counts).toEqual({ total: 4, completed: 4, failed: 0 });
  expect(await world.read(ended.output_file_id)).toHaveLength(4);
});

test('a batch whose input file is removed ends as failed, and its runs are stopped', async () => {
  const world = await batchWorld();
  await world.advance();
  const { id, input_file_id } = await world.submit(inputs(400), { maxOpen: 1 });
  await until('a line is open', async () => (await world.mill.batches.get(id)).open.total === 1);
  await world.mill.batches.pause(id);
  const isPaused = () => world.news.some((news) => news.kind === 'status' && news.record.status === 'paused');
  await until('the process knows that it is paused', isPaused);
  await world.mill.files.remove(input_file_id);
  await world.mill.batches.resume(id);
  const [run] = (await world.mill.list({ batch: id })).runs;
  const failed = await world.is(id, 'failed');
  expect(failed.errors?.data[0]).toMatchObject({ code: 'not_found', param: 'input_file_id' });
  expect((await world.mill.result(run?.runId as string)).status).toBe('cancelled');
});

test('the output of a CSV has the fields of the structured answer of its agent as columns', async () => {
  const world = await batchWorld();
  await world.mill.registerAgents([{ id: 'support', model: 'm', tools: [], answerFields: ['city', 'country'] }]);
  playFleet(world, (writer) => writer.end());
  await world.advance();
  const { id } = await world.submit('ticket,input\n7,"Where, exactly?"\n', { filename: 'in.csv' });
  const ended = await world.is(id, 'completed');
  const [header, row] = (await fileText(world.mill, ended.output_file_id as string)).split('\n');
  expect(header).toMatch(/^ticket,input,status,city,country,text,/);
  expect(row).toMatch(/^7,"Where, exactly\?",completed,/);
});

test('a quote knows what the providers of the workers take', async () => {
  const world = await batchWorld();
  const provider = { id: 'slow', kind: 'openai', hasKey: true, tokensPerMinute: 60 } as const;
  const facts = { name: 'w', concurrency: 10, active: 0, startedAt: new Date().toISOString(), runs: [], version: '1' };
  const fleet = redisFleet({ redis: world.redis, keys: world.keys });
  await fleet.heartbeat({ ...facts, queues: ['runs'], providers: [provider] });
  playFleet(world, (writer) => writer.end());
  await world.advance();
  const { id } = await world.submit(inputs(124), { quote: { lines: 4 } });
  // 120 lines of 5 tokens, 60 tokens a minute: ten minutes, give or take. Without the limit it would be seconds.
  expect((await world.is(id, 'quoted')).quote?.seconds.low).toBeGreaterThan(300);
});

test('a batch shows which of its lines wait for money, and which for people', async () => {
  const world = await batchWorld();
  const waits = { 'input 0': 'budget', 'input 1': 'budget', 'input 2': 'approval' } as const;
  playFleet(world, async (writer, input) => {
    const kind = waits[input as keyof typeof waits];
    const pending = [{ kind, id: 'batch:b', requestedAt: new Date().toISOString() }];
    const fields = { status: 'suspended', held: '0', owner: '', pending: JSON.stringify(pending) };
    await writer.emit([{ type: 'run.suspended', reason: kind, pending }], { fields });
  });
  await world.advance();
  const { id } = await world.submit(inputs(3));
  const found = await until('they wait', async () => {
    const { open } = await world.mill.batches.get(id);
    return open.waitingForMoney === 2 && open.waitingForPeople === 1 ? open : undefined;
  });
  expect(found.total).toBe(3);
});
