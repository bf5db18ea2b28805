import { expect, test } from 'vitest';
import type { BatchClient } from '../../../src/producer/batch/run-batch.ts';
import { RunError } from '../../../src/shared/base/errors.ts';
import { until } from '../../support/redis.ts';
import { clientWorld, type ClientWorld } from '../cli/options/client.ts';
import { RunWriter } from '../support/run-writer.ts';
import { again, playFleet, readResults, startBatch, writeLines } from './support.ts';

const inputs = (count: number) => Array.from({ length: count }, (_, index) => `input ${index + 1}`);

test('every line gets one result line, with its name, its run and its cost', async () => {
  const world = await clientWorld();
  playFleet(world, (writer) => writer.end());
  const { summary, out, watched } = startBatch(world.mill, [{ input: 'a', id: 'first' }, 'b', 'c']);
  expect(await summary).toEqual({
    batch: 'in',
    end: 'finished',
    total: 3,
    earlier: 0,
    finished: 3,
    failed: 0,
    refused: 0,
    running: 0,
    waiting: 0,
    waitingForMoney: 0,
    costMicrocents: 2_100,
  });
  const results = readResults(out).toSorted((a, b) => a.line - b.line);
  expect(results.map(({ line, id }) => [line, id])).toEqual([
    [1, 'first'],
    [2, undefined],
    [3, undefined],
  ]);
  for (const { runId, text, usage, status } of results) {
    expect({ text, status, total: usage?.total }).toEqual({ text: 'It is on its way.', status: 'completed', total: 5 });
    expect((await world.mill.get(runId as string)).status).toBe('completed');
  }
  expect(watched.progress.at(-1)).toMatchObject({ finished: 3, running: 0 });
});

test('a bad line and a failed run are reported and hinder no other', async () => {
  const world = await clientWorld();
  playFleet(world, (writer, input) => writer.end(input === 'fail' ? 'failed' : 'completed'));
  const { summary, out, watched } = startBatch(world.mill, [
    'a',
    { inptu: 'x' },
    'fail',
    { input: 'x', metadata: { password: 'p' } },
    'e',
  ]);
  expect(await summary).toMatchObject({ end: 'finished', total: 5, finished: 5, failed: 3, refused: 2 });
  expect(
    watched.refused.map(({ line, error }) => [line, error.code]).toSorted(([a], [b]) => Number(a) - Number(b)),
  ).toEqual([
    [2, 'validation'],
    [4, 'secret_in_payload'],
  ]);
  const failed = readResults(out).filter(({ status }) => status === 'failed');
  expect(
    Object.fromEntries(failed.map(({ line, error, runId }) => [line, [error?.code, runId !== undefined]])),
  ).toEqual({
    2: ['validation', false],
    3: ['provider_unavailable', true],
    4: ['secret_in_payload', false],
  });
});

test('a batch that was interrupted goes on where it was, and no line runs or is written twice', async () => {
  const world = await clientWorld();
  let ended = 0;
  playFleet(world, async (writer) => {
    ended += 1;
    await writer.end();
  });
  const first = startBatch(world.mill, inputs(60), { window: 10 });
  await until('a third of the batch', () => (first.watched.progress.at(-1)?.finished ?? 0) >= 20);
  first.interrupt();
  const stopped = await first.summary;
  expect(stopped.end).toBe('interrupted');
  expect(stopped.finished).toBeLessThan(60);

  const second = again(world.mill, { file: first.file, out: first.out });
  expect(await second.summary).toMatchObject({
    end: 'finished',
    total: 60,
    earlier: stopped.finished,
    finished: 60,
    failed: 0,
  });
  const lines = readResults(first.out).map(({ line }) => line);
  expect(lines.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 60 }, (_, index) => index + 1));
  expect(ended).toBe(60);
  expect(await world.redis.zcard(world.keys.index('default'))).toBe(60);
});

