import { expect, test } from 'vitest';
import { RunError } from '../../../src/shared/base/errors.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import { systemClock } from '../../../src/shared/base/clock.ts';
import type { RunStore } from '../../../src/shared/state/run/run-store.ts';
import type { Commit, CommitReply } from '../../../src/shared/state/run/commit.ts';
import type { OutgoingEvent } from '../../../src/shared/state/script.ts';
import { FlushTimer, RunWriter } from '../../../src/worker/run/writer.ts';
import { until } from '../../support/redis.ts';

type Write =
  | { kind: 'flush'; seq: number; events: readonly OutgoingEvent[] }
  | { kind: 'commit'; seq: number; commit: Commit; events: readonly OutgoingEvent[] };

/** A store that records writes and has scripted replies; `gate` delays them. */
function makeWorld({ windowMs = 5 }: { windowMs?: number } = {}) {
  const writes: Write[] = [];
  const callbacks: string[] = [];
  let gate: Promise<void> | undefined;
  let failures = 0;
  let reply: (seq: number, count: number) => CommitReply = (seq, count) => ({ kind: 'ok', seq: seq + count });
  let inFlight = 0;
  let mostInFlight = 0;
  const waits: number[] = [];
  const warnings: unknown[] = [];
  const answer = async (write: Write) => {
    inFlight += 1;
    mostInFlight = Math.max(mostInFlight, inFlight);
    writes.push(structuredClone(write));
    await gate;
    inFlight -= 1;
    if (failures > 0) {
      failures -= 1;
      throw new RunError('queue_unavailable', 'refused');
    }
    return reply(write.seq, write.events.length);
  };
  const runs: Pick<RunStore, 'flush' | 'commit'> = {
    flush: (_, seq, events) => answer({ kind: 'flush', seq, events }),
    commit: (_, commit) => answer({ kind: 'commit', seq: commit.seq, commit, events: commit.events }),
  };
  const flushTimer = new FlushTimer(windowMs);
  const writer = new RunWriter({
    ownership: { runId: 'R', owner: 'o' },
    context: { runId: 'R', agentId: 'a' },
    seq: 3,
    ports: {
      runs: runs as RunStore,
      clock: {
        ...systemClock,
        sleep: async (ms) => {
          waits.push(ms);
          await new Promise((resolve) => setImmediate(resolve));
        },
      },
      observe: (body) => callbacks.push(body.type),
      log: Object.assign(Object.create(silentLog), { warn: (facts: unknown) => warnings.push(facts) }),
    },
    flushTimer,
    kind: 'agent.turn',
    journalBytes: 0,
    onJournal: () => {},
    workedMs: () => 0,
    onFenced: () => callbacks.push('fenced'),
    onCancel: () => callbacks.push('cancel'),
  });
  return {
    writer,
    flushTimer,
    writes,
    callbacks,
    waits,
    warnings,
    get mostInFlight() {
      return mostInFlight;
    },
    pause() {
      const { promise, resolve } = Promise.withResolvers<void>();
      gate = promise;
      return () => {
        gate = undefined;
        resolve();
      };
    },
    fail: (times: number) => (failures = times),
    answerWith: (next: typeof reply) => (reply = next),
    text: () =>
      writes
        .flatMap((w) => w.events)
        .map((e) => (e.type === 'text.delta' ? e.delta : ''))
        .join(''),
  };
}

const delta = (text: string, model = 'm') => ({ type: 'text.delta', delta: text, model }) as const;

test('the first delta of a step is written at once and the others of a window as one event', async () => {
  const world = makeWorld({ windowMs: 20 });
  world.writer.emit(delta('a'));
  await until('the first delta', () => world.writes.length === 1);
  for (const letter of 'bcdef') world.writer.emit(delta(letter));
  await until('the merged delta', () => world.writes.length === 2);
  expect(world.writes.map((w) => w.events.length)).toEqual([1, 1]);
  expect(world.text()).toBe('abcdef');
});

test('without a window every delta is an event of its own', async () => {
  const world = makeWorld({ windowMs: 0 });
  for (const letter of 'abc') world.writer.emit(delta(letter));
  await world.writer.commit({});
  expect(world.writes.flatMap((w) => w.events)).toHaveLength(3);
});

test('the wait of events for the store is known until they are written, or never will be', async () => {
  const world = makeWorld();
  expect(world.flushTimer.lagMs).toBe(0);
  const release = world.pause();
  world.writer.emit({ type: 'text.complete', text: 'first' });
  await until('a wait', () => world.flushTimer.lagMs > 0);
  release();
  await world.writer.commit({});
  expect(world.flushTimer.lagMs).toBe(0);
  world.writer.emit({ type: 'text.complete', text: 'second' });
  await until('another wait', () => world.flushTimer.lagMs > 0);
  world.writer.close();
  expect(world.flushTimer.lagMs).toBe(0);
});

