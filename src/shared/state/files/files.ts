import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import { defined } from '../../base/collections.ts';
import { RunError } from '../../base/errors.ts';
import { newNonce } from '../../base/ids.ts';
import { jsonText } from '../../base/json.ts';
import {
  type FilePart,
  type FilePurpose,
  type FileView,
  fileId,
  filePart,
  filePurpose,
  fileTtlS,
  fileView,
  maxFileBytes,
  maxFileBytesInRedis,
  maxFileTtlS,
  maxOutputBytesInRedis,
  maxPartBytes,
  maxTenantFileBytesInRedis,
  newFileId,
} from '../../contract/files.ts';
import type { ReachedKeys } from '../keys.ts';
import { loadScript, type LuaScript, runScript } from '../script.ts';
import type { Blobs } from './blobs.ts';
import { cleanFilename } from './filename.ts';

/** What its maker says of a file. */
export interface FileDraft {
  readonly filename: string;
  readonly purpose: FilePurpose;
  readonly mediaType?: string | undefined;
  /** Default: 7 days. */
  readonly expiresAfterS?: number | undefined;
}

/** A file as its tenant sees it, and what only we know of it. */
export interface FileInfo extends FileView {
  /** Absent for files that were made of parts. */
  readonly sha256?: string | undefined;
  readonly parts: readonly FilePart[];
}

export interface FileListQuery {
  /** The last id of the page before. */
  readonly after?: string | undefined;
  /** Default 100, at most 10,000. */
  readonly limit?: number | undefined;
  /** By the time at which they were begun. Default `desc`, the newest first. */
  readonly order?: 'asc' | 'desc' | undefined;
  readonly purpose?: FilePurpose | undefined;
}

/** The files of all tenants. Throws `queue_unavailable` when Redis or the store of `ARTIFACT_STORE` cannot be reached. */
export interface FileStore {
  /**
   * Streams a body in. Throws `payload_too_large`, and what the body throws, or `draft` where that is asked after the body;
   * nothing is left of what failed.
   */
  put(tenant: string, draft: FileDraft | (() => FileDraft), body: AsyncIterable<Uint8Array>): Promise<FileInfo>;
  info(tenant: string, id: string): Promise<FileInfo | undefined>;
  /** The bytes from `from` (default 0) up to, without, `to`; as a stream. Throws `not_found`. */
  read(tenant: string, id: string, from?: number, to?: number): AsyncIterable<Uint8Array>;
  list(tenant: string, query: FileListQuery): Promise<{ readonly data: FileView[]; readonly has_more: boolean }>;
  /** False: there is no such file. */
  remove(tenant: string, id: string): Promise<boolean>;
  /**
   * Keeps one part, of at most 1 MiB, of a file that is still being made. Nothing refers to it until `finish`; parts that are
   * never finished go 30 days after the last of them. A part overwrites no other. Throws `payload_too_large`.
   */
  writePart(id: string, bytes: Uint8Array): Promise<FilePart>;
  /** The bytes of parts that were written under this id, also before they are a file. Throws `not_found`. */
  readParts(id: string, parts: readonly FilePart[]): AsyncIterable<Uint8Array>;
  /**
   * Makes a file of parts that were written under this id. The same id again changes nothing and answers the file that there
   * is. Outputs of batches count as bytes of their tenant and are never refused; others throw `payload_too_large`.
   */
  finish(tenant: string, id: string, draft: FileDraft, parts: readonly FilePart[]): Promise<FileInfo>;
}

export interface FileStoreDeps extends ReachedKeys {
  readonly clock: Clock;
  /** Opened when it is first needed. */
  readonly blobs: () => Promise<Blobs>;
  /** What the files of one tenant may take together. */
  readonly maxTenantBytes: number;
}

const recordScript = loadScript(import.meta.url, './record-file.lua');
const roomScript = loadScript(import.meta.url, './files-room.lua');
const forgetScript = loadScript(import.meta.url, './forget-file.lua');

/** Bytes of an upload that ends with its process go after this at the latest. */
const uploadTtlMs = 2 * 3_600_000;
const unfinishedTtlMs = maxFileTtlS * 1_000;
/** Small enough that no command keeps others of Redis waiting for long. */
const redisPartBytes = 256 * 1024;
/** A reader that has begun in time may read on for so long. */
const readingTimeMs = 3_600_000;
const viewsAtOnce = 200;
/** Where the lists by purpose begin among the keys of the scripts. */
const firstPurposeKey = 5;

const record = z.object({
  ...fileView.shape,
  sha256: z.string().optional(),
});
type FileRecord = z.infer<typeof record>;

export function openFileStore(deps: FileStoreDeps): FileStore {
  return new StoredFiles(deps);
}

class StoredFiles implements FileStore {
  readonly #deps: FileStoreDeps;