test('a finished batch that is repeated does nothing, and a new output file gets the old results', async () => {
  const world = await clientWorld();
  playFleet(world, (writer) => writer.end());
  const first = startBatch(world.mill, inputs(5));
  await first.summary;
  const repeated = again(world.mill, { file: first.file, out: first.out });
  expect(await repeated.summary).toMatchObject({ end: 'finished', earlier: 5, finished: 5 });
  expect(readResults(first.out)).toHaveLength(5);
  const copied = again(world.mill, { file: first.file, out: `${first.out}.copy` });
  expect(await copied.summary).toMatchObject({ earlier: 0, finished: 5 });
  const runIds = (path: string) =>
    readResults(path)
      .map(({ runId }) => String(runId))
      .toSorted((a, b) => a.localeCompare(b));
  expect(runIds(`${first.out}.copy`)).toEqual(runIds(first.out));
});

test('a file that was corrected, sorted and extended goes on in its output, and no unchanged line runs again', async () => {
  const world = await clientWorld();
  const ran: string[] = [];
  playFleet(world, async (writer, input) => {
    ran.push(input);
    await writer.end();
  });
  const first = startBatch(world.mill, ['a', 'b', { inptu: 'c' }, 'gone']);
  expect(await first.summary).toMatchObject({ end: 'finished', total: 4, failed: 1, refused: 1 });
  writeLines(first.file, ['new', 'b', 'c', 'a']);
  const second = again(world.mill, { file: first.file, out: first.out });
  expect(await second.summary).toMatchObject({ end: 'finished', total: 4, earlier: 2, finished: 4, failed: 0 });
  expect(second.watched.replaced).toEqual([1]);
  expect(ran.toSorted((a, b) => a.localeCompare(b))).toEqual(['a', 'b', 'c', 'gone', 'new']);
  const lines = new Map(readResults(first.out).map(({ line, runId }) => [line, runId]));
  expect([...lines.keys()].toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4]);
  const inputs = await Promise.all(
    [1, 2, 3, 4].map(async (line) => {
      const request = await world.redis.hget(world.keys.run(lines.get(line) as string), 'request');
      return (JSON.parse(request ?? '{}') as { input: string }).input;
    }),
  );
  expect(inputs).toEqual(['new', 'b', 'c', 'a']);
  expect(readResults(`${first.out}.replaced`).map(({ line }) => line)).toEqual([4]);
});

test('a bad line is reported in each try, and counts once', async () => {
  const world = await clientWorld();
  playFleet(world, (writer) => writer.end());
  const first = startBatch(world.mill, ['a', { inptu: 'b' }], { maxFailures: 2 });
  expect(await first.summary).toMatchObject({ end: 'finished' });
  const second = again(world.mill, { file: first.file, out: first.out, maxFailures: 1 });
  expect(await second.summary).toMatchObject({ end: 'finished', earlier: 2, finished: 2, failed: 1 });
  expect(second.watched.refused).toEqual(first.watched.refused);
  expect(readResults(first.out)).toHaveLength(2);
});

test('failed runs go on when failures are retried, and stay failed otherwise', async () => {
  const world = await clientWorld();
  const ends = new Set<string>();
  playFleet(world, async (writer, input) => {
    ends.add(input);
    await writer.end(input === 'b' ? 'failed' : 'completed');
  });
  const first = startBatch(world.mill, ['a', 'b']);
  expect(await first.summary).toMatchObject({ failed: 1, refused: 0 });
  const unchanged = again(world.mill, { file: first.file, out: first.out });
  expect(await unchanged.summary).toMatchObject({ earlier: 2, failed: 1 });
  const failed = readResults(first.out).find(({ status }) => status === 'failed')?.runId as string;
  const retried = again(world.mill, { file: first.file, out: first.out, retryFailed: true });
  await until('the run to be queued again', async () => (await world.mill.get(failed)).status === 'queued');
  await new RunWriter(world.redis, world.keys, failed).end();
  expect(await retried.summary).toMatchObject({ earlier: 1, finished: 2, failed: 0 });
  expect(readResults(first.out).map(({ runId, status }) => [runId === failed, status])).toEqual([
    [false, 'completed'],
    [true, 'completed'],
  ]);
  expect(ends.size).toBe(2);
});