test('deltas of different models are never merged', async () => {
  const world = makeWorld();
  world.writer.emit(delta('a', 'm1'));
  world.writer.emit(delta('b', 'm2'));
  await world.writer.commit({});
  expect(world.writes.flatMap((w) => w.events)).toHaveLength(2);
});

test('an event that is too long is written in part, and merged deltas stay within their bound', async () => {
  const world = makeWorld();
  world.writer.emit({ type: 'tool.execute.progress', toolCallId: 'c', data: 'x'.repeat(1_000_000) });
  for (let times = 0; times < 20; times++) world.writer.emit(delta('y'.repeat(5_000)));
  await world.writer.commit({});
  const events = world.writes.flatMap((write) => write.events);
  expect(events.every((event) => JSON.stringify(event).length < 65_536)).toBe(true);
  expect(events[0]).toMatchObject({ type: 'tool.execute.progress', truncated: ['data'] });
  expect(world.text()).toBe('y'.repeat(100_000));
});

test('an event that waits for a commit is written with it and not before, and later events stay behind it', async () => {
  const world = makeWorld();
  world.writer.emit({ type: 'text.complete', text: 'first' });
  world.writer.emitWithCommit({ type: 'agent.fanout.spawned', children: ['a'] });
  world.writer.emit({ type: 'text.complete', text: 'last' });
  world.writer.flush();
  await until('what does not wait', () => world.writes.length === 1);
  world.writer.flush();
  await world.writer.commit({});
  world.writer.emit({ type: 'text.complete', text: 'free again' });
  await until('what came after', () => world.writes.length === 3);
  expect(world.writes.map(({ kind, events }) => [kind, events.map(({ type }) => type)])).toEqual([
    ['flush', ['text.complete']],
    ['commit', ['agent.fanout.spawned', 'text.complete']],
    ['flush', ['text.complete']],
  ]);
});

test('commits that wait for the write in flight are one write, so that no event is written with the entry of another', async () => {
  const world = makeWorld();
  const release = world.pause();
  const started = (prompt: string) => ({ v: 1, t: 'agent_started', model: 'm', at: '', prompt }) as const;
  const written = [world.writer.commit({ entries: [started('in flight')] })];
  await until('the first write', () => world.writes.length === 1);
  written.push(world.writer.commit({ entries: [started('a')], patch: { steps: 1, activity: 'calls' } }));
  world.writer.emit({ type: 'text.complete', text: 'b' });
  written.push(world.writer.commit({ entries: [started('b')], patch: { activity: 'idle' } }));
  release();
  await Promise.all(written);
  const [, second, ...others] = world.writes.map((write) => (write.kind === 'commit' ? write.commit : undefined));
  expect(others).toEqual([]);
  expect(second?.entries).toEqual([started('a'), started('b')]);
  expect(second?.patch).toMatchObject({ steps: 1, activity: 'idle' });
  expect(second?.events).toMatchObject([{ text: 'b' }]);
});

test('a commit behind the one that lets the run go is not part of it', async () => {
  const world = makeWorld();
  const release = world.pause();
  const first = world.writer.commit({});
  await until('the first write', () => world.writes.length === 1);
  const last = world.writer.commit({ release: 'handed_over' });
  const behind = world.writer.commit({ patch: { steps: 9 } }).catch((error: unknown) => error);
  release();
  await Promise.all([first, last]);
  expect(await behind).toMatchObject({ code: 'lock_lost' });
  expect(world.writes).toHaveLength(2);
});

test('the events of an answer wait with the answer for the commit', async () => {
  const world = makeWorld();
  world.writer.emit({ type: 'text.complete', text: 'the answer' });
  world.writer.writeWithCommit([{ v: 1, t: 'agent_started', model: 'm', at: '' }]);
  world.writer.flush();
  await new Promise((resolve) => setImmediate(resolve));
  await world.writer.commit({});
  expect(world.writes.map(({ kind, events }) => [kind, events.length])).toEqual([['commit', 1]]);
});

test('at most one write is in flight and a slow store makes the next one larger', async () => {
  const world = makeWorld();
  const release = world.pause();
  world.writer.emit(delta('a'));
  await until('the first write', () => world.writes.length === 1);
  for (let i = 0; i < 5; i++) world.writer.emit({ type: 'text.complete', text: String(i) });
  const commit = world.writer.commit({});
  release();
  await commit;
  expect(world.mostInFlight).toBe(1);
  expect(world.writes.map((w) => [w.seq, w.events.length])).toEqual([
    [3, 1],
    [4, 5],
  ]);
});

