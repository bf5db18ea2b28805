import { z } from 'zod';
import { artifactTtlS } from '../../contract/artifact-store.ts';
import { newNonce } from '../../base/ids.ts';
import { jsonText } from '../../base/json-text.ts';
import { redisError } from '../errors.ts';
import type { RedisConnection } from '../connect.ts';
import { loadScript, runScript } from '../script.ts';
import type { Keys } from '../keys.ts';
import {
  type Artifacts,
  checkNames,
  checkSize,
  keptInfo,
  rangeIn,
  runIsFull,
  type ArtifactBounds,
} from './artifacts.ts';

const keepScript = loadScript(import.meta.url, './artifact-keep.lua');

/** Small enough that no command keeps others waiting for long. */
const partBytes = 64 * 1024;
const partsAtOnce = 4;
/** A body that is never finished goes by itself after this. */
const unfinishedTtlS = 3_600;

const entry = keptInfo.extend({ id: z.string(), totalBytes: z.int() });
type Entry = z.infer<typeof entry>;

export interface RedisArtifactsOptions {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  readonly bounds: ArtifactBounds;
}

/** Kept results in Redis. Bodies are written and read in parts, so that a large one does not keep others waiting. */
export function redisArtifacts({ redis, keys, bounds }: RedisArtifactsOptions): Artifacts {
  /** What is known of a name; undefined when there is none. */
  async function find(runId: string, name: string): Promise<Entry | undefined> {
    const json = await redis.hget(keys.artifacts(runId), name);
    return json === null ? undefined : entry.parse(JSON.parse(json));
  }

  /** The bytes of a range; undefined when the body is gone. */
  async function bytesOf(runId: string, { id, totalBytes }: Entry, offset: number, length: number) {
    const [from, to] = rangeIn(totalBytes, offset, length);
    if (from === to) return Buffer.alloc(0);
    const first = Math.floor(from / partBytes);
    const parts: Buffer[] = [];
    for (let part = first; part * partBytes < to; part += partsAtOnce) {
      const wanted = Array.from({ length: partsAtOnce }, (_, i) => part + i).filter((i) => i * partBytes < to);
      const found = await redis.hmgetBuffer(keys.artifactBody(runId, id), ...wanted.map(String));
      for (const bytes of found) if (bytes) parts.push(bytes);
      if (found.includes(null)) return undefined;
    }
    const base = first * partBytes;
    return Buffer.concat(parts).subarray(from - base, to - base);
  }

  async function write(key: string, body: Uint8Array): Promise<void> {
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    const parts = Math.ceil(bytes.length / partBytes);
    for (let part = 0; part < parts; part += partsAtOnce) {
      const fields = Array.from({ length: Math.min(partsAtOnce, parts - part) }, (_, i) => part + i).flatMap((i) => [
        String(i),
        bytes.subarray(i * partBytes, (i + 1) * partBytes),
      ]);
      // In one write, so that no part stays for ever when this process dies in between.
      const results = await redis
        .pipeline()
        .hset(key, ...fields)
        .expire(key, unfinishedTtlS)
        .exec();
      const refused = results?.find(([error]) => error)?.[0];
      if (refused) throw refused;
    }
  }

  return {
    async put(runId, name, body, info) {
      checkNames(runId, name);
      checkSize(body, bounds);
      const id = newNonce();
      const key = keys.artifactBody(runId, id);
      await guarded('write of a kept result', async () => {
        await write(key, body);
        const known: Entry = { ...keptInfo.parse(info), id, totalBytes: body.length };
        const args = [name, jsonText(known), body.length, bounds.maxRunBytes, artifactTtlS];
        const doing = 'write of a kept result';
        const reply = await runScript(redis, keepScript, [keys.artifacts(runId), key], args, { doing });
        const [kept, replaced] = reply as [number, string?];
        if (kept === 0) throw runIsFull(bounds);
        if (replaced && replaced !== id) await redis.unlink(keys.artifactBody(runId, replaced));
      }).catch(async (error: unknown) => {
        await redis.unlink(key).catch(() => {});
        throw error;
      });
    },
    async read(runId, name, offset, length) {
      checkNames(runId, name);
      return await guarded('read of a kept result', async () => {
        // A body that is gone may have been replaced since its name was looked up.
        for (let tries = 0; tries < 3; tries++) {
          const found = await find(runId, name);
          if (!found) return undefined;
          const bytes = await bytesOf(runId, found, offset, length);
          if (!bytes) continue;
          const { id: _, ...info } = found;
          return { bytes, info };
        }
        return undefined;
      });
    },
    async drop(runId) {
      checkNames(runId);
      await guarded('removal of kept results', async () => {
        const { '#used': _, ...kept } = await redis.hgetall(keys.artifacts(runId));
        const bodies = Object.values(kept).map((json) => keys.artifactBody(runId, entry.parse(JSON.parse(json)).id));
        if (bodies.length > 0) await redis.unlink(keys.artifacts(runId), ...bodies);
      });
    },
  };
}

async function guarded<T>(doing: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw redisError(error, doing);
  }
}
