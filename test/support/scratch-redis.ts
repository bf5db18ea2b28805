import { randomInt } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startDevRedis, type DevRedis, type DevRedisOptions } from '../../src/producer/cli/stack/dev-redis.ts';
import { nextFreePort } from '../../src/producer/cli/stack/ports.ts';

export const root = join(import.meta.dirname, '../..');

/** A private Redis whose folder is removed with it: for tests and benchmarks, which stop it. */
export async function startScratchRedis(options: Partial<DevRedisOptions> = {}): Promise<DevRedis> {
  const dir = mkdtempSync(join(tmpdir(), 'millrace-scratch-'));
  const redis = await startDevRedis({ dir, env: process.env, root, port: await freePort(), ...options });
  const stop = async (signal?: NodeJS.Signals) => {
    await redis.stop(signal);
    rmSync(dir, { recursive: true, force: true });
  };
  return { ...redis, stop, [Symbol.asyncDispose]: () => stop() };
}

/**
 * A TCP port on which no process listens right now. Operating systems give outgoing connections ports above 32,767: one of
 * those could be taken by a connection before the process that this port is for listens on it. `fetch` refuses port 10,080.
 */
export async function freePort(): Promise<number> {
  return await nextFreePort('127.0.0.1', randomInt(10_100, 32_000));
}
