import type { RedisConnection } from '../connect.ts';
import type { Keys } from '../keys.ts';
import { redisError } from '../errors.ts';
import type { MediaStore } from './media-store.ts';
import { namedMedia } from './media-bytes.ts';

export interface RedisMediaOptions {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  /** How long bytes are kept after they were last put, in seconds. */
  readonly ttlS: number;
}

/** Generated files in Redis: a hash of type and bytes for each. */
export function redisMedia({ redis, keys, ttlS }: RedisMediaOptions): MediaStore {
  return {
    async put(tenant, bytes, mediaType) {
      const { sha256, buffer } = namedMedia(bytes);
      const key = keys.media(tenant, sha256);
      const results = await redis
        .multi()
        .hset(key, 'type', mediaType, 'bytes', buffer)
        .expire(key, ttlS)
        .exec()
        .catch((error: unknown) => {
          throw redisError(error, 'write of a generated file');
        });
      const refused = results?.find(([error]) => error)?.[0];
      if (refused) throw redisError(refused, 'write of a generated file');
      return sha256;
    },
  };
}