test('a failed run that cannot go on stays failed, and a Redis that is away ends the batch', async () => {
  const world = await clientWorld();
  playFleet(world, (writer) => writer.end('failed'));
  const first = startBatch(world.mill, ['a']);
  await first.summary;
  const refusing = (code: 'validation' | 'queue_unavailable'): BatchClient => ({
    ...withoutFeed(world.mill),
    redrive: () => Promise.reject(new RunError(code, 'no')),
  });
  const retry = (client: BatchClient) => again(client, { file: first.file, out: first.out, retryFailed: true }).summary;
  await expect(retry(refusing('queue_unavailable'))).rejects.toMatchObject({ code: 'queue_unavailable' });
  expect(await retry(refusing('validation'))).toMatchObject({ end: 'finished', finished: 1, failed: 1 });
});

test('money that an earlier batch of the name has spent is reported, and what this one spent is not', async () => {
  const world = await clientWorld();
  playFleet(world, (writer) => writer.end());
  const budgets = {
    set: async (...given: Parameters<BatchClient['budgets']['set']>) => ({
      ...(await world.mill.budgets.set(...given)),
      spentMicrocents: 700,
    }),
  } as BatchClient['budgets'];
  const client: BatchClient = {
    ...losingFirstAnswer(world.mill),
    enqueueMany: (all) => world.mill.enqueueMany(all),
    budgets,
  };
  const budget = { maxCostMicrocents: 1_000_000 };
  const first = startBatch(client, ['a'], { budget });
  await first.summary;
  const second = again(client, { file: first.file, out: first.out, budget });
  await second.summary;
  expect([first.watched.spentBefore, second.watched.spentBefore]).toEqual([[700], []]);
});

test('the name is the batch: another one runs the lines again, and its runs have it', async () => {
  const world = await clientWorld();
  playFleet(world, (writer) => writer.end());
  const first = startBatch(world.mill, ['a'], { name: 'monday' });
  await first.summary;
  const second = again(world.mill, { file: first.file, out: `${first.out}.2`, name: 'tuesday' });
  expect(await second.summary).toMatchObject({ batch: 'tuesday', earlier: 0 });
  const runIds = [...readResults(first.out), ...readResults(`${first.out}.2`)].map(({ runId }) => runId as string);
  expect(await Promise.all(runIds.map(async (runId) => (await world.mill.get(runId)).batch))).toEqual([
    'monday',
    'tuesday',
  ]);
  await expect(again(world.mill, { file: first.file, out: first.out, name: 'a:b' }).summary).rejects.toMatchObject({
    code: 'validation',
  });
});

test('no more runs are in flight than the window allows', async () => {
  const world = await clientWorld();
  const { summary, watched } = startBatch(world.mill, inputs(9), { window: 4 });
  await until('the window to be full', () => watched.progress.at(-1)?.running === 4);
  expect(await world.redis.zcard(world.keys.index('default'))).toBe(4);
  playFleet(world, (writer) => writer.end());
  expect(await summary).toMatchObject({ end: 'finished', finished: 9 });
  expect(Math.max(...watched.progress.map(({ running }) => running))).toBe(4);
});

test('an end that the live feed missed is found by looking', async () => {
  const world = await clientWorld();
  playFleet(world, (writer) => writer.end('completed', { unpublished: true }));
  const { summary } = startBatch(world.mill, inputs(3));
  expect(await summary).toMatchObject({ end: 'finished', finished: 3 });
});

