import type { ReachedKeys } from '../keys.ts';
import { sendAll } from '../script.ts';
import { type Blobs, checkBlobNames } from './blobs.ts';

/** Blobs in Redis: a hash for each owner, which Redis removes at its end. */
export function redisBlobs({ reach, keys }: ReachedKeys): Blobs {
  return {
    kind: 'redis',
    async put(owner, name, bytes, untilMs) {
      checkBlobNames(owner, name);
      const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const key = keys.blobs(owner);
      // In one transaction, so that nothing stays for ever when this process dies in between.
      await reach((redis) => sendAll(redis.multi().hset(key, name, body).pexpireat(key, untilMs)));
    },
    async read(owner, name, from, to) {
      checkBlobNames(owner, name);
      const found = await reach((redis) => redis.hgetBuffer(keys.blobs(owner), name));
      return found?.subarray(from, to);
    },
    async keepUntil(owner, untilMs) {
      checkBlobNames(owner);
      await reach((redis) => redis.pexpireat(keys.blobs(owner), untilMs));
    },
    async drop(owner) {
      checkBlobNames(owner);
      await reach((redis) => redis.unlink(keys.blobs(owner)));
    },
  };
}