test('a flush that was refused goes out again unchanged before anything else', async () => {
  const world = makeWorld();
  world.fail(2);
  world.writer.emit(delta('a'));
  await until('the refused flush', () => world.writes.length >= 1);
  world.writer.emit(delta('b'));
  await world.writer.commit({ entries: [{ v: 1, t: 'agent_started', model: 'm', at: '' }] });
  const flushes = world.writes.filter((w) => w.kind === 'flush' && w.seq === 3);
  expect(new Set(flushes.map((w) => JSON.stringify(w.events))).size).toBe(1);
  expect(world.writes.at(-1)).toMatchObject({ kind: 'commit', seq: 4 });
});

test('a store that keeps refusing is asked ever more rarely, and one line is logged', async () => {
  const world = makeWorld();
  world.fail(7);
  world.writer.emit(delta('a'));
  await until('the flush that is taken', () => world.writes.length === 8);
  expect(world.waits).toEqual([50, 100, 200, 400, 800, 1_000, 1_000]);
  expect(world.warnings).toHaveLength(1);
});

test('a commit is repeated under the same operation id', async () => {
  const world = makeWorld();
  world.fail(2);
  await world.writer.commit({ patch: { steps: 1 } });
  const ops = world.writes.map((w) => (w.kind === 'commit' ? w.commit.op : ''));
  expect(ops).toHaveLength(3);
  expect(new Set(ops).size).toBe(1);
});

test('a store that keeps refusing ends the commit with queue_unavailable', async () => {
  const world = makeWorld();
  world.fail(100);
  await expect(world.writer.commit({})).rejects.toMatchObject({ code: 'queue_unavailable' });
});

test('an event is not written ahead of the commit it was emitted for, also when a flush has just begun', async () => {
  const world = makeWorld();
  world.writer.emit(delta('a'));
  world.writer.flush();
  world.writer.emit({ type: 'agent.end', output: 'a', status: 'completed' });
  await world.writer.commit({});
  expect(world.writes).toMatchObject([{ kind: 'commit', events: [{ type: 'text.delta' }, { type: 'agent.end' }] }]);
});

test('what was emitted for a commit that failed is not written later without it', async () => {
  const world = makeWorld();
  world.fail(Number.MAX_SAFE_INTEGER);
  world.writer.emit(delta('a'));
  await until('the refused flush', () => world.writes.length >= 1);
  world.writer.emit({ type: 'agent.end', output: 'a', status: 'completed' });
  await expect(world.writer.commit({})).rejects.toMatchObject({ code: 'queue_unavailable' });
  world.fail(0);
  const refused = world.writes.length;
  world.writer.flush();
  await new Promise((resolve) => setImmediate(resolve));
  expect(world.writes).toHaveLength(refused);
});

test('a fenced write closes the writer for good and calls back once', async () => {
  const world = makeWorld();
  world.answerWith(() => ({ kind: 'fenced' }));
  await expect(world.writer.commit({})).rejects.toMatchObject({ code: 'lock_lost' });
  world.writer.emit(delta('x'));
  await expect(world.writer.commit({})).rejects.toMatchObject({ code: 'lock_lost' });
  expect(world.writes).toHaveLength(1);
  expect(world.callbacks).toEqual(['fenced']);
});

test('a cancel that the store answers with is passed on', async () => {
  const world = makeWorld();
  world.answerWith((seq, count) => ({
    kind: 'ok',
    seq: seq + count,
    cancel: { drain: false, onPendingApprovals: 'deny' },
  }));
  await world.writer.commit({});
  expect(world.callbacks).toEqual(['cancel']);
});

test('nothing is written after the release', async () => {
  const world = makeWorld();
  await world.writer.commit({ release: 'terminal' });
  world.writer.emit(delta('late'));
  await expect(world.writer.commit({})).rejects.toMatchObject({ code: 'lock_lost' });
  expect(world.writes).toHaveLength(1);
});

test('a cancel that comes while the end of a run waits to be written adds no event after it', async () => {
  const world = makeWorld();
  const usage = { input: 0, output: 0, cached: 0, cacheWrite: 0, total: 0, byModel: {} };
  world.writer.emitWithCommit({ type: 'run.cancelled', drained: false, usage, costMicrocents: 0 });
  world.writer.emit({ type: 'agent.cancelling', drain: false, onPendingApprovals: 'deny' });
  await world.writer.commit({ release: 'terminal' });
  expect(world.writes.flatMap(({ events }) => events.map(({ type }) => type))).toEqual(['run.cancelled']);
});
