import type { ReachedKeys } from '../keys.ts';
import { loadScript, runScript } from '../script.ts';
import { type Blobs, checkBlobNames } from './blobs.ts';

const putScript = loadScript(import.meta.url, './put-blob.lua');

/** Blobs in Redis: a hash for each owner, which Redis removes at its end. */
export function redisBlobs({ reach, keys }: ReachedKeys): Blobs {
  return {
    kind: 'redis',
    async put(owner, name, bytes, untilMs) {
      checkBlobNames(owner, name);
      const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const args = [name, body, untilMs];
      await reach((redis) => runScript(redis, putScript, [keys.blobs(owner)], args, { doing: 'write of a blob' }));
    },
    async read(owner, name, from, to) {
      checkBlobNames(owner, name);
      const found = await reach((redis) => redis.hgetBuffer(keys.blobs(owner), name));
      return found?.subarray(from, to);
    },
    async keepUntil(owner, untilMs, how) {
      checkBlobNames(owner);
      const key = keys.blobs(owner);
      await reach((redis) => (how === 'exactly' ? redis.pexpireat(key, untilMs) : redis.pexpireat(key, untilMs, 'GT')));
    },
    async drop(owner) {
      checkBlobNames(owner);
      await reach((redis) => redis.unlink(keys.blobs(owner)));
    },
  };
}
