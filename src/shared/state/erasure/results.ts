import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { assertNever } from '../../base/errors.ts';
import { runId as runIdForm } from '../../base/ids.ts';
import type { ArtifactStore } from '../../contract/artifacts.ts';
import type { ReachedKeys } from '../keys.ts';
import { guarded } from '../results/folder-artifacts.ts';
import { redisArtifacts } from '../results/redis-artifacts.ts';
import { openBucket } from '../results/s3-bucket.ts';

const noBounds = { maxBytes: 0, maxRunBytes: 0 };

/** Removes the kept results and the progress notes of a run, wherever they are. Throws `queue_unavailable`, `internal`. */
export async function eraseResults(
  store: ArtifactStore,
  { reach, keys }: ReachedKeys,
  { tenant, runId }: { readonly tenant: string; readonly runId: string },
): Promise<void> {
  await reach(async (redis) => {
    await redisArtifacts({ redis, keys, bounds: noBounds }).drop(runId);
    const notes = [keys.progress, keys.progressTexts, keys.progressNumbers].map((key) => key(tenant, runId));
    await redis.unlink(...notes);
  });
  const folder = runIdForm.parse(runId);
  switch (store.kind) {
    case 'redis':
      return;
    case 'folder':
      await guarded('removal of a run', () => rm(join(store.root, folder), { recursive: true, force: true }));
      return;
    case 's3': {
      using bucket = await openBucket(store);
      await bucket.removeAll(`${folder}/`, () => true);
      return;
    }
    default:
      assertNever(store);
  }
}
