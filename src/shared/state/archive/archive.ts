import type { Clock } from '../../base/clock.ts';
import { isRecord } from '../../base/json.ts';
import { type ArchivedRun, archivedFrom } from '../../contract/archive/archived-run.ts';
import { erasedNotLongAgo, noteErased } from '../erasure/erased-runs.ts';
import { isUnavailable } from '../errors.ts';
import type { Blobs } from '../files/blobs.ts';
import type { ReachedKeys } from '../keys.ts';
import { archiveLeaseMs, waitingRuns } from './due-runs.ts';
import { forgetKept, type KeptInRedis, keptInRedis, maxBytesInRedis, noteKept } from './kept-bytes.ts';
import { packed, unpacked } from './packing.ts';

/** What the archive itself needs to know of a run. Times are ISO strings. */
export interface ArchivedFacts {
  readonly runId: string;
  readonly tenant: string;
  readonly createdAt: string;
  readonly endedAt: string;
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
 * end. Workers write it; every process may read. Throws `queue_unavailable` when Redis or that store cannot be reached.
 */
export interface ArchiveStore {
  readonly ttlS: number;
  /**
   * Keeps what is known of an ended run, as JSON of an `archivedRun`; the same run again replaces it. Answers the bytes that it takes;
   * 0: nothing is kept, because it was erased, its time is over already, or there is no room for it among newer ones.
   */
  write(run: ArchivedFacts, json: string): Promise<number>;
  /** Undefined: there is nothing of this tenant, or its time is over. Throws `run_state_malformed` for what cannot be read. */
  read(tenant: string, runId: string): Promise<ArchivedRun | undefined>;
  /**
   * Removes a run of this tenant, and keeps a worker that is just about to write it from doing so. False: there was nothing. The record
   * of the run has to be gone before. A later run under the same id was created at another time, and is none of it.
   */
  drop(tenant: string, run: Pick<ArchivedFacts, 'runId' | 'createdAt'>): Promise<boolean>;
  /** Removes what a worker that died then has written of a run that was erased just before. */
  dropErased(runId: string): Promise<void>;
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
const blobName = 'record';
const dayMs = 86_400_000;

export function openArchive(deps: ArchiveDeps): ArchiveStore {
  const { reach, keys, clock, ttlS } = deps;
  const erased = async (runId: string) => await reach((redis) => erasedNotLongAgo({ redis, keys }, runId));
  const readBlob = async (owner: string): Promise<unknown> => {
    const bytes = await (await deps.blobs()).read(owner, blobName, 0, maxReadBytes);
    return bytes === undefined ? undefined : await unpacked(bytes, owner);
  };
  const remove = async (runId: string) => {
    const blobs = await deps.blobs();
    await blobs.drop(ownerOf(runId));
    if (blobs.kind === 'redis') await forgetKept(deps, [runId]);
  };
  return {
    ttlS,
    async write(run, json) {
      const { runId } = run;
      const owner = ownerOf(runId);
      const untilMs = Date.parse(run.endedAt) + ttlS * 1_000;
      if (untilMs <= clock.now()) return 0;
      const [bytes, blobs] = await Promise.all([packed(json), deps.blobs()]);
      const about = { runId, bytes: bytes.length, untilMs };
      const count = blobs.kind === 'redis' ? keepsCount(deps, blobs, about) : true;
      const [hasRoom] = await Promise.all([count, blobs.put(owner, blobName, bytes, untilMs, 'process')]);
      // Afterwards: it may have been erased since it was read.
      const isErased = (await erased(runId)) === run.createdAt;
      if (hasRoom && !isErased) return bytes.length;
      await remove(runId);
      return 0;
    },
    async read(tenant, runId) {
      const found = await readBlob(ownerOf(runId));
      return belongsTo(found, tenant) ? archivedFrom(found, runId) : undefined;
    },
    async drop(tenant, run) {
      const { runId } = run;
      const found = await readBlob(ownerOf(runId)).catch((error: unknown) => {
        // What cannot be read has to go all the same.
        if (isUnavailable(error)) throw error;
        return { tenant };
      });
      if (found !== undefined && !belongsTo(found, tenant)) return false;
      await reach((redis) => noteErased({ redis, keys }, run));
      // A worker that has taken it may be about to write it, and die before it sees that: another one looks at it after that.
      await reach((redis) => redis.zadd(keys.archiveDue, 'XX', clock.now() + 2 * archiveLeaseMs, runId));
      await remove(runId);
      return found !== undefined;
    },
    async dropErased(runId) {
      if ((await erased(runId)) !== null) await remove(runId);
    },
    async writeDefinition(digest, json) {
      const untilMs = clock.now() + ttlS * 1_000 + 2 * dayMs;
      await (await deps.blobs()).put(definitionOwner(digest), blobName, await packed(json), untilMs);
    },
    async readDefinition(digest) {
      const found = await readBlob(definitionOwner(digest));
      return isRecord(found) ? found : undefined;
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

function belongsTo(found: unknown, tenant: string): boolean {
  return isRecord(found) && found['tenant'] === tenant;
}

/** Counts the run, and removes the oldest others where there is no room for it. False: it is the oldest itself, or too large. */
async function keepsCount(
  deps: ArchiveDeps,
  blobs: Blobs,
  run: { readonly runId: string; readonly bytes: number; readonly untilMs: number },
): Promise<boolean> {
  if (run.bytes > maxBytesInRedis) return false;
  for (;;) {
    const leaving = await noteKept(deps, run);
    for (const runId of leaving) await blobs.drop(ownerOf(runId));
    if (leaving.length > 0) await forgetKept(deps, leaving);
    if (leaving.includes(run.runId)) return false;
    if (leaving.length === 0) return true;
  }
}
