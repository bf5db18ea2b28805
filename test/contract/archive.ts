import { describe, expect, onTestFinished, test } from 'vitest';
import {
  type ArchiveDeps,
  type ArchiveStore,
  openArchive,
  type WrittenRun,
} from '../../src/shared/state/archive/archive.ts';
import { newRunId } from '../../src/shared/base/ids.ts';
import { type ArchivedRun, archivedText } from '../../src/shared/contract/archive/archived-run.ts';
import { lineKinds } from '../../src/shared/contract/archive/line-kinds.ts';
import { recordToHash } from '../../src/shared/contract/run.ts';
import type { FilesWorld } from './files-world.ts';
import { aRecord } from './run-fixtures.ts';

const ttlS = 3_600;
const text = (length: number) => Array.from({ length }, (_, i) => String.fromCodePoint(33 + ((i * i) % 90))).join('');

/** A run that ended as soon as it was made, as the archive has it. */
export function archived(runId: string, tenant: string, at: string, input = ''): ArchivedRun {
  const request = { agent: 'support', input };
  const record = aRecord({ runId, tenant, request, createdAt: at, updatedAt: at, status: 'completed', endedAt: at });
  return { runId, tenant, record, journal: [], events: [], earlier: [], decisions: [], children: [], firstTokens: {} };
}

/** The same on its way into the archive. */
export function written({ record, journal, events, earlier, decisions, ...about }: ArchivedRun): WrittenRun {
  const { runId, createdAt, endedAt = createdAt } = record;
  const fields = Object.entries(recordToHash(record)).map(([name, value]) => `${lineKinds.field}${name} ${value}`);
  const json = (kind: string, values: readonly unknown[]) => values.map((value) => kind + JSON.stringify(value));
  const lines = [
    ...fields,
    ...json(lineKinds.entry, journal),
    ...json(lineKinds.event, events),
    ...json(lineKinds.earlier, earlier),
    ...json(lineKinds.decision, decisions),
  ];
  return { runId, createdAt, endedAt, ttlS, text: archivedText(about, lines.map((line) => `${line}\n`).join('')) };
}

/** Writes one run. */
export async function writeOne(archive: ArchiveStore, run: WrittenRun): Promise<number> {
  const [result] = await archive.write([run]);
  if (result?.status !== 'fulfilled') throw result?.reason;
  return result.value;
}