test('a full queue is waited out and reported', async () => {
  const world = await clientWorld({ queueMaxLength: 2 });
  const { summary, watched } = startBatch(world.mill, inputs(5));
  await until('the batch to wait', () => watched.waiting.length > 0);
  expect(watched.waiting[0]?.code).toBe('queue_full');
  playFleet(world, async (writer) => {
    await writer.end();
    await world.redis.del(world.bull('runs', 'wait'));
  });
  expect(await summary).toMatchObject({ end: 'finished', finished: 5, failed: 0 });
});

/** A client whose first enqueue is lost after it took effect. */
function losingFirstAnswer(client: BatchClient): BatchClient {
  let lost = false;
  return {
    budgets: client.budgets,
    redrive: (request) => client.redrive(request),
    agents: () => client.agents(),
    get: (runId) => client.get(runId),
    result: (runId, options) => client.result(runId, options),
    firehose: (options) => client.firehose(options),
    async enqueueMany(requests) {
      const answers = await client.enqueueMany(requests);
      if (lost) return answers;
      lost = true;
      throw new RunError('queue_unavailable', 'the answer was lost');
    },
  };
}

/** Suspends a run for money of the batch that it names, as a worker does. */
async function suspendForMoney({ redis, keys }: ClientWorld, writer: RunWriter): Promise<void> {
  const { batch } = JSON.parse((await redis.hget(keys.run(writer.runId), 'request')) ?? '{}') as { batch: string };
  await suspend(writer, 'budget', `batch:${batch}`);
}

async function suspend(writer: RunWriter, kind: 'budget' | 'approval', id: string): Promise<void> {
  const pending = [{ kind, id, requestedAt: new Date().toISOString() }];
  const fields = { status: 'suspended', pending: JSON.stringify(pending) };
  await writer.emit([{ type: 'run.suspended', reason: kind, pending }], { fields });
}

test('a batch is not out of money while a run of it works, or waits for a person', async () => {
  const world = await clientWorld();
  playFleet(world, async (writer, input) => {
    if (input === 'dear') await suspendForMoney(world, writer);
    if (input === 'grave') await suspend(writer, 'approval', 'call_1');
  });
  const working = startBatch(world.mill, ['dear', 'busy'], { name: 'working' });
  await until('one to wait', () => working.watched.progress.at(-1)?.waitingForMoney === 1);
  expect(working.watched.progress.at(-1)).toMatchObject({ running: 1, waiting: 1 });
  working.interrupt();
  await working.summary;
  const asking = startBatch(world.mill, ['dear', 'grave'], { name: 'asking' });
  await until('both to wait', () => asking.watched.progress.at(-1)?.waiting === 2);
  expect(asking.watched.progress.at(-1)).toMatchObject({ running: 0, waitingForMoney: 1 });
  asking.interrupt();
  await asking.summary;
  expect([...working.watched.outOfMoney, ...asking.watched.outOfMoney]).toEqual([]);
});

test('a batch that waits for money reports it once, and finishes after there is more', async () => {
  const world = await clientWorld();
  const paused: RunWriter[] = [];
  playFleet(world, async (writer) => {
    await suspendForMoney(world, writer);
    paused.push(writer);
  });
  const { summary, watched } = startBatch(world.mill, inputs(3));
  await until('the batch to be out of money', () => watched.outOfMoney.length > 0);
  await until('all runs to wait', () => watched.progress.at(-1)?.waitingForMoney === 3);
  expect(watched.progress.at(-1)).toMatchObject({ running: 0, waiting: 3, finished: 0 });
  const [first, ...others] = paused as [RunWriter, ...RunWriter[]];
  // News about a run that waits already.
  const before = watched.progress.length;
  await suspend(first, 'budget', 'tenant:default');
  await until('the news to be read', () => watched.progress.length > before);
  expect(watched.outOfMoney).toHaveLength(1);
  await first.emit([{ type: 'run.resumed', directiveSummary: 'there is money' }], { fields: { status: 'queued' } });
  await until('one run to go on', () => watched.progress.at(-1)?.running === 1);
  await first.end();
  await until('the batch to be out of money again', () => watched.outOfMoney.length === 2);
  for (const writer of others) await writer.end();
  const { batch, ...rest } = await summary;
  expect(rest).toMatchObject({ end: 'finished', finished: 3, waiting: 0, waitingForMoney: 0 });
  expect(watched.outOfMoney[0]).toEqual([`batch:${batch}`]);
});

