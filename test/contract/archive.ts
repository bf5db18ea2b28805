import { describe, expect, test } from 'vitest';
import { type ArchiveDeps, type ArchiveStore, openArchive } from '../../src/shared/state/archive/archive.ts';
import { newRunId } from '../../src/shared/base/ids.ts';
import type { ArchivedRun } from '../../src/shared/contract/archive/archived-run.ts';
import type { FilesWorld } from './files-world.ts';
import { aRecord } from './run-fixtures.ts';

const ttlS = 3_600;
const text = (length: number) => Array.from({ length }, (_, i) => String.fromCodePoint(33 + ((i * i) % 90))).join('');

/** A run that ended as soon as it was made, as the archive has it; `system` is anything that was known of it. */
export function archived(runId: string, tenant: string, at: string, system = ''): ArchivedRun {
  const record = aRecord({ runId, tenant, createdAt: at, status: 'completed', endedAt: at });
  return { v: 1, runId, tenant, record, journal: [], events: [], decisions: [], children: [], initial: { system } };
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
  const ended = ({ clock }: FilesWorld, tenant = 'a') => {
    const at = new Date(clock.nowMs).toISOString();
    return { runId: newRunId(clock.nowMs), tenant, createdAt: at, endedAt: at };
  };
  type Ended = ReturnType<typeof ended>;
  const content = (run: Ended, system?: string) => archived(run.runId, run.tenant, run.endedAt, system);
  const json = (run: Ended, system?: string) => JSON.stringify(content(run, system));

  describe(`${name} as archive`, () => {
    test('a run comes back as it was written, in another process, for its tenant only', async () => {
      const world = await makeWorld();
      const run = ended(world);
      const system = `${text(10_000)} 🧪`;
      expect(await (await makeArchive(world)).write(run, json(run, system))).toBeGreaterThan(0);
      const other = await makeArchive(world);
      expect(await other.read('a', run.runId)).toEqual(content(run, system));
      expect(await other.read('b', run.runId)).toBeUndefined();
      expect(await other.read('a', newRunId(world.clock.nowMs))).toBeUndefined();
    });

    test('the same run again replaces it, also with less', async () => {
      const world = await makeWorld();
      const archive = await makeArchive(world);
      const run = ended(world);
      await archive.write(run, json(run, text(300_000)));
      await archive.write(run, json(run, 'short'));
      expect(await archive.read('a', run.runId)).toEqual(content(run, 'short'));
      expect(await world.leftovers()).toEqual([`run-${run.runId}`]);
    });

    test('a run is gone after its time, and is not written any more then', async () => {
      const world = await makeWorld();
      const archive = await makeArchive(world, { ttlS: 1 });
      const run = ended(world);
      await archive.write(run, json(run));
      await endOf(world, `run-${run.runId}`, 10_000);
      expect(await archive.read('a', run.runId)).toBeUndefined();
      expect(await archive.write(run, json(run))).toBe(0);
      expect(await world.leftovers()).toEqual([]);
    });

    test('an erased run stays erased, also when a worker writes it just then', async () => {
      const world = await makeWorld();
      const archive = await makeArchive(world);
      const run = ended(world);
      await archive.write(run, json(run));
      expect(await archive.drop('b', run)).toBe(false);
      expect(await archive.read('a', run.runId)).toEqual(content(run));
      expect(await archive.drop('a', run)).toBe(true);
      expect(await archive.write(run, json(run))).toBe(0);
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
        async put(...args) {
          await other.drop('a', run);
          await blobs.put(...args);
        },
      };
      expect(await (await makeArchive(world, { blobs: async () => late })).write(run, json(run))).toBe(0);
      expect(await world.leftovers()).toEqual([]);
    });

    test('a run that begins with the same id after the erasure is kept again, whose clock ever is behind', async () => {
      const world = await makeWorld();
      const archive = await makeArchive(world);
      const run = ended(world);
      await archive.drop('a', run);
      for (const lateMs of [1_000, -60_000]) {
        const createdAt = new Date(world.clock.nowMs + lateMs).toISOString();
        expect(await archive.write({ ...run, createdAt }, json(run))).toBeGreaterThan(0);
      }
    });

    test('a run stays erased whose clock is ahead of that of the process which erased it', async () => {
      const world = await makeWorld();
      const archive = await makeArchive(world);
      const at = new Date(world.clock.nowMs + 300_000).toISOString();
      const run = { ...ended(world), createdAt: at, endedAt: at };
      await archive.drop('a', run);
      expect(await archive.write(run, json(run))).toBe(0);
      expect(await world.leftovers()).toEqual([]);
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
      await put(Buffer.from([1, 2, 3, 4]));
      await expect(archive.read('a', run.runId)).rejects.toThrow('is damaged');
      await put(Buffer.from([9, 2, 3, 4]));
      await expect(archive.read('a', run.runId)).rejects.toThrow('another version');
      expect(await archive.drop('a', run)).toBe(true);
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