/** What the archive promises in all stores. `leftovers`: the names of everything that has bytes in the store. */
export function archiveContract(
  name: string,
  makeWorld: () => Promise<FilesWorld & { leftovers(): Promise<readonly string[]> }>,
): void {
  const makeArchive = async (world: FilesWorld, options: Partial<ArchiveDeps> = {}): Promise<ArchiveStore> => {
    const { deps } = await world.process();
    return openArchive({ ...deps, kind: world.store.kind, ttlS, maxRedisBytes: 1_000_000, ...options });
  };
  const ended = ({ clock }: FilesWorld, input = '', afterMs = 0): ArchivedRun =>
    archived(newRunId(clock.nowMs), 'a', new Date(clock.nowMs + afterMs).toISOString(), input);

  describe(`${name} as archive`, () => {
    test('a run comes back as it was written, in another process, for its tenant only', async () => {
      const world = await makeWorld();
      const run = ended(world, `${text(10_000)} 🧪`);
      expect(await writeOne(await makeArchive(world), written(run))).toBeGreaterThan(0);
      const other = await makeArchive(world);
      expect(await other.read('a', run.runId)).toEqual(run);
      expect(await other.read('b', run.runId)).toBeUndefined();
      expect(await other.read('a', newRunId(world.clock.nowMs))).toBeUndefined();
    });

    test('the same run again replaces it, also with less', async () => {
      const world = await makeWorld();
      const archive = await makeArchive(world);
      const run = ended(world, text(300_000));
      const short = archived(run.runId, 'a', run.record.createdAt, 'short');
      await writeOne(archive, written(run));
      await writeOne(archive, written(short));
      expect(await archive.read('a', run.runId)).toEqual(short);
      expect(await world.leftovers()).toEqual([`run-${run.runId}`]);
    });

    test('a run is gone after its time, and is not written any more then', async () => {
      const world = await makeWorld();
      const archive = await makeArchive(world, { ttlS: 1 });
      const run = ended(world);
      await writeOne(archive, written(run));
      await endOf(world, `run-${run.runId}`, 10_000);
      expect(await archive.read('a', run.runId)).toBeUndefined();
      expect(await writeOne(archive, written(run))).toBe(0);
      expect(await world.leftovers()).toEqual([]);
    });

    test('an erased run stays erased, also when a worker writes it just then', async () => {
      const world = await makeWorld();
      const archive = await makeArchive(world);
      const run = ended(world);
      await writeOne(archive, written(run));
      expect(await archive.drop('b', written(run))).toBe(false);
      expect(await archive.read('a', run.runId)).toEqual(run);
      expect(await archive.drop('a', written(run))).toBe(true);
      expect(await writeOne(archive, written(run))).toBe(0);
      expect(await archive.read('a', run.runId)).toBeUndefined();
      expect(await world.leftovers()).toEqual([]);
    });

    test('a run that is erased while its bytes are on their way leaves none', async () => {
      const world = await makeWorld();
      const { deps } = await world.process();
      const other = await makeArchive(world);
      const run = ended(world);
      const blobs = await deps.blobs();
      const late: typeof blobs = {
        ...blobs,
        async putAll(...args) {
          await other.drop('a', written(run));
          return await blobs.putAll(...args);
        },
      };
      expect(await writeOne(await makeArchive(world, { blobs: async () => late }), written(run))).toBe(0);
      expect(await world.leftovers()).toEqual([]);
    });

    test('a run that begins with the same id after the erasure is kept again, whose clock ever is behind', async () => {
      const world = await makeWorld();
      const archive = await makeArchive(world);
      const run = written(ended(world));
      await archive.drop('a', run);
      for (const lateMs of [1_000, -60_000]) {
        const createdAt = new Date(world.clock.nowMs + lateMs).toISOString();
        expect(await writeOne(archive, { ...run, createdAt })).toBeGreaterThan(0);
      }
    });

    test('a run stays erased whose clock is ahead of that of the process which erased it', async () => {
      const world = await makeWorld();
      const archive = await makeArchive(world);
      const run = written(ended(world, '', 300_000));
      await archive.drop('a', run);
      expect(await writeOne(archive, run)).toBe(0);
      expect(await world.leftovers()).toEqual([]);
    });

    test('of many runs at once each is kept, or left out, by itself', async () => {
      const world = await makeWorld();
      const archive = await makeArchive(world);
      const runs = Array.from({ length: 20 }, (_, i) => ended(world, text(100 * i)));
      const past = ended(world, '', -2 * ttlS * 1_000);
      const [, erased = past] = runs;
      await archive.drop('a', written(erased));
      const results = await archive.write([...runs, past].map(written));
      const isKept = [...runs, past].map((run) => run !== erased && run !== past);
      expect(results.map((result) => result.status === 'fulfilled' && result.value > 0)).toEqual(isKept);
      const read = await Promise.all([...runs, past].map(async ({ runId }) => await archive.read('a', runId)));
      expect(read).toEqual([...runs, past].map((run, i) => (isKept[i] ? run : undefined)));
      expect(await archive.write([])).toEqual([]);
    });

    test('a line that is damaged hides no other', async () => {
      const world = await makeWorld();
      const archive = await makeArchive(world);
      const run = ended(world);
      const { text: whole, ...facts } = written(run);
      await writeOne(archive, { ...facts, text: `${whole}J{"v":1,"t":\nE\nX?\nRattempts [{\n` });
      expect(await archive.read('a', run.runId)).toMatchObject({
        runId: run.runId,
        journal: [],
        record: { status: 'completed' },
      });
    });

    test('a definition is found by its digest', async () => {
      const world = await makeWorld();
      const definition = { id: 'support', instructions: text(5_000), tools: [] };
      await (await makeArchive(world)).writeDefinition('0123abcd', JSON.stringify(definition));
      expect(await (await makeArchive(world)).readDefinition('0123abcd')).toEqual(definition);
      expect(await (await makeArchive(world)).readDefinition('ffff')).toBeUndefined();
    });

    test('bytes that are damaged, or of another version, are no run', async () => {
      const world = await makeWorld();
      const archive = await makeArchive(world);
      const blobs = await (await world.process()).deps.blobs();
      const run = ended(world);
      const put = (bytes: Buffer) => blobs.put(`run-${run.runId}`, 'record', bytes, world.clock.nowMs + 60_000);
      await put(Buffer.from([2, 2, 3, 4]));
      // Whose it is says the list of runs alone: for another tenant there is nothing.
      await world.redis.zadd(world.keys.index('a'), 1, run.runId);
      onTestFinished(() => void world.redis.del(world.keys.index('a')));
      expect(await archive.read('b', run.runId)).toBeUndefined();
      await expect(archive.read('a', run.runId)).rejects.toThrow('is damaged');
      await put(Buffer.from([9, 2, 3, 4]));
      await expect(archive.read('a', run.runId)).rejects.toThrow('another version');
      expect(await archive.drop('a', written(run))).toBe(true);
      expect(await world.leftovers()).toEqual([]);
    });
  });
}

/** Redis removes its own blobs by its own clock; elsewhere workers do, by theirs. */
async function endOf(world: FilesWorld, owner: string, laterMs: number): Promise<void> {
  world.clock.nowMs += laterMs;
  if (world.store.kind === 'redis') await world.redis.pexpireat(world.keys.blobs(owner), 1);
  await world.sweep();
}
