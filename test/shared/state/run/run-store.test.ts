import { expect, inject, onTestFinished, test } from 'vitest';
import { createLog } from '../../../../src/shared/base/log.ts';
import { Redactor } from '../../../../src/shared/base/redact.ts';
import { parseEvent, type RunEvent } from '../../../../src/shared/contract/event.ts';
import { redisRuns } from '../../../../src/shared/state/run/run-store.ts';
import { redisWorld, type RedisWorld } from '../../../contract/redis-world.ts';
import { claimed, seeded } from '../../../contract/store-world.ts';
import {
  aClaim,
  aCommit,
  aRecord,
  aTerminalCommit,
  complete,
  delta,
  agentStarted,
  opening,
  recovering,
} from '../../../contract/run-fixtures.ts';
import { startRedisProxy } from '../../../support/redis-proxy.ts';
import { testRedis, until } from '../../../support/redis.ts';

async function ended(world: RedisWorld, request: { executionId?: string; input?: string }): Promise<string> {
  const runId = await seeded(world, { request: { agent: 'support', input: 'hi', ...request } });
  const { owner } = await claimed(world, runId);
  const commit = aTerminalCommit(runId, 3, { entries: [agentStarted('m')] });
  expect(await world.runs.commit({ runId, owner }, commit)).toMatchObject({ kind: 'ok' });
  return runId;
}

/** Seconds until the record, the journal and the events of a run expire; -1 when they never do. */
async function expiries({ redis, keys }: RedisWorld, runId: string): Promise<number[]> {
  return await Promise.all([keys.run(runId), keys.journal(runId), keys.events(runId)].map((key) => redis.ttl(key)));
}

function logTo(lines: string[]) {
  return createLog('test', 'trace', new Redactor(), { write: (line) => lines.push(line) });
}

test('an ended run is kept for the result time and its events for the replay time', async () => {
  const world = await redisWorld(undefined, { resultTtlS: 500, eventLogTtlS: 50 });
  const open = await seeded(world);
  await claimed(world, open);
  expect(await expiries(world, open)).toEqual([-1, -2, -1]);
  const [run, journal, events] = await expiries(world, await ended(world, {}));
  expect([Math.ceil((run ?? 0) / 10), Math.ceil((journal ?? 0) / 10), Math.ceil((events ?? 0) / 10)]).toEqual([
    50, 50, 5,
  ]);
});

test('an ended run with an execution id is kept for a day at least', async () => {
  const short = await redisWorld(undefined, { resultTtlS: 500 });
  const [run = 0, journal = 0] = await expiries(short, await ended(short, { executionId: 'order-7' }));
  expect([run, journal].map((ttl) => Math.ceil(ttl / 100))).toEqual([864, 864]);
  const long = await redisWorld(undefined, { resultTtlS: 200_000 });
  const [longer = 0] = await expiries(long, await ended(long, { executionId: 'order-7' }));
  expect(Math.ceil(longer / 1_000)).toBe(200);
});

test('an input that talks about execution ids does not lengthen the retention', async () => {
  const world = await redisWorld(undefined, { resultTtlS: 500 });
  const [run] = await expiries(world, await ended(world, { input: '{"executionId":"x"}' }));
  expect(run).toBeLessThanOrEqual(500);
});

test('an ended run leaves the sets of open runs and of cancel requests', async () => {
  const world = await redisWorld();
  const runId = await seeded(world);
  const { owner } = await claimed(world, runId);
  await world.cancel(runId, { drain: false, onPendingApprovals: 'deny' });
  expect(await world.redis.zscore(world.keys.open, runId)).not.toBeNull();
  await world.runs.commit({ runId, owner }, aTerminalCommit(runId, 3));
  await until('the run to leave the open set', async () => (await world.redis.zscore(world.keys.open, runId)) === null);
  await until('the run to leave the cancel set', async () => !(await world.redis.sismember(world.keys.cancels, runId)));
});

test('a commit counts although the run cannot be taken out of the open set, and the log has no content', async () => {
  const lines: string[] = [];
  const world = await redisWorld(undefined, { log: logTo(lines) });
  const runId = await seeded(world);
  const { owner } = await claimed(world, runId);
  await world.redis.del(world.keys.open);
  await world.redis.set(world.keys.open, 'not a sorted set');
  expect(await world.runs.commit({ runId, owner }, aTerminalCommit(runId, 3))).toEqual({ kind: 'ok', seq: 4 });
  const line = await until('a log line', () => lines[0]);
  expect(JSON.parse(line)).toMatchObject({ level: 'warn', msg: 'ended run still listed as open', runId });
});

