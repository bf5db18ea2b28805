import { z } from 'zod';
import { artifactTtlS } from '../../contract/artifacts.ts';
import { runId as runIdForm } from '../../base/ids.ts';
import { jsonText } from '../../base/json.ts';
import {
  type Artifacts,
  checkNames,
  checkSize,
  keptInfo,
  runIsFull,
  type ArtifactBounds,
  type Swept,
} from './artifacts.ts';
import { type Bucket, guarded, type ObjectRange } from './s3-bucket.ts';

/** Kept results in an S3-compatible store: `<prefix>/<runId>/spill/<name>`. */
export function s3Artifacts(bucket: Bucket, bounds: ArtifactBounds): Artifacts & Swept {
  return {
    async put(runId, name, body, info) {
      checkNames(runId, name);
      checkSize(body, bounds);
      await guarded('write of a kept result', async () => {
        let taken = body.length;
        for await (const { key, bytes } of bucket.list(prefixOf(runId)))
          if (key !== prefixOf(runId) + name) taken += bytes;
        if (taken > bounds.maxRunBytes) throw runIsFull(bounds);
        await bucket.put(prefixOf(runId) + name, body, { about: jsonText(keptInfo.parse(info)) });
      });
    },
    async read(runId, name, offset, length) {
      checkNames(runId, name);
      const key = prefixOf(runId) + name;
      return await guarded('read of a kept result', async () => {
        const found = await bucket.read(key, offset, length);
        return found && { bytes: found.bytes, info: { ...infoIn(found), totalBytes: found.totalBytes } };
      });
    },
    async drop(runId) {
      checkNames(runId);
      await guarded('removal of kept results', async () => await bucket.removeAll(prefixOf(runId), () => true));
    },
    async sweep(nowMs) {
      await guarded('sweep of kept results', async () => {
        const beforeMs = nowMs - artifactTtlS * 1_000;
        await bucket.removeAll('', ({ key, atMs }) => atMs < beforeMs && isOurs(key));
      });
    },
  };
}

/** What is known about a body, as one entry of the object's metadata: their names lose capitals on the way. */
const metadata = z.object({ about: z.string() });

function infoIn(found: ObjectRange) {
  return keptInfo.parse(JSON.parse(metadata.parse(found.metadata).about));
}

function prefixOf(runId: string): string {
  return `${runId}/spill/`;
}

/** A bucket may contain more than what we put there. */
function isOurs(key: string): boolean {
  const [run = '', folder, name, ...more] = key.split('/');
  return runIdForm.safeParse(run).success && folder === 'spill' && name !== '' && more.length === 0;
}