test('a run whose suspension the feed missed is found waiting', async () => {
  const world = await clientWorld();
  playFleet(world, (writer) => suspendForMoney(world, writer));
  const { watched, interrupt, summary } = startBatch(withoutFeed(world.mill), inputs(1));
  await until('the run to be found', () => watched.outOfMoney.length > 0, 15_000);
  interrupt();
  expect(await summary).toMatchObject({ end: 'interrupted', waiting: 1, running: 0 });
});

/** A client whose feed stays silent. */
function withoutFeed(client: BatchClient): BatchClient {
  return {
    budgets: client.budgets,
    redrive: (request) => client.redrive(request),
    agents: () => client.agents(),
    get: (runId) => client.get(runId),
    result: (runId, options) => client.result(runId, options),
    enqueueMany: (requests) => client.enqueueMany(requests),
    async *firehose({ signal } = {}) {
      await new Promise((resolve) => signal?.addEventListener('abort', resolve));
      yield* [];
    },
  };
}

test('a lost answer does not make a line run twice', async () => {
  const world = await clientWorld();
  playFleet(world, (writer) => writer.end());
  const { summary, watched } = startBatch(losingFirstAnswer(world.mill), inputs(5));
  expect(await summary).toMatchObject({ end: 'finished', finished: 5, failed: 0 });
  expect(watched.waiting.map(({ code }) => code)).toEqual(['queue_unavailable']);
  expect(await world.redis.zcard(world.keys.index('default'))).toBe(5);
});

test('too many failures stop the batch, and those of an earlier try do not count again', async () => {
  const world = await clientWorld();
  playFleet(world, (writer) => writer.end('failed'));
  const first = startBatch(world.mill, inputs(20), { window: 1, maxFailures: 3 });
  const stopped = await first.summary;
  expect(stopped.end).toBe('too_many_failures');
  expect(stopped.failed).toBe(3);
  const second = again(world.mill, { file: first.file, out: first.out, window: 1, maxFailures: 3 });
  expect(await second.summary).toMatchObject({ end: 'too_many_failures', earlier: 3, failed: 6 });
});

test('an agent that no worker knows is refused before anything is begun', async () => {
  const world = await clientWorld();
  await world.mill.registerAgents([{ id: 'support', model: 'm', tools: [] }]);
  const { summary } = startBatch(world.mill, inputs(2), { defaults: { agent: 'suport' } });
  await expect(summary).rejects.toMatchObject({
    code: 'validation',
    message: expect.stringContaining('suport') as string,
  });
  expect(await world.redis.zcard(world.keys.index('default'))).toBe(0);
});

test('an empty file is a finished batch', async () => {
  const { mill } = await clientWorld();
  expect(await startBatch(mill, []).summary).toMatchObject({ end: 'finished', total: 0 });
});

test('other defects of the client end the batch with their own error', async () => {
  const { mill } = await clientWorld();
  const broken: BatchClient = {
    budgets: mill.budgets,
    redrive: (request) => mill.redrive(request),
    agents: () => mill.agents(),
    get: (runId) => mill.get(runId),
    result: (runId, options) => mill.result(runId, options),
    firehose: (options) => mill.firehose(options),
    enqueueMany: () => Promise.reject(new RunError('internal', 'a defect')),
  };
  await expect(startBatch(broken, inputs(2)).summary).rejects.toMatchObject({ code: 'internal', message: 'a defect' });
});
