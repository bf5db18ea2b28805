import type { Clock } from '../../base/clock.ts';
import type { ReachedKeys } from '../keys.ts';
import { type Blobs, checkBlobNames, type NewBlob } from './blobs.ts';

/** What a folder or a bucket does with blobs. */
export interface BlobPlace {
  readonly kind: 'folder' | 's3';
  put(owner: string, name: string, bytes: Uint8Array): Promise<void>;
  /** See {@link Blobs.putAll}. */
  putAll(blobs: readonly NewBlob[]): Promise<PromiseSettledResult<void>[]>;
  read(owner: string, name: string, from: number, to: number): Promise<Uint8Array | undefined>;
  drop(owner: string): Promise<void>;
  /** Every owner with the time of its last write, in milliseconds since the epoch; one may come several times. */
  owners(): AsyncIterable<{ readonly owner: string; readonly writtenMs: number }>;
}

/** Blobs without an end go when they are so old: no file lives longer. */
const strayAfterMs = 31 * 86_400_000;
/** Ends that are looked at by one step of a sweep. */
const sweepStep = 100;
/** When a removal that failed is tried again. */
const retryMs = 3_600_000;

export interface OuterBlobs extends Blobs {
  /** Removes what has passed its end. */
  sweep(): Promise<void>;
  /** Removes what has no end, for instance because Redis lost it. Lists everything that there is. */
  sweepStrays(): Promise<void>;
}

/** Blobs in a place that forgets nothing by itself: Redis has the end of each owner, from before its first write. */
export function outerBlobs(place: BlobPlace, deps: ReachedKeys & { readonly clock: Clock }): OuterBlobs {
  const { reach, keys, clock } = deps;
  const setEnd = async (owner: string, untilMs: number, how: 'exactly' | 'at least') =>
    await reach((redis) =>
      how === 'exactly' ? redis.zadd(keys.blobEnds, untilMs, owner) : redis.zadd(keys.blobEnds, 'GT', untilMs, owner),
    );
  const remove = async (owner: string) => {
    await place.drop(owner);
    await reach((redis) => redis.zrem(keys.blobEnds, owner));
  };
  return {
    kind: place.kind,
    async put(owner, name, bytes, untilMs) {
      checkBlobNames(owner, name);
      await setEnd(owner, untilMs, 'at least');
      await place.put(owner, name, bytes);
    },
    async putAll(blobs) {
      if (blobs.length === 0) return [];
      for (const { owner, name } of blobs) checkBlobNames(owner, name);
      const ends = blobs.flatMap(({ owner, untilMs }) => [untilMs, owner]);
      await reach((redis) => redis.zadd(keys.blobEnds, 'GT', ...ends));
      return await place.putAll(blobs);
    },
    async read(owner, name, from, to) {
      checkBlobNames(owner, name);
      return await place.read(owner, name, from, to);
    },
    async keepUntil(owner, untilMs, how) {
      checkBlobNames(owner);
      await setEnd(owner, untilMs, how);
    },
    async drop(...owners) {
      checkBlobNames(...owners);
      await Promise.all(owners.map(remove));
    },
    async sweep() {
      const nowMs = clock.now();
      const failures: unknown[] = [];
      for (;;) {
        const ended = await reach((redis) =>
          redis.zrange(keys.blobEnds, '-inf', String(nowMs), 'BYSCORE', 'LIMIT', 0, sweepStep),
        );
        for (const owner of ended) {
          await remove(owner).catch(async (error: unknown) => {
            // One that cannot be removed must not keep the others.
            failures.push(error);
            await setEnd(owner, nowMs + retryMs, 'exactly');
          });
        }
        if (ended.length < sweepStep) break;
      }
      if (failures.length > 0) throw failures[0];
    },
    async sweepStrays() {
      const beforeMs = clock.now() - strayAfterMs;
      const written = new Map<string, number>();
      for await (const { owner, writtenMs } of place.owners())
        written.set(owner, Math.max(writtenMs, written.get(owner) ?? 0));
      for (const [owner, writtenMs] of written) {
        if (writtenMs >= beforeMs) continue;
        const end = await reach((redis) => redis.zscore(keys.blobEnds, owner));
        if (end === null) await place.drop(owner);
      }
    },
  };
}
