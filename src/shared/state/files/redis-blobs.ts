import { Cluster } from 'ioredis';
import type { RedisConnection } from '../connect.ts';
import type { ReachedKeys } from '../keys.ts';
import { loadScript, runScript, runScriptAll, type ScriptCall } from '../script.ts';
import { type Blobs, checkBlobNames, type NewBlob } from './blobs.ts';

const putScript = loadScript(import.meta.url, './put-blob.lua');

/** Blobs in Redis: a hash for each owner, which Redis removes at its end. */
export function redisBlobs({ reach, keys }: ReachedKeys): Blobs {
  const putCall = ({ owner, name, bytes, untilMs }: NewBlob): ScriptCall => {
    checkBlobNames(owner, name);
    const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return { keys: [keys.blobs(owner)], args: [name, body, untilMs], doing: 'write of a blob' };
  };
  return {
    kind: 'redis',
    async put(owner, name, bytes, untilMs) {
      const call = putCall({ owner, name, bytes, untilMs });
      await reach((redis) => runScript(redis, putScript, call.keys, call.args, call));
    },
    async putAll(blobs) {
      const calls = blobs.map(putCall);
      const replies = await reach((redis) => runScriptAll(redis, putScript, calls));
      return replies.map((reply) => (reply.status === 'rejected' ? reply : { status: 'fulfilled', value: undefined }));
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
    async drop(...owners) {
      checkBlobNames(...owners);
      const own = owners.map(keys.blobs);
      const unlink = async (redis: RedisConnection) =>
        redis instanceof Cluster ? await Promise.all(own.map((key) => redis.unlink(key))) : await redis.unlink(own);
      if (own.length > 0) await reach(unlink);
    },
  };
}
