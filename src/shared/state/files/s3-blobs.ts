import { type Bucket, guarded } from '../results/s3-bucket.ts';
import type { BlobPlace } from './outer-blobs.ts';

const prefix = 'files/';

/** Blobs in an S3-compatible store: `<prefix>/files/<owner>/<name>`. */
export function s3Blobs(bucket: Bucket): BlobPlace {
  const put = async (owner: string, name: string, bytes: Uint8Array) =>
    await guarded('write of a file', () => bucket.put(`${prefix}${owner}/${name}`, bytes, {}));
  return {
    kind: 's3',
    put,
    async putAll(blobs) {
      return await Promise.allSettled(blobs.map(({ owner, name, bytes }) => put(owner, name, bytes)));
    },
    async read(owner, name, from, to) {
      const found = await guarded('read of a file', () => bucket.read(`${prefix}${owner}/${name}`, from, to - from));
      return found?.bytes;
    },
    async drop(owner) {
      await guarded('removal of a file', () => bucket.removeAll(`${prefix}${owner}/`, () => true));
    },
    async *owners() {
      for await (const { key, atMs } of bucket.list(prefix)) {
        const [owner, name, ...more] = key.slice(prefix.length).split('/');
        if (owner && name && more.length === 0) yield { owner, writtenMs: atMs };
      }
    },
  };
}
