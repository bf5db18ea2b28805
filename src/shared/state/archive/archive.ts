import { setImmediate as turn } from 'node:timers/promises';
import type { Clock } from '../../base/clock.ts';
import { isRecord, jsonOr } from '../../base/json.ts';
import { type ArchivedRun, archivedFrom, tenantOfArchived } from '../../contract/archive/archived-run.ts';
import { erasedNotLongAgo, noteErased } from '../erasure/erased-runs.ts';
import { isUnavailable } from '../errors.ts';
import { type Blobs, type NewBlob, onlyBlob } from '../files/blobs.ts';
import type { ReachedKeys } from '../keys.ts';
import { archiveLeaseMs, waitingRuns } from './due-runs.ts';
import { forgetKept, type KeptInRedis, keptInRedis, maxBytesInRedis, noteKept } from './kept-bytes.ts';
import { packed, unpacked } from './packing.ts';

/** A run on its way into the archive. Times are ISO strings. */
export interface WrittenRun {
  readonly runId: string;
  readonly createdAt: string;
  readonly endedAt: string;
  /** Seconds that it is kept after its end: at most those of the archive. */
  readonly ttlS: number;
  /** An `archivedText`. */
  readonly text: string;
}

/** How full the archive is. In a folder or a bucket its bytes are not counted. */
export interface ArchiveUsage {
  readonly kind: Blobs['kind'];
  /** Seconds that a run is kept after its end; 0: no run is archived. */
  readonly ttlS: number;
  /** Ended runs that are not in it yet, and how long ago one of them ended, of a hundred the oldest. */
  readonly waiting: number;
  readonly oldestWaitingMs: number;
  /** `coversMs`: how long ago the oldest run that is kept there ended. */
  readonly inRedis?: KeptInRedis & { readonly maxBytes: number };
}

/**
 * What is kept of ended runs, in the store that `ARTIFACT_STORE` names: one blob for each, compressed, until `ARCHIVE_TTL_S` after its
 * end at most. Workers write it; every process may read. Throws `queue_unavailable` when Redis or that store cannot be reached.
 */
export interface ArchiveStore {
  readonly ttlS: number;
  /**
   * Keeps what is known of ended runs; the same run again replaces it. Answers for each the bytes that it takes; 0: nothing is kept,
   * because it was erased, its time is over already, or there is no room for it among newer ones. One that fails is rejected alone.
   */
  write(runs: readonly WrittenRun[]): Promise<PromiseSettledResult<number>[]>;
  /**
   * Undefined: there is nothing of this tenant, or its time is over. Throws `run_state_malformed` for what cannot be read, where the
   * tenant's list of runs has its id, which proves whose it is.
   */
  read(tenant: string, runId: string): Promise<ArchivedRun | undefined>;
  /**
   * Removes a run of this tenant, and keeps a worker that is just about to write it from doing so. False: there was nothing. The record
   * of the run has to be gone before. A later run under the same id was created at another time, and is none of it.
   */
  drop(tenant: string, run: Pick<WrittenRun, 'runId' | 'createdAt'>): Promise<boolean>;
  /** Removes what workers that died then have written of runs that were erased just before. */
  dropErased(runIds: readonly string[]): Promise<void>;
  /** Keeps the definition of an agent, as JSON, under the digest of its text: for as long as a run that ends within a day may be read. */
  writeDefinition(digest: string, json: string): Promise<void>;
  readDefinition(digest: string): Promise<Record<string, unknown> | undefined>;
  usage(): Promise<ArchiveUsage>;
}

export interface ArchiveDeps extends ReachedKeys {
  readonly clock: Clock;
  /** Of the store that `blobs` opens. */
  readonly kind: Blobs['kind'];
  /** Opened when it is first needed. */
  readonly blobs: () => Promise<Blobs>;
  readonly ttlS: number;
  /** What archived runs may take together where the store is Redis: the oldest go first. */
  readonly maxRedisBytes: number;
}

/** More than any run takes, see `fitted`. */
const maxReadBytes = 64 * 1024 * 1024;
/** Half a millisecond. */
const packedAtOnce = 4;
const dayMs = 86_400_000;