test('lifecycle events reach their stream and deltas stay out of the firehose', async () => {
  const world = await redisWorld();
  const received: RunEvent[] = [];
  const subscriber = await testRedis('subscribe');
  subscriber.on('message', (_: string, text: string) => received.push(...(JSON.parse(text) as RunEvent[])));
  await subscriber.subscribe(world.keys.firehose);
  const runId = await seeded(world);
  const { owner } = await claimed(world, runId);
  await world.runs.flush({ runId, owner }, 3, [delta(runId, 'a'), complete(runId, 'a')]);
  await world.runs.commit({ runId, owner }, aTerminalCommit(runId, 5));
  await until('the terminal event', () => received.some((event) => event.type === 'run.completed'));
  expect(received.map((event) => event.type)).toEqual([
    'execution.started',
    'run.started',
    'text.complete',
    'run.completed',
  ]);
  const stream = await world.redis.xrange(world.keys.lifecycle, '-', '+');
  const lifecycle = stream.map(([, [, json = '']]) => parseEvent(json));
  expect(lifecycle.map((event) => [event.sequenceNumber, event.type])).toEqual([
    [3, 'run.started'],
    [6, 'run.completed'],
  ]);
});

test('an event log longer than its bound loses its oldest events', async () => {
  const world = await redisWorld(undefined, { eventLogMax: 200 });
  const runId = await seeded(world);
  const { owner } = await claimed(world, runId);
  const deltas = Array.from({ length: 2_000 }, (_, index) => delta(runId, `${index}`));
  await world.runs.flush({ runId, owner }, 3, deltas);
  const events = await world.events(runId);
  expect(events.length).toBeLessThan(500);
  expect(events.at(-1)?.sequenceNumber).toBe(2_003);
});

test('a writer that wakes up after the log has expired does not bring it back', async () => {
  const world = await redisWorld();
  const runId = await seeded(world);
  const { owner } = await claimed(world, runId);
  await world.redis.del(world.keys.events(runId));
  expect(await world.runs.flush({ runId, owner }, 3, [delta(runId, 'late')])).toEqual({ kind: 'fenced' });
  expect(await world.redis.exists(world.keys.events(runId))).toBe(0);
});

test('a run that ended without its worker takes no more commits, even from the owner it still names', async () => {
  const world = await redisWorld();
  const runId = await seeded(world);
  const { owner } = await claimed(world, runId);
  await world.redis.hset(world.keys.run(runId), { status: 'failed', endedAt: '2026-01-02T03:04:06.000Z' });
  expect(await world.runs.commit({ runId, owner }, aTerminalCommit(runId, 3))).toEqual({ kind: 'fenced' });
  expect(await world.events(runId)).toHaveLength(3);
});

test('an empty flush asks Redis nothing', async () => {
  const world = await redisWorld();
  world.redis.disconnect();
  expect(await world.runs.flush({ runId: aRecord().runId, owner: 'o' }, 3, [])).toEqual({ kind: 'ok', seq: 3 });
});

test('a log that cannot be written fails the flush of its run and of no other', async () => {
  const world = await redisWorld();
  const [good, bad] = [await seeded(world), await seeded(world)];
  const owners = [await claimed(world, good), await claimed(world, bad)];
  await world.redis.del(world.keys.events(bad));
  await world.redis.set(world.keys.events(bad), 'not a stream');
  const flush = (runId: string, index: number) =>
    world.runs.flush({ runId, owner: owners[index]?.owner ?? '' }, 3, [delta(runId, 'x')]);
  const [first, second] = await Promise.allSettled([flush(bad, 1), flush(good, 0)]);
  expect(first).toMatchObject({ status: 'rejected', reason: { code: 'internal' } });
  expect(second).toEqual({ status: 'fulfilled', value: { kind: 'ok', seq: 4 } });
});

test('a journal that cannot be read says so, and from where the run can be ended', async () => {
  const world = await redisWorld();
  const broken = [
    ['not json', 'run_state_malformed'],
    ['{"v":1,"t":"unheard-of"}', 'run_state_malformed'],
    ['{"v":1,"t":"opened"}', 'run_state_malformed'],
    ['{"v":7,"t":"opened","model":"m"}', 'run_state_version_unsupported'],
  ] as const;
  for (const [text, code] of broken) {
    const runId = await seeded(world);
    await claimed(world, runId);
    await world.redis.rpush(world.keys.journal(runId), text);
    const request = aClaim(runId, { jobTry: 2 });
    const claim = world.runs.claim(request, opening(runId), recovering(runId));
    await expect(claim).rejects.toMatchObject({ code, details: { seq: 4 } });
    const end = aTerminalCommit(runId, 4);
    expect(await world.runs.commit({ runId, owner: request.owner }, end)).toMatchObject({ kind: 'ok' });
  }
});

