import { describe, expect, test } from 'vitest';
import { newNonce, newRunId } from '../../src/shared/base/ids.ts';
import type { BatchRequest } from '../../src/shared/contract/batch.ts';
import type { BatchRecord } from '../../src/shared/contract/batch-record.ts';
import { newFileId } from '../../src/shared/contract/files.ts';
import { maxOpenBatches, type BatchStore, type Stay, type TakenLine } from '../../src/shared/state/batch/batches.ts';

export interface BatchesWorld {
  readonly store: BatchStore;
  /** Seconds until the record goes; -1: it has no end. */
  ttlS(id: string): Promise<number>;
  /** What there is of a batch beside its record. */
  left(id: string): Promise<readonly string[]>;
  /** Removes a record, as its end of time does. */
  gone(id: string): Promise<void>;
}

const now = 1_800_000_000_000;

function record(changes: Partial<BatchRecord> = {}): BatchRecord {
  const request = { endpoint: '/v1/runs', input_file_id: newFileId(now), completion_window: '24h', maxOpen: 3 };
  return {
    id: `batch_${newRunId(now)}`,
    tenant: 'acme',
    rights: 'caller',
    request: request as BatchRequest,
    filename: 'in.jsonl',
    name: 'night',
    status: 'in_progress',
    reason: '',
    round: 0,
    createdAt: now,
    expiresAt: now + 86_400_000,
    since: now,
    maxOpen: 3,
    maxFailures: '',
    failures: 0,
    total: 3,
    bytes: 30,
    completed: 0,
    failed: 0,
    costMicrocents: 0,
    inputTokens: 0,
    outputTokens: 0,
    waitingForMoney: 0,
    waitingForPeople: 0,
    outputBytes: 0,
    errorBytes: 0,
    jobs: '1',
    stay: '',
    answerFields: [],
    outputId: newFileId(now),
    errorId: newFileId(now),
    answerBytes: 0,
    ...changes,
  };
}

const line = (place: number) => ({
  place,
  open: { line: place + 1, id: `l${place}`, offset: place * 10, length: 9, executionId: `e${place}` },
});

const taken = (place: number, changes: Partial<TakenLine> = {}): TakenLine => ({
  place,
  failed: false,
  text: `line ${place}\n`,
  runId: `run-${place}`,
  costMicrocents: 100,
  inputTokens: 10,
  outputTokens: 1,
  sampled: undefined,
  ...changes,
});