  constructor(deps: FileStoreDeps) {
    this.#deps = deps;
  }

  async put(tenant: string, draft: FileDraft | (() => FileDraft), body: AsyncIterable<Uint8Array>): Promise<FileInfo> {
    const blobs = await this.#deps.blobs();
    const room = await this.#roomOf(tenant, blobs);
    const id = newFileId(this.#deps.clock.now());
    const parts: FilePart[] = [];
    const hash = createHash('sha256');
    try {
      let total = 0;
      for await (const bytes of inParts(body, blobs.kind === 'redis' ? redisPartBytes : maxPartBytes)) {
        total += bytes.length;
        checkSize(total, blobs);
        if (total > room) throw tenantIsFull(this.#tenantRoom(blobs));
        hash.update(bytes);
        parts.push(await this.#writePart(blobs, id, bytes, uploadTtlMs));
      }
      const known = typeof draft === 'function' ? draft() : draft;
      return await this.#finish(tenant, id, known, parts, hash.digest('hex'));
    } catch (error) {
      await blobs.drop(id).catch(() => {});
      throw error;
    }
  }

  async info(tenant: string, id: string): Promise<FileInfo | undefined> {
    if (!fileId.safeParse(id).success) return undefined;
    const [view, parts] = await this.#deps.reach((redis) =>
      redis.hmget(this.#deps.keys.file(tenant, id), 'view', 'parts'),
    );
    if (!view || !parts) return undefined;
    return { ...record.parse(JSON.parse(view)), parts: z.array(filePart).parse(JSON.parse(parts)) };
  }

  async *read(tenant: string, id: string, from = 0, to = Infinity): AsyncIterable<Uint8Array> {
    const info = await this.info(tenant, id);
    if (!info) throw noSuchFile(id);
    yield* this.readParts(id, info.parts, from, to);
  }

  async *readParts(id: string, parts: readonly FilePart[], from = 0, to = Infinity): AsyncIterable<Uint8Array> {
    const blobs = await this.#deps.blobs();
    let at = 0;
    for (const { name, bytes: length } of parts) {
      const [first, last] = [Math.max(0, from - at), Math.min(length, to - at)];
      at += length;
      if (first >= last) continue;
      const bytes = await blobs.read(id, name, first, last);
      if (bytes?.length !== last - first) throw new RunError('not_found', `the bytes of the file ${id} are gone`);
      yield bytes;
    }
  }

  async list(tenant: string, query: FileListQuery) {
    const { after, limit = 100, order = 'desc', purpose } = query;
    const data: FileView[] = [];
    let cursor = after;
    for (;;) {
      const ids = await this.#idsAfter(tenant, cursor, order, purpose);
      for (const view of await this.#views(tenant, ids)) {
        if (data.length === limit) return { data, has_more: true };
        data.push(view);
      }
      cursor = ids.at(-1);
      if (ids.length < viewsAtOnce) return { data, has_more: false };
    }
  }

  async remove(tenant: string, id: string): Promise<boolean> {
    if (!fileId.safeParse(id).success) return false;
    const removed = await this.#script(forgetScript, tenant, id, [id]);
    if (removed !== 1) return false;
    await (await this.#deps.blobs()).drop(id);
    return true;
  }

  async writePart(id: string, bytes: Uint8Array): Promise<FilePart> {
    return await this.#writePart(await this.#deps.blobs(), id, bytes, unfinishedTtlMs);
  }

  async finish(tenant: string, id: string, draft: FileDraft, parts: readonly FilePart[]): Promise<FileInfo> {
    return await this.#finish(tenant, id, draft, parts);
  }

  async #writePart(blobs: Blobs, id: string, bytes: Uint8Array, ttlMs: number): Promise<FilePart> {
    if (bytes.length > maxPartBytes) throw new RunError('internal', `a part of a file has ${bytes.length} bytes`);
    const name = newNonce();
    await blobs.put(id, name, bytes, this.#deps.clock.now() + ttlMs);
    return { name, bytes: bytes.length };
  }

  async #finish(tenant: string, id: string, draft: FileDraft, parts: readonly FilePart[], sha256?: string) {
    const { clock } = this.#deps;
    const blobs = await this.#deps.blobs();
    const known = await this.info(tenant, id);
    if (known) return known;
    const { purpose, mediaType: media_type = 'application/octet-stream', expiresAfterS = fileTtlS } = draft;
    const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
    const isOutput = purpose === 'batch_output';
    if (isOutput) checkOutput(bytes, blobs);
    const now = clock.now();
    const created_at = Math.floor(now / 1_000);
    const expires_at = created_at + expiresAfterS;
    const filename = cleanFilename(draft.filename);
    const status = 'processed' as const;
    const view: FileRecord = defined({
      id,
      object: 'file' as const,
      bytes,
      created_at,
      expires_at,
      filename,
      purpose,
      status,
      media_type,
      sha256,
    });
    await blobs.keepUntil(id, expires_at * 1_000 + readingTimeMs, 'exactly');
    const most = isOutput ? Number.MAX_SAFE_INTEGER : this.#tenantRoom(blobs);
    const listed = firstPurposeKey + filePurpose.options.indexOf(purpose);
    const about = [id, listed, jsonText(view), jsonText(parts), bytes, expires_at * 1_000];
    const recorded = await this.#script(recordScript, tenant, id, [...about, now, most, maxFileTtlS * 1_000]);
    if (recorded === 0) throw tenantIsFull(most);
    return { ...view, parts };
  }

  /** The next ids of a list, in its order; expired ones among them. */
  async #idsAfter(tenant: string, after: string | undefined, order: 'asc' | 'desc', purpose?: FilePurpose) {
    const { keys, reach } = this.#deps;
    const key = keys.files(tenant, purpose);
    const limit = ['LIMIT', 0, viewsAtOnce] as const;
    const from = after === undefined ? undefined : `(${after}`;
    return await reach((redis) =>
      order === 'asc'
        ? redis.zrange(key, from ?? '-', '+', 'BYLEX', ...limit)
        : redis.zrange(key, from ?? '+', '-', 'BYLEX', 'REV', ...limit),
    );
  }

  async #views(tenant: string, ids: readonly string[]): Promise<FileView[]> {
    const { keys, reach } = this.#deps;
    if (ids.length === 0) return [];
    const found = await reach(async (redis) => {
      const pipeline = redis.pipeline();
      for (const id of ids) pipeline.hget(keys.file(tenant, id), 'view');
      return (await pipeline.exec()) ?? [];
    });
    return found.flatMap(([error, view]) => {
      if (error) throw error;
      return typeof view === 'string' ? [fileView.parse(JSON.parse(view))] : [];
    });
  }

  /** The bytes that the tenant may still add. Throws `payload_too_large` when there are none. */
  async #roomOf(tenant: string, blobs: Blobs): Promise<number> {
    const used = await this.#script(roomScript, tenant, '', [this.#deps.clock.now()]);
    const most = this.#tenantRoom(blobs);
    const room = most - Number(used);
    if (room <= 0) throw tenantIsFull(most);
    return room;
  }

