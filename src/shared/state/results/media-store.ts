import { createHash } from 'node:crypto';
import { RunError } from '../../base/errors.ts';
import { maxMediaBytes } from '../../contract/media.ts';
import type { KeySpace } from '../keys.ts';
import { named } from '../errors.ts';
import { sendAll } from '../script.ts';

/** Bytes that are kept, and what they are. */
export interface StoredMedia {
  readonly mediaType: string;
  readonly bytes: Buffer;
}

/** Files of a tenant that runs have made or were given, named by their SHA-256. Throws `queue_unavailable` when it cannot be reached. */
export interface MediaStore {
  /**
   * Keeps the bytes and answers their SHA-256 in hex. The same bytes again cost nothing but a longer life. `keepS`: for so many
   * seconds at least; default: as long as results. Throws `payload_too_large` above 32 MiB.
   */
  put(tenant: string, bytes: Uint8Array, mediaType: string, keepS?: number): Promise<string>;
  /** Undefined: they were never there, or are past their time. */
  read(tenant: string, sha256: string): Promise<StoredMedia | undefined>;
  /** Keeps them from now on for so many seconds at least. Answers whether they are there. */
  keep(tenant: string, sha256: string, keepS: number): Promise<boolean>;
}

/** Bytes under the name that they give themselves. Throws `payload_too_large`. */
export function namedMedia(bytes: Uint8Array): { readonly sha256: string; readonly buffer: Buffer } {
  if (bytes.length > maxMediaBytes) {
    throw new RunError('payload_too_large', `a file of ${bytes.length} bytes is over ${maxMediaBytes}`);
  }
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { sha256: createHash('sha256').update(buffer).digest('hex'), buffer };
}

export interface RedisMediaOptions extends KeySpace {
  /** How long bytes are kept after they were last put, in seconds, unless more is asked for. */
  readonly ttlS: number;
}

/** The files in Redis: a hash of type and bytes for each. */
export function redisMedia({ redis, keys, ttlS }: RedisMediaOptions): MediaStore {
  return {
    async put(tenant, bytes, mediaType, keepS = ttlS) {
      const { sha256, buffer } = namedMedia(bytes);
      const key = keys.media(tenant, sha256);
      // Of two times the later one counts: the first sets one where there is none.
      const write = redis.multi().hset(key, 'type', mediaType, 'bytes', buffer);
      await named('write of a file', sendAll(write.expire(key, keepS, 'NX').expire(key, keepS, 'GT')));
      return sha256;
    },
    async read(tenant, sha256) {
      const [type, bytes] = await named(
        'read of a file',
        redis.hmgetBuffer(keys.media(tenant, sha256), 'type', 'bytes'),
      );
      return type && bytes ? { mediaType: type.toString('utf8'), bytes } : undefined;
    },
    async keep(tenant, sha256, keepS) {
      const key = keys.media(tenant, sha256);
      const [[, isThere] = []] =
        (await named('look at a file', redis.multi().exists(key).expire(key, keepS, 'GT').exec())) ?? [];
      return isThere === 1;
    },
  };
}
