import { expect, test } from 'vitest';
import { LogTails } from '../../../../src/shared/state/archive/log-tails.ts';
import { takeDue } from '../../../../src/shared/state/archive/due-runs.ts';
import { type EndedSpace, readEnded } from '../../../../src/shared/state/archive/ended-run.ts';
import { settledValue } from '../../../../src/shared/base/collections.ts';
import { newRunId } from '../../../../src/shared/base/ids.ts';
import { redisRuns } from '../../../../src/shared/state/run/run-store.ts';
import type { OutgoingEvent } from '../../../../src/shared/state/script.ts';
import { redisWorld } from '../../../contract/redis-world.ts';
import {
  aClaim,
  aCommit,
  aRecord,
  aTerminalCommit,
  complete,
  completed,
  opening,
  recovering,
} from '../../../contract/run-fixtures.ts';
import { until } from '../../../support/redis.ts';

const at = (second: number) => `2026-01-02T03:04:0${second}.000Z`;
const logged = (type: string, text = type) => ({ type, text });

/** A worker's view of runs in the test Redis, and what there is to see of a run without it. */
async function aWorker() {
  const world = await redisWorld(undefined, { archiveTtlS: 3_600, logTails: new LogTails() });
  const { redis, keys, options, runs } = world;
  const begin = async (runId: string) => {
    await world.seed(aRecord({ runId }));
    const claim = await runs.claim(aClaim(runId), opening(runId), recovering(runId));
    if (claim.kind !== 'claimed') throw new Error(`the run is ${claim.kind}`);
    return {
      seq: claim.seq,
      own: { runId, owner: (await redis.hget(keys.run(runId), 'owner')) ?? '', tenant: 'default' },
    };
  };
  const readIn = async (space: EndedSpace, runId: string) => (await readEnded(space, [runId])).map(settledValue)[0];
  const read = async (runId: string) => await readIn(options, runId);
  const readWhole = async (runId: string) => await readIn({ redis, keys }, runId);
  return { ...world, begin, read, readWhole };
}

test('what a process wrote of a log is what it would read there', async () => {
  const { runs, begin, read, readWhole, redis, keys } = await aWorker();
  const runId = newRunId(Date.now());
  let { seq, own } = await begin(runId);
  const event = (second: number, body: object) => ({ runId, timestamp: at(second), ...body }) as OutgoingEvent;
  const step = (number: number) =>
    event(1, { type: 'step.start', stepNumber: number, model: 'm', modelSource: 'agent' });
  const flush = async (...events: OutgoingEvent[]) => {
    const reply = await runs.flush(own, seq, events);
    seq += reply.kind === 'ok' ? events.length : Number.NaN;
  };
  await flush(step(1), event(2, { type: 'text.delta', delta: 'half an emoji: \ud83d', model: 'm' }));
  await flush(
    event(3, { type: 'text.delta', delta: 'b', model: 'm' }),
    event(3, { type: 'text.complete', text: 'ab\n"' }),
  );
  const granted = { toolCallId: 'c1', toolName: 'pay', by: 'Grace' };
  await runs.commit(own, aCommit(seq, { events: [event(4, { type: 'tool.approval.granted', ...granted }), step(2)] }));
  seq += 2;
  await flush(event(5, { type: 'reasoning.delta', delta: 'hm', model: 'm' }));
  await runs.commit(own, aTerminalCommit(runId, seq));

  const [found, whole] = [await read(runId), await readWhole(runId)];
  expect(found).toEqual(whole);
  expect(found?.firstTokens).toEqual({ 1: at(2), 2: at(5) });
  // It is not read: what is in Redis now has no part in it.
  await redis.xdel(keys.events(runId), `${seq}-0`);
  expect(await read(runId)).toEqual(whole);
});

test('events that another process wrote in between are read', async () => {
  const { runs, begin, read, readWhole, options, redis, keys } = await aWorker();
  const elsewhere = redisRuns({ ...options, logTails: new LogTails() });
  const runId = newRunId(Date.now());
  const { seq, own } = await begin(runId);
  await runs.flush(own, seq, [complete(runId, 'a')]);
  const takeOver = async (store: typeof runs, jobTry: number) => {
    const claim = await store.claim(aClaim(runId, { jobTry, crashLimit: 9 }), opening(runId), recovering(runId));
    const owner = (await redis.hget(keys.run(runId), 'owner')) ?? '';
    if (claim.kind !== 'claimed') throw new Error(`the run is ${claim.kind}`);
    return { seq: claim.seq, own: { ...own, owner } };
  };
  const there = await takeOver(elsewhere, 2);
  await elsewhere.flush(there.own, there.seq, [complete(runId, 'b')]);
  const here = await takeOver(runs, 3);
  await runs.flush(here.own, here.seq, [complete(runId, 'c')]);
  await runs.commit(here.own, aTerminalCommit(runId, here.seq + 1));
  const found = await read(runId);
  expect(found).toEqual(await readWhole(runId));
  expect(found?.lines.match(/"text":"[abc]"/g)).toEqual(['"text":"a"', '"text":"b"', '"text":"c"']);
});

