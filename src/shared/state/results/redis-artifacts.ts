import { z } from 'zod';
import { artifactTtlS } from '../../contract/artifacts.ts';
import { newNonce } from '../../base/ids.ts';
import { jsonText } from '../../base/json.ts';
import { withNamedErrors } from '../errors.ts';
import type { RedisConnection } from '../connect.ts';
import { loadScript, runScript, sendAll } from '../script.ts';
import type { KeySpace } from '../keys.ts';
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

export interface RedisArtifactsOptions extends KeySpace {
  readonly bounds: ArtifactBounds;
}

/** Kept results in Redis. Bodies are written and read in parts, so that a large one does not keep others waiting. */
export function redisArtifacts({ redis, keys, bounds }: RedisArtifactsOptions): Artifacts {
  return withNamedErrors<Artifacts>('artifacts', {
    async put(runId, name, body, info) {
      checkNames(runId, name);
      checkSize(body, bounds);
      const id = newNonce();
      const key = keys.artifactBody(runId, id);
      try {
        await writeParts(redis, key, body);
        const known: Entry = { ...keptInfo.parse(info), id, totalBytes: body.length };
        const args = [name, jsonText(known), body.length, bounds.maxRunBytes, artifactTtlS];
        const doing = 'write of a kept result';
        const reply = await runScript(redis, keepScript, [keys.artifacts(runId), key], args, { doing });
        const [kept, replaced] = reply as [number, string?];
        if (kept === 0) throw runIsFull(bounds);
        if (replaced && replaced !== id) await redis.unlink(keys.artifactBody(runId, replaced));
      } catch (error) {
        await redis.unlink(key).catch(() => {});
        throw error;
      }
    },
    async read(runId, name, offset, length) {
      checkNames(runId, name);
      // A body that is gone may have been replaced since its name was looked up.
      for (let tries = 0; tries < 3; tries++) {
        const json = await redis.hget(keys.artifacts(runId), name);
        if (json === null) return undefined;
        const { id, ...info } = entry.parse(JSON.parse(json));
        const range = rangeIn(info.totalBytes, offset, length);
        const bytes = await readParts(redis, keys.artifactBody(runId, id), range);
        if (bytes) return { bytes, info };
      }
      return undefined;
    },
    async drop(runId) {
      checkNames(runId);
      const { '#used': _, ...kept } = await redis.hgetall(keys.artifacts(runId));
      const bodies = Object.values(kept).map((json) => keys.artifactBody(runId, entry.parse(JSON.parse(json)).id));
      if (bodies.length > 0) await redis.unlink(keys.artifacts(runId), ...bodies);
    },
  });
}

/** The bytes of a range; undefined when the body is gone. */
async function readParts(redis: RedisConnection, key: string, [from, to]: readonly [from: number, to: number]) {
  if (from === to) return Buffer.alloc(0);
  const first = Math.floor(from / partBytes);
  const parts: Buffer[] = [];
  for (let part = first; part * partBytes < to; part += partsAtOnce) {
    const wanted = Array.from({ length: partsAtOnce }, (_, i) => part + i).filter((i) => i * partBytes < to);
    const found = await redis.hmgetBuffer(key, ...wanted.map(String));
    for (const bytes of found) if (bytes) parts.push(bytes);
    if (found.includes(null)) return undefined;
  }
  const base = first * partBytes;
  return Buffer.concat(parts).subarray(from - base, to - base);
}

async function writeParts(redis: RedisConnection, key: string, body: Uint8Array): Promise<void> {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const parts = Math.ceil(bytes.length / partBytes);
  for (let part = 0; part < parts; part += partsAtOnce) {
    const fields = Array.from({ length: Math.min(partsAtOnce, parts - part) }, (_, i) => part + i).flatMap((i) => [
      String(i),
      bytes.subarray(i * partBytes, (i + 1) * partBytes),
    ]);
    // In one write, so that no part stays for ever when this process dies in between.
    const write = redis.pipeline().hset(key, ...fields);
    await sendAll(write.expire(key, unfinishedTtlS));
  }
}
