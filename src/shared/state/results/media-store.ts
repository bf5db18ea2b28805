import { createHash } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { RunError } from '../../base/errors.ts';
import { sha256 as sha256OfText } from '../../base/ids.ts';
import { maxMediaBytes } from '../../contract/media.ts';
import type { Blobs } from '../files/blobs.ts';
import type { ReachedKeys } from '../keys.ts';
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

export interface MediaDeps extends ReachedKeys {
  readonly clock: Clock;
  /** Where bytes are that are too large for Redis, unless these are in Redis, too. */
  readonly blobs: () => Promise<Blobs>;
  /** How long bytes are kept after they were last put, in seconds, unless more is asked for. */
  readonly ttlS: number;
}

/** Larger files lie in the folder or the bucket of `ARTIFACT_STORE`, where it names one. */
export const maxMediaBytesInRedis = 256 * 1024;
/** A blob outlives what is known of it: a reader that has found it gets it. */
const readingTimeMs = 3_600_000;
const blobName = 'body';

/** A hash in Redis for each file: its type, and its bytes or, of a large one, how many bytes its blob has. */
export function openMedia(deps: MediaDeps): MediaStore {
  return new StoredFilesOfRuns(deps);
}

class StoredFilesOfRuns implements MediaStore {
  readonly #deps: MediaDeps;

  constructor(deps: MediaDeps) {
    this.#deps = deps;
  }

  async put(tenant: string, bytes: Uint8Array, mediaType: string, keepS: number = this.#deps.ttlS): Promise<string> {
    const { sha256, buffer } = namedMedia(bytes);
    const key = this.#deps.keys.media(tenant, sha256);
    const isBlob = await this.#putBlob(tenant, sha256, buffer, keepS);
    await this.#deps.reach((redis) => {
      const write = redis.multi();
      if (isBlob) write.hset(key, 'type', mediaType, 'blobBytes', buffer.length).hdel(key, 'bytes');
      else write.hset(key, 'type', mediaType, 'bytes', buffer).hdel(key, 'blobBytes');
      // Of two times the later one counts: the first sets one where there is none.
      return sendAll(write.expire(key, keepS, 'NX').expire(key, keepS, 'GT'));
    });
    return sha256;
  }

  async read(tenant: string, sha256: string): Promise<StoredMedia | undefined> {
    const { keys, reach, blobs } = this.#deps;
    const fields = ['type', 'bytes', 'blobBytes'];
    const [type, bytes, size] = await reach((redis) => redis.hmgetBuffer(keys.media(tenant, sha256), ...fields));
    if (!type) return undefined;
    const mediaType = type.toString('utf8');
    if (bytes) return { mediaType, bytes };
    const store = await blobs();
    const found = await store.read(blobOwner(tenant, sha256), blobName, 0, Number(size));
    return found && { mediaType, bytes: Buffer.from(found.buffer, found.byteOffset, found.byteLength) };
  }

  async keep(tenant: string, sha256: string, keepS: number): Promise<boolean> {
    const { keys, reach, blobs } = this.#deps;
    const key = keys.media(tenant, sha256);
    const isBlob = await reach((redis) => redis.hexists(key, 'blobBytes'));
    if (isBlob === 1) await (await blobs()).keepUntil(blobOwner(tenant, sha256), this.#blobEnd(keepS), 'at least');
    const answers = await reach((redis) => redis.multi().exists(key).expire(key, keepS, 'GT').exec());
    return answers?.[0]?.[1] === 1;
  }

  /** False: they are few, or the store is Redis itself. */
  async #putBlob(tenant: string, sha256: string, buffer: Buffer, keepS: number): Promise<boolean> {
    if (buffer.length <= maxMediaBytesInRedis) return false;
    const store = await this.#deps.blobs();
    if (store.kind === 'redis') return false;
    await store.put(blobOwner(tenant, sha256), blobName, buffer, this.#blobEnd(keepS));
    return true;
  }

  #blobEnd(keepS: number): number {
    return this.#deps.clock.now() + keepS * 1_000 + readingTimeMs;
  }
}

/** Removes a file at once. Answers whether it was there. */
export async function dropMedia(
  { reach, keys, blobs }: Pick<MediaDeps, 'reach' | 'keys' | 'blobs'>,
  tenant: string,
  sha256: string,
): Promise<boolean> {
  const key = keys.media(tenant, sha256);
  const isBlob = await reach((redis) => redis.hexists(key, 'blobBytes'));
  if (isBlob === 1) await (await blobs()).drop(blobOwner(tenant, sha256));
  return (await reach((redis) => redis.unlink(key))) === 1;
}

/** Tenants share the store: the same bytes of two of them are two blobs. */
function blobOwner(tenant: string, sha256: string): string {
  return `media-${sha256OfText(`${tenant}\0${sha256}`)}`;
}