test('a record that is damaged is read as far as it can be, and one of another version says so', async () => {
  const world = await redisWorld();
  const runId = await seeded(world, { steps: 3 });
  await world.redis.hset(world.keys.run(runId), 'usage', '{');
  expect(await world.runs.load(runId)).toMatchObject({ runId, status: 'queued', steps: 3 });
  await world.redis.hset(world.keys.run(runId), 'v', '2');
  await expect(world.runs.load(runId)).rejects.toMatchObject({ code: 'run_state_version_unsupported' });
});

test('a cancel request that cannot be read is one all the same, and hides no other', async () => {
  const world = await redisWorld();
  const [good, bad, surplus] = [await seeded(world), await seeded(world), aRecord().runId];
  const drain = { drain: true, onPendingApprovals: 'deny' } as const;
  await world.cancel(good, drain);
  await world.cancel(bad, drain);
  await world.redis.hset(world.keys.run(bad), 'cancel', '{');
  await world.redis.sadd(world.keys.cancels, surplus);
  expect(await world.runs.pendingCancels()).toEqual(
    new Map([
      [good, drain],
      [bad, { ...drain, drain: false }],
    ]),
  );
});

test('a store that cannot be reached says that, whatever was asked', async () => {
  const world = await redisWorld();
  const runId = await seeded(world);
  const redis = await testRedis('command');
  redis.disconnect();
  const runs = redisRuns({ ...world.options, redis });
  const asked = [
    () => runs.claim(aClaim(runId), opening(runId), recovering(runId)),
    () => runs.commit({ runId, owner: 'o' }, aCommit(1)),
    () => runs.flush({ runId, owner: 'o' }, 1, [delta(runId, 'x')]),
    () => runs.load(runId),
    () => runs.pendingCancels(),
  ];
  for (const ask of asked) {
    await expect(ask()).rejects.toMatchObject({ code: 'queue_unavailable', retryable: true, cause: expect.any(Error) });
  }
});

test('a claim, a commit and a flush whose replies are lost each take effect once', async () => {
  const proxy = await startRedisProxy(inject('redisUrl'));
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const world = await redisWorld();
  // Scripts are loaded on first use: that first answer is not the one to lose.
  await ended(world, {});
  await claimed(world, await seeded(world)).then(({ owner, record: { runId } }) =>
    world.runs.flush({ runId, owner }, 3, [delta(runId, 'x')]),
  );
  const lossy = redisRuns({ ...world.options, redis: await testRedis('work', proxy.url) });
  const lost = async <T>(ask: () => Promise<T>): Promise<T> => {
    const dropped = proxy.dropRepliesOnce();
    const answer = ask();
    await dropped;
    return await answer;
  };

  const runId = await seeded(world);
  const live = await world.live(runId);
  const request = aClaim(runId);
  const { owner } = request;
  const claim = await lost(() => lossy.claim(request, opening(runId), recovering(runId)));
  expect(claim).toMatchObject({
    kind: 'claimed',
    first: true,
    unclean: false,
    seq: 3,
    record: { epoch: 1, crashes: 0 },
  });
  const flush = await lost(() => lossy.flush({ runId, owner }, 3, [delta(runId, 'a'), delta(runId, 'b')]));
  expect(flush).toEqual({ kind: 'ok', seq: 5 });
  const commit = aCommit(5, { entries: [agentStarted('m')], events: [complete(runId, 'ab')] });
  expect(await lost(() => lossy.commit({ runId, owner }, commit))).toEqual({ kind: 'ok', seq: 6 });
  expect(await lost(() => lossy.commit({ runId, owner }, aTerminalCommit(runId, 6)))).toEqual({ kind: 'ok', seq: 7 });

  const events = await world.events(runId);
  expect(events.map((event) => event.sequenceNumber)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  expect(await world.redis.llen(world.keys.journal(runId))).toBe(1);
  await until('the terminal event', () => live.flat().some((event) => event.type === 'run.completed'));
  expect(live.flat()).toEqual(events.slice(1));
});