/** What batches promise. */
export function batchesContract(name: string, makeWorld: () => Promise<BatchesWorld>): void {
  /** A batch that a stay has. */
  const begun = async (changes: Partial<BatchRecord> = {}) => {
    const world = await makeWorld();
    const made = record(changes);
    expect(await world.store.create(made)).toBe('created');
    const stay: Stay = { id: made.id, nonce: newNonce() };
    expect((await world.store.takeOver(stay, 1))?.id).toBe(made.id);
    const read = async () => (await world.store.load(made.id)) as BatchRecord;
    return { ...world, made, stay, id: made.id, read };
  };

  describe(`${name} as a store of batches`, () => {
    test('a batch is read as it was made, once, and listed for its tenant alone', async () => {
      const { store } = await makeWorld();
      const made = record();
      expect(await store.create(made)).toBe('created');
      expect(await store.create(made)).toBe('exists');
      expect(await store.load(made.id)).toEqual(made);
      expect((await store.list('acme', 10, undefined))?.found).toEqual([{ record: made, open: 0 }]);
      expect((await store.list('other', 10, undefined))?.found).toEqual([]);
      expect(await store.countOpen()).toBe(1);
    });

    test('a list has pages, newest first, and drops what is gone', async () => {
      const { store, ...world } = await makeWorld();
      const made = [0, 1, 2, 3].map((n) => record({ createdAt: now + n }));
      for (const one of made) await store.create(one);
      const ids = async (limit: number, after?: string) => {
        const page = await store.list('acme', limit, after);
        return [page?.found.map((found) => made.findIndex(({ id }) => id === found.record.id)), page?.hasMore];
      };
      expect(await ids(3)).toEqual([[3, 2, 1], true]);
      expect(await ids(3, made[1]?.id)).toEqual([[0], false]);
      expect(await store.list('acme', 3, 'batch_none')).toBeUndefined();
      await world.gone(made[3]?.id as string);
      expect(await ids(10)).toEqual([[2, 1, 0], false]);
    });

    test('a tenant has so many open batches and no more, until one has ended', async () => {
      const { store } = await makeWorld();
      const made = Array.from({ length: maxOpenBatches }, () => record());
      for (const one of made) expect(await store.create(one)).toBe('created');
      expect(await store.create(record())).toBe('full');
      expect(await store.create(record({ tenant: 'other' }))).toBe('created');
      const [first] = made as [BatchRecord];
      const stay = { id: first.id, nonce: 'n' };
      await store.takeOver(stay, 1);
      await store.move(stay, first, 'finalizing', { ending: 'completed' });
      expect(await store.end(stay, first, 'completed', { endedAt: now }, now)).toBe(true);
      expect(await store.create(record())).toBe('created');
    });

    test('a stay that has lost the batch changes nothing', async () => {
      const { store, stay, id, made, read } = await begun();
      const other: Stay = { id, nonce: newNonce() };
      expect(await store.takeOver(other, 1)).toBeDefined();
      const before = await read();
      expect(await store.begin(stay, [line(0)])).toBe('lost');
      await store.begin(other, [line(0)]);
      expect(await store.take(stay, [taken(0)], now)).toBeUndefined();
      expect(await store.note(stay, line(0))).toBe(false);
      expect(await store.look(stay, { forMoney: 1, forPeople: 1 })).toBeUndefined();
      expect(await store.leave(stay)).toBe('lost');
      expect(await store.move(stay, made, 'finalizing')).toBe('lost');
      const part = { round: 0, lines: ['x'], bytes: 1, parts: [{ name: 'p', bytes: 1 }] };
      expect(await store.addParts(stay, 'output', part)).toBe(false);
      expect(await store.end(stay, made, 'failed', {}, now)).toBe(false);
      expect(await read()).toEqual(before);
      expect([...(await store.open(id)).keys()]).toEqual([0]);
    });

    test('only the last job of a batch begins a stay, and none of an ended one', async () => {
      const { store, id, stay, made } = await begun();
      expect(await store.nextJob(id, '1')).toBe(2);
      expect(await store.nextJob(id, '1')).toBeUndefined();
      expect(await store.look(stay, { forMoney: 0, forPeople: 0 })).toBeUndefined();
      expect(await store.takeOver(stay, 1)).toBeUndefined();
      expect(await store.takeOver(stay, 2)).toBeDefined();
      await store.move(stay, made, 'finalizing');
      await store.end(stay, made, 'completed', { endedAt: now }, now / 1_000 + 1e9);
      expect(await store.takeOver(stay, 3)).toBeUndefined();
      expect(await store.nextJob(id, '2')).toBeUndefined();
    });

    test('a line is begun once, while there is room, and open until its outcome is taken', async () => {
      const { store, stay, id } = await begun({ total: 6 });
      expect(await store.begin(stay, [0, 1, 2, 3].map(line))).toEqual(['open', 'open', 'open', 'no_room']);
      // A call whose reply was lost comes again.
      expect(await store.begin(stay, [0, 1, 2].map(line))).toEqual(['open', 'open', 'open']);
      expect((await store.open(id)).get(1)).toEqual(line(1).open);
      expect(await store.take(stay, [taken(1), taken(4)], now)).toBe(1);
      expect(await store.begin(stay, [1, 3].map(line))).toEqual(['done', 'open']);
      await store.pause(id);
      expect(await store.begin(stay, [line(4)])).toBe('not_now');
    });

    test('an outcome is taken once, and adds to counts, cost and tokens', async () => {
      const { store, stay, read, id } = await begun();
      await store.begin(stay, [0, 1].map(line));
      expect(await store.take(stay, [taken(0), taken(1, { failed: true })], now)).toBe(2);
      expect(await store.take(stay, [taken(0)], now)).toBe(0);
      const sums = { completed: 1, failed: 1, failures: 1, costMicrocents: 200, inputTokens: 20, outputTokens: 2 };
      expect(await read()).toMatchObject({ ...sums, outputBytes: 7, errorBytes: 7 });
      expect(await store.spooled(id, 'output', 1_000)).toEqual(['line 0\n']);
      expect(await store.spooled(id, 'errors', 1_000)).toEqual(['line 1\n']);
    });

    test('lines of the sample say what they brought, whatever their outcome', async () => {
      const { store, stay, id } = await begun({ status: 'quoting' });
      const sampled = { costMicrocents: 5, requests: 1, tokens: 6, bytes: 7, workedMs: 8.5 };
      await store.begin(stay, [0, 1].map(line));
      await store.take(stay, [taken(0, { sampled }), taken(1, { failed: true })], now);
      expect(await store.sample(id)).toEqual([sampled]);
    });

    test('so many failures pause a batch, and a resumed one may fail as often again', async () => {
      const { store, stay, id, read } = await begun({ maxFailures: '2', maxOpen: 10, total: 10 });
      await store.begin(stay, [0, 1, 2, 3].map(line));
      await store.take(stay, [taken(0, { failed: true })], now);
      expect((await read()).status).toBe('in_progress');
      await store.take(stay, [taken(1, { failed: true })], now);
      expect(await read()).toMatchObject({ status: 'paused', reason: 'max_failures', before: 'in_progress' });
      expect(await store.resume(id, now)).toEqual({ before: 'paused', job: undefined });
      await store.take(stay, [taken(2, { failed: true })], now);
      expect((await read()).status).toBe('in_progress');
      await store.take(stay, [taken(3, { failed: true })], now);
      expect((await read()).status).toBe('paused');
    });

    test('lines of output that have become a part are dropped with its record, once', async () => {
      const { store, stay, id, read } = await begun();
      await store.begin(stay, [0, 1, 2].map(line));
      await store.take(
        stay,
        [0, 1, 2].map((place) => taken(place)),
        now,
      );
      const lines = await store.spooled(id, 'output', 8);
      expect(lines).toEqual(['line 0\n', 'line 1\n']);
      const part = {
        round: 0,
        lines,
        bytes: 14,
        parts: [
          { name: 'a', bytes: 10 },
          { name: 'b', bytes: 4 },
        ],
      };
      expect(await store.addParts(stay, 'output', part)).toBe(true);
      expect(await store.addParts(stay, 'output', part)).toBe(true);
      expect(await store.addParts(stay, 'output', { ...part, round: 1 })).toBe(false);
      expect(await store.parts(id, 'output')).toEqual(part.parts);
      expect(await store.spooled(id, 'output', 1_000)).toEqual(['line 2\n']);
      expect(await store.withOutput(id)).toEqual({
        record: await read(),
        output: { parts: part.parts, text: 'line 2\n' },
        errors: { parts: [], text: '' },
      });
      expect((await read()).outputBytes).toBe(7);
    });

    test('a batch is complete only when every line has its outcome', async () => {
      const { store, stay, made, read } = await begun();
      await store.begin(stay, [0, 1].map(line));
      await store.take(stay, [taken(0), taken(1)], now);
      expect(await store.move(stay, made, 'finalizing', {}, true)).toBe('changed');
      await store.begin(stay, [line(2)]);
      expect(await store.move(stay, made, 'finalizing', {}, true)).toBe('changed');
      await store.take(stay, [taken(2)], now);
      expect(await store.move(stay, { ...made, round: 1 }, 'finalizing', {}, true)).toBe('changed');
      expect(await store.move(stay, made, 'finalizing', { ending: 'completed' }, true)).toBe('moved');
      expect(await read()).toMatchObject({ status: 'finalizing', ending: 'completed' });
    });

    test('a stay leaves a batch that rests, and no other; who resumes or cancels it has a job to add', async () => {
      const { store, stay, id, read } = await begun();
      expect(await store.leave(stay)).toBe('changed');
      expect(await store.pause(id)).toBe('in_progress');
      expect(await store.pause(id)).toBe('paused');
      expect(await store.resume(id, now)).toEqual({ before: 'paused', job: undefined });
      await store.pause(id);
      expect(await store.leave(stay)).toBe('moved');
      expect(await store.resume(id, now)).toEqual({ before: 'paused', job: 2 });
      expect(await read()).toMatchObject({ status: 'in_progress', reason: '' });
      expect(await store.cancel(id, now)).toEqual({ before: 'in_progress', job: 3 });
      expect(await store.cancel(id, now)).toEqual({ before: 'cancelling', job: undefined });
      expect(await store.pause(id)).toBe('cancelling');
      expect(await read()).toMatchObject({ status: 'cancelling', ending: 'cancelled', cancellingAt: now });
    });

    test('a paused batch goes on where it was', async () => {
      for (const status of ['validating', 'quoting', 'in_progress'] as const) {
        const { store, id, read } = await begun({ status });
        await store.pause(id);
        await store.resume(id, now);
        expect((await read()).status).toBe(status);
      }
      const { store, id, read } = await begun({ status: 'quoted', reason: 'quote' });
      expect(await store.pause(id)).toBe('quoted');
      await store.resume(id, now);
      expect(await read()).toMatchObject({ status: 'in_progress', reason: '', inProgressAt: now });
    });

    test('a redrive begins failed lines again, and counts only what their runs cost beyond that', async () => {
      const { store, stay, id, made, read } = await begun();
      await store.begin(stay, [0, 1, 2].map(line));
      await store.take(stay, [taken(0), taken(1, { failed: true }), taken(2, { failed: true })], now);
      const files = { outputId: newFileId(now), errorId: newFileId(now), expiresAt: now + 1 };
      expect(await store.redrive(made, files, now)).toEqual({ before: 'in_progress', lines: 2, job: undefined });
      expect(await read()).toMatchObject({ round: 1, completed: 1, failed: 0, errorBytes: 0, outputId: made.outputId });
      expect(await store.spooled(id, 'errors', 100)).toEqual([]);
      expect(await store.begin(stay, [0, 1, 2].map(line))).toEqual(['done', 'open', 'open']);
      // The same run has cost more in all; another run has costs of its own.
      await store.take(stay, [taken(1, { costMicrocents: 130, inputTokens: 15 }), taken(2, { runId: 'anew' })], now);
      expect(await read()).toMatchObject({ completed: 3, costMicrocents: 300 + 30 + 100, inputTokens: 30 + 5 + 10 });
      expect(await store.redrive(made, files, now)).toMatchObject({ lines: 0 });
    });

    test('an ended batch leaves nothing but what a redrive needs, for as long as its files; redriven it is open', async () => {
      const world = await begun();
      const { store, stay, id, made, read } = world;
      await store.begin(stay, [0, 1].map(line));
      await store.take(stay, [taken(0), taken(1, { failed: true })], now);
      await store.move(stay, made, 'finalizing', { ending: 'expired' });
      const change = { endedAt: now, outputFileId: made.outputId, answerBytes: 7 };
      const keepUntilS = Math.floor(Date.now() / 1_000) + 1_000;
      expect(await store.end(stay, { ...made, round: 1 }, 'expired', change, keepUntilS)).toBe(false);
      expect(await store.end(stay, made, 'expired', change, keepUntilS)).toBe(true);
      expect(await world.left(id)).toEqual(['begun', 'failed', 'spent']);
      expect(await world.ttlS(id)).toBeGreaterThan(900);
      expect(await store.allOpen(0, 10)).toEqual([]);
      const files = { outputId: newFileId(now), errorId: newFileId(now), expiresAt: now + 5 };
      expect(await store.redrive(made, files, now)).toEqual({ before: 'expired', lines: 1, job: 2 });
      const base = { baseFileId: made.outputId, outputId: files.outputId, expiresAt: now + 5 };
      expect(await read()).toMatchObject({ status: 'in_progress', round: 1, ...base, answerBytes: 7 });
      expect((await read()).outputFileId).toBeUndefined();
      expect(await world.ttlS(id)).toBe(-1);
      expect(await store.allOpen(0, 10)).toEqual([id]);
    });

    test('a batch that is redriven as it is taken off the lists stays on them', async () => {
      const { store, id } = await begun();
      await store.unlist(id, 'acme');
      expect(await store.allOpen(0, 10)).toEqual([id]);
    });

    test('a batch that is listed and has no record yet stays listed, and one that never got its record goes', async () => {
      const world = await makeWorld();
      const { store } = world;
      const [young, old] = [record({ createdAt: Date.now() }), record({ createdAt: Date.now() - 120_000 })];
      for (const made of [young, old]) {
        expect(await store.create(made)).toBe('created');
        await world.gone(made.id);
      }
      expect(await store.forgetOpen(young.id)).toBe(0);
      expect(await store.forgetOpen(old.id)).toBe(1);
      expect(await store.allOpen(0, 10)).toEqual([young.id]);
    });

    test('a request that comes again finds the batch that it has made', async () => {
      const { store } = await makeWorld();
      expect(await store.askedBefore('acme', 'd', 'first')).toBe('first');
      expect(await store.askedBefore('acme', 'd', 'second')).toBe('first');
      expect(await store.askedBefore('other', 'd', 'second')).toBe('second');
      await store.asked('acme', 'd', 'third');
      expect(await store.askedBefore('acme', 'd', 'fourth')).toBe('third');
    });

    test('processes that gave no sign of life for a while do not count, and one of all sweeps at a time', async () => {
      const { store } = await makeWorld();
      await store.heartbeat('a', now);
      await store.heartbeat('b', now + 14_000);
      expect(await store.processes(now + 14_000)).toBe(2);
      expect(await store.processes(now + 16_000)).toBe(1);
      await store.farewell('b');
      expect(await store.processes(now + 16_000)).toBe(0);
      expect(await store.maySweep(60_000)).toBe(true);
      expect(await store.maySweep(60_000)).toBe(false);
    });
  });
}