export function openArchive(deps: ArchiveDeps): ArchiveStore {
  const { reach, keys, clock, ttlS } = deps;
  const readBlob = async (owner: string): Promise<string | undefined> => {
    const bytes = await (await deps.blobs()).read(owner, onlyBlob, 0, maxReadBytes);
    return bytes === undefined ? undefined : await unpacked(bytes, owner);
  };
  return {
    ttlS,
    write: async (runs) => await writeRuns(deps, runs),
    async read(tenant, runId) {
      try {
        const found = await readBlob(ownerOf(runId));
        return found !== undefined && tenantOfArchived(found) === tenant ? archivedFrom(found, runId) : undefined;
      } catch (error) {
        // Whose it is cannot be read either. That it is there is nothing for other tenants.
        const isOwn = async () => (await reach((redis) => redis.zscore(keys.index(tenant), runId))) !== null;
        if (isUnavailable(error) || (await isOwn())) throw error;
        return undefined;
      }
    },
    async drop(tenant, run) {
      const { runId } = run;
      const owner = await readBlob(ownerOf(runId)).then(
        (found) => found !== undefined && tenantOfArchived(found),
        (error: unknown) => {
          // What cannot be read has to go all the same.
          if (isUnavailable(error)) throw error;
          return tenant;
        },
      );
      if (owner !== false && owner !== tenant) return false;
      await reach((redis) => noteErased({ redis, keys }, run));
      // A worker that has taken it may be about to write it, and die before it sees that: another one looks at it after that.
      await reach((redis) => redis.zadd(keys.archiveDue, 'XX', clock.now() + 2 * archiveLeaseMs, runId));
      await dropKept(deps, await deps.blobs(), [runId]);
      return owner !== false;
    },
    async dropErased(runIds) {
      const times = await reach((redis) => erasedNotLongAgo({ redis, keys }, runIds));
      const erased = runIds.filter((_, i) => times[i] !== null);
      if (erased.length > 0) await dropKept(deps, await deps.blobs(), erased);
    },
    async writeDefinition(digest, json) {
      const untilMs = clock.now() + ttlS * 1_000 + 2 * dayMs;
      await (await deps.blobs()).put(definitionOwner(digest), onlyBlob, await packed(json), untilMs);
    },
    async readDefinition(digest) {
      const found = await readBlob(definitionOwner(digest));
      const definition = found === undefined ? undefined : jsonOr(found);
      return isRecord(definition) ? definition : undefined;
    },
    async usage() {
      const { kind, maxRedisBytes: maxBytes } = deps;
      const about = { kind, ttlS, ...(await reach((redis) => waitingRuns({ redis, keys }, clock.now()))) };
      return kind === 'redis' ? { ...about, inRedis: { ...(await keptInRedis(deps)), maxBytes } } : about;
    },
  };
}

/** Each run has its own place, so that it can be replaced, read and removed by its id alone. */
function ownerOf(runId: string): string {
  return `run-${runId}`;
}

function definitionOwner(digest: string): string {
  return `agent-${digest}`;
}

async function writeRuns(deps: ArchiveDeps, runs: readonly WrittenRun[]): Promise<PromiseSettledResult<number>[]> {
  const { clock } = deps;
  const blobs = await deps.blobs();
  const drafts: (NewBlob & Pick<WrittenRun, 'runId' | 'createdAt'>)[] = [];
  for (const { runId, createdAt, endedAt, ttlS, text } of runs) {
    const untilMs = Date.parse(endedAt) + Math.min(ttlS, deps.ttlS) * 1_000;
    if (untilMs <= clock.now()) continue;
    drafts.push({ runId, createdAt, owner: ownerOf(runId), name: onlyBlob, bytes: await packed(text), untilMs });
    // Whatever else this process does goes first.
    if (drafts.length % packedAtOnce === 0) await turn();
  }
  if (drafts.length === 0) return runs.map(() => ({ status: 'fulfilled', value: 0 }));
  const left = blobs.kind === 'redis' ? await makeRoom(deps, blobs, drafts) : new Set<string>();
  const staying = drafts.filter(({ runId }) => !left.has(runId));
  const results = await blobs.putAll(staying);
  const erased = await dropErased(deps, blobs, staying);
  const kept = new Map(staying.map((draft, i) => [draft.runId, { draft, result: results[i] }] as const));
  return runs.map(({ runId }) => {
    const { draft, result } = kept.get(runId) ?? {};
    if (result?.status === 'rejected') return result;
    return { status: 'fulfilled', value: draft && !erased.has(runId) ? draft.bytes.length : 0 };
  });
}

/** Removes those again that were erased after they were read. */
async function dropErased(
  deps: ArchiveDeps,
  blobs: Blobs,
  runs: readonly Pick<WrittenRun, 'runId' | 'createdAt'>[],
): Promise<ReadonlySet<string>> {
  const { reach, keys } = deps;
  const ids = runs.map(({ runId }) => runId);
  const times = await reach((redis) => erasedNotLongAgo({ redis, keys }, ids));
  const erased = runs.flatMap(({ runId, createdAt }, i) => (times[i] === createdAt ? [runId] : []));
  if (erased.length > 0) await dropKept(deps, blobs, erased);
  return new Set(erased);
}

/** Counts the runs, and removes the oldest others where there is no room for them. Those of them that are the oldest, or too large, are left out. */
async function makeRoom(
  deps: ArchiveDeps,
  blobs: Blobs,
  runs: readonly { readonly runId: string; readonly bytes: Uint8Array; readonly untilMs: number }[],
): Promise<ReadonlySet<string>> {
  const sizes = runs.map(({ runId, bytes, untilMs }) => ({ runId, bytes: bytes.length, untilMs }));
  const left = new Set(sizes.filter(({ bytes }) => bytes > maxBytesInRedis).map(({ runId }) => runId));
  for (;;) {
    const counted = sizes.filter(({ runId }) => !left.has(runId));
    const leaving = counted.length === 0 ? [] : await noteKept(deps, counted);
    if (leaving.length === 0) return left;
    await dropKept(deps, blobs, leaving);
    for (const runId of leaving) left.add(runId);
  }
}

/** A hundred at once, at most. */
async function dropKept(deps: ArchiveDeps, blobs: Blobs, runIds: readonly string[]): Promise<void> {
  await blobs.drop(...runIds.map(ownerOf));
  if (blobs.kind === 'redis') await forgetKept(deps, runIds);
}
