import { onTestFinished } from 'vitest';
import type { ArtifactStore } from '../../src/shared/contract/artifacts.ts';
import { type FileStore, type FileStoreDeps, openFileStore } from '../../src/shared/state/files/files.ts';
import { openBlobs, type OpenedBlobs } from '../../src/shared/state/files/open-blobs.ts';
import type { OuterBlobs } from '../../src/shared/state/files/outer-blobs.ts';
import { named } from '../../src/shared/state/errors.ts';
import { keysFor, type Keys, type Reach } from '../../src/shared/state/keys.ts';
import type { RedisConnection } from '../../src/shared/state/connect.ts';
import { testPrefix, testRedis } from '../support/redis.ts';

/** The room of a tenant in these tests, in bytes. */
export const tenantRoom = 6 * 1024 * 1024;

export interface FilesWorld {
  readonly store: ArtifactStore;
  readonly redis: RedisConnection;
  readonly keys: Keys;
  /** What the stores take for the present time. */
  readonly clock: { nowMs: number };
  /** The files as one more process sees them. */
  process(): Promise<{ readonly files: FileStore; readonly opened: OpenedBlobs; readonly deps: FileStoreDeps }>;
  /** Removes what has passed its end by the clock. */
  sweep(): Promise<void>;
}

/** Files in a store, with the test Redis, or the one at `url`, for what is known of them. */
export async function filesWorld(store: ArtifactStore, url?: string): Promise<FilesWorld> {
  const keys = keysFor(testPrefix());
  const redis = await testRedis('work', url);
  const clock = { nowMs: Date.now() };
  const port = {
    now: () => clock.nowMs,
    monotonic: () => performance.now(),
    sleep: () => Promise.reject(new Error('no')),
  };
  const process = async () => {
    const own = await testRedis('work', url);
    const reach: Reach = (work) => named('a test', work(own));
    const opened = await openBlobs(store, { reach, keys, clock: port });
    onTestFinished(() => opened[Symbol.dispose]());
    const blobs = async () => opened.blobs;
    const deps = { reach, keys, clock: port, blobs, maxTenantBytes: tenantRoom };
    return { files: openFileStore(deps), opened, deps };
  };
  return {
    store,
    redis,
    keys,
    clock,
    process,
    async sweep() {
      const { opened } = await process();
      if ('sweep' in opened.blobs) await (opened.blobs as OuterBlobs).sweep();
    },
  };
}
