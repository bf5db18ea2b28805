import type { Clock } from '../../base/clock.ts';
import { assertNever } from '../../base/errors.ts';
import type { ArtifactStore } from '../../contract/artifacts.ts';
import type { ReachedKeys } from '../keys.ts';
import { probeFolder } from '../results/folder-artifacts.ts';
import { openBucket } from '../results/s3-bucket.ts';
import type { Blobs } from './blobs.ts';
import { folderBlobs } from './folder-blobs.ts';
import { outerBlobs } from './outer-blobs.ts';
import { redisBlobs } from './redis-blobs.ts';
import { s3Blobs } from './s3-blobs.ts';

export interface BlobsDeps extends ReachedKeys {
  readonly clock: Clock;
}

/** Blobs, until they are disposed of. */
export interface OpenedBlobs extends Disposable {
  readonly blobs: Blobs;
}

/** The blobs of a store. Asks Redis nothing. Throws `invalid_config` for a folder or a bucket that cannot be written to. */
export async function openBlobs(store: ArtifactStore, deps: BlobsDeps): Promise<OpenedBlobs> {
  switch (store.kind) {
    case 'redis':
      return { blobs: redisBlobs(deps), [Symbol.dispose]() {} };
    case 'folder':
      await probeFolder(store.root);
      return { blobs: outerBlobs(folderBlobs(store.root), deps), [Symbol.dispose]() {} };
    case 's3': {
      const bucket = await openBucket(store);
      return { blobs: outerBlobs(s3Blobs(bucket), deps), [Symbol.dispose]: () => bucket[Symbol.dispose]() };
    }
    default:
      return assertNever(store);
  }
}
