import { createHash } from 'node:crypto';
import { RunError } from '../../base/errors.ts';
import { maxMediaBytes } from '../../contract/media.ts';
import type { KeySpace } from '../keys.ts';
import { named } from '../errors.ts';
import { sendAll } from '../script.ts';

/** Generated files of a tenant, named by their SHA-256 and kept as long as results. */
export interface MediaStore {
  /**
   * Keeps the bytes and answers their SHA-256 in hex. The same bytes again cost nothing but a longer life. Throws
   * `payload_too_large` above 32 MiB and `queue_unavailable` when the store cannot be reached.
   */
  put(tenant: string, bytes: Uint8Array, mediaType: string): Promise<string>;
}

/** Bytes under the name that they give themselves. Throws `payload_too_large`. */
export function namedMedia(bytes: Uint8Array): { readonly sha256: string; readonly buffer: Buffer } {
  if (bytes.length > maxMediaBytes) {
    throw new RunError('payload_too_large', `a generated file of ${bytes.length} bytes is over ${maxMediaBytes}`);
  }
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { sha256: createHash('sha256').update(buffer).digest('hex'), buffer };
}

export interface RedisMediaOptions extends KeySpace {
  /** How long bytes are kept after they were last put, in seconds. */
  readonly ttlS: number;
}

/** Generated files in Redis: a hash of type and bytes for each. */
export function redisMedia({ redis, keys, ttlS }: RedisMediaOptions): MediaStore {
  return {
    async put(tenant, bytes, mediaType) {
      const { sha256, buffer } = namedMedia(bytes);
      const key = keys.media(tenant, sha256);
      const write = redis.multi().hset(key, 'type', mediaType, 'bytes', buffer).expire(key, ttlS);
      await named('write of a generated file', sendAll(write));
      return sha256;
    },
  };
}