test('a run that ended at another time is read as a whole, whatever this process wrote under its id', async () => {
  const { runs, begin, read, readWhole, redis, keys } = await aWorker();
  const runId = newRunId(Date.now());
  const { seq, own } = await begin(runId);
  await runs.commit(own, aTerminalCommit(runId, seq, { events: [complete(runId, 'erased'), completed(runId)] }));
  // Erased, and accepted anew under the same id: another process has run it.
  const events = await redis.xrange(keys.events(runId), '-', '+');
  await redis.del(keys.events(runId));
  for (const [id, [, json = '']] of events)
    await redis.xadd(keys.events(runId), id, 'e', json.replace('"erased"', '"anew"'));
  await redis.hset(keys.run(runId), 'endedAt', at(9));
  expect(await read(runId)).toEqual(await readWhole(runId));
  expect((await read(runId))?.lines).toContain('"anew"');
});

test('the process that ended a run archives it; another one does so once that one is late, or has died', async () => {
  const { runs, begin, options, redis, keys } = await aWorker();
  const elsewhere = { ...options, logTails: new LogTails() };
  const runId = newRunId(Date.now());
  const { seq, own } = await begin(runId);
  await runs.commit(own, aTerminalCommit(runId, seq));
  await until('the run is listed', async () => (await redis.zscore(keys.archiveDue, runId)) !== null);
  expect((await takeDue(elsewhere, 10)).runIds).toEqual([]);
  expect((await takeDue(options, 10)).runIds).toEqual([runId]);
  // Taken already, by itself too.
  expect((await takeDue(options, 10)).runIds).toEqual([]);
  await redis.zadd(keys.archiveDue, Date.now() - 1, runId);
  expect((await takeDue(elsewhere, 10)).runIds).toEqual([runId]);
});

test('a run that is not archived is not kept', async () => {
  const { runs, begin, options } = await aWorker();
  const runId = newRunId(Date.now());
  const { seq, own } = await begin(runId);
  await runs.flush(own, seq, [complete(runId, 'a')]);
  await runs.commit(own, aTerminalCommit(runId, seq + 1, { store: false }));
  expect(options.logTails?.ended(runId)).toBeUndefined();
  expect(options.logTails?.endedRuns(9)).toEqual([]);
});

test('of deltas in a row only the first is kept, and what is too much is forgotten', () => {
  const tails = new LogTails({ maxRuns: 2, maxChars: 100, maxRunChars: 60 });
  const ends = (runId: string) => {
    tails.end(runId, at(1));
    return tails.ended(runId);
  };
  tails.add('a', 0, [logged('text.delta', 'one'), logged('text.delta', 'two')]);
  tails.add('a', 2, [logged('text.delta', 'three'), logged('step.end'), logged('text.delta', 'four')]);
  const kept = [logged('text.delta', 'one'), logged('step.end'), logged('text.delta', 'four')];
  expect(ends('a')).toEqual({ endedAt: at(1), from: 1, events: kept });
  // A number is missing.
  tails.add('b', 0, [logged('step.start')]);
  tails.add('b', 2, [logged('step.end')]);
  expect(ends('b')).toEqual({ endedAt: at(1), from: 3, events: [logged('step.end')] });
  // What comes after an end is another log.
  tails.add('b', 3, [logged('step.start')]);
  expect(tails.ended('b')).toBeUndefined();
  // One run too many: the one that was written to longest ago goes.
  tails.add('c', 0, [logged('step.start')]);
  expect([ends('a'), ends('b')?.from, ends('c')?.from]).toEqual([undefined, 4, 1]);
  // Too much of one run, too much of all.
  tails.add('c', 1, [logged('step.end', 'x'.repeat(61))]);
  expect(ends('c')).toBeUndefined();
  tails.add('d', 0, [logged('step.start', 'x'.repeat(55))]);
  tails.add('e', 0, [logged('step.start', 'x'.repeat(55))]);
  expect([ends('d'), ends('e')?.from]).toEqual([undefined, 1]);
  tails.forget(['e']);
  expect(tails.endedRuns(9)).toEqual([]);
});