  async #script(script: LuaScript, tenant: string, id: string, args: readonly (string | number)[]): Promise<unknown> {
    const { keys, reach } = this.#deps;
    const lists = [undefined, ...filePurpose.options].map((purpose) => keys.files(tenant, purpose));
    const names = [keys.file(tenant, id), keys.fileEnds(tenant), keys.fileBytes(tenant), ...lists];
    return await reach((redis) => runScript(redis, script, names, args, { doing: `${script.name} of a file` }));
  }

  #tenantRoom({ kind }: Blobs): number {
    const { maxTenantBytes } = this.#deps;
    return kind === 'redis' ? Math.min(maxTenantBytes, maxTenantFileBytesInRedis) : maxTenantBytes;
  }
}

export function noSuchFile(id: string): RunError {
  return new RunError('not_found', `there is no file ${id}, or it has expired`);
}

function tenantIsFull(most: number): RunError {
  return new RunError('payload_too_large', `the files of the tenant would be over ${most} bytes: remove some first`);
}

const setStore = 'set ARTIFACT_STORE to a folder or a bucket for larger ones';

function checkSize(total: number, { kind }: Blobs): void {
  if (total > maxFileBytes) throw new RunError('payload_too_large', `the file is over ${maxFileBytes} bytes (200 MB)`);
  if (kind !== 'redis' || total <= maxFileBytesInRedis) return;
  throw new RunError(
    'payload_too_large',
    `the file is over ${maxFileBytesInRedis} bytes, the most that Redis keeps: ${setStore}`,
  );
}

function checkOutput(bytes: number, { kind }: Blobs): void {
  if (kind !== 'redis' || bytes <= maxOutputBytesInRedis) return;
  throw new RunError(
    'payload_too_large',
    `the output is over ${maxOutputBytesInRedis} bytes, the most that Redis keeps: ${setStore}`,
  );
}

/** The same bytes in pieces of this size; only the last may be shorter. A piece is no one's once the next is asked for. */
async function* inParts(body: AsyncIterable<Uint8Array>, size: number): AsyncGenerator<Buffer> {
  const part = Buffer.allocUnsafe(size);
  let used = 0;
  for await (const chunk of body) {
    for (let at = 0; at < chunk.length;) {
      const taken = Math.min(size - used, chunk.length - at);
      part.set(chunk.subarray(at, at + taken), used);
      [used, at] = [used + taken, at + taken];
      if (used < size) continue;
      yield part;
      used = 0;
    }
  }
  if (used > 0) yield part.subarray(0, used);
}
