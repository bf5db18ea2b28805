import { expect, test } from 'vitest';
import { newRunId, sha256 } from '../../src/shared/base/ids.ts';
import { dictionary } from '../../src/shared/state/archive/dictionary.ts';
import { openArchive } from '../../src/shared/state/archive/archive.ts';
import { archiveContract, archived, writeOne, written } from './archive.ts';
import { redisFilesWorld } from './files-redis-world.ts';

archiveContract('Redis', redisFilesWorld);

test('over its bound the archive in Redis loses the oldest runs, and counts what it keeps', async () => {
  const world = await redisFilesWorld();
  const { deps } = await world.process();
  const archive = openArchive({ ...deps, kind: 'redis', ttlS: 3_600, maxRedisBytes: 20_000 });
  const write = async (afterMs: number) => {
    const at = new Date(world.clock.nowMs + afterMs).toISOString();
    const noise = Array.from({ length: 400 }, () => Math.random().toString(36)).join('');
    const run = archived(newRunId(world.clock.nowMs), 'a', at, noise);
    await writeOne(archive, written(run));
    return run.runId;
  };
  const runIds: string[] = [];
  for (let i = 0; i < 8; i++) runIds.push(await write(i * 1_000));
  const kept = await Promise.all(runIds.map(async (runId) => (await archive.read('a', runId)) !== undefined));
  const first = kept.indexOf(true);
  expect(first).toBeGreaterThan(0);
  expect(kept).toEqual(runIds.map((_, i) => i >= first));
  const { inRedis } = await archive.usage();
  expect(inRedis).toMatchObject({ runs: kept.length - first, maxBytes: 20_000 });
  expect(inRedis?.coversMs).toBeLessThanOrEqual(1_000);
  expect(inRedis?.bytes).toBeLessThanOrEqual(20_000);
  for (const key of [world.keys.archived, world.keys.archivedBytes]) {
    expect(await world.redis.ttl(key)).toBeGreaterThan(3_590);
  }

  // One that is older than all of them is the first to leave.
  const older = await write(-60_000);
  expect(await archive.read('a', older)).toBeUndefined();
  expect(await archive.read('a', runIds[first] ?? '')).toBeDefined();
  for (const runId of runIds) await archive.drop('a', { runId, createdAt: '' });
  expect((await archive.usage()).inRedis).toMatchObject({ runs: 0, bytes: 0 });
});

test('runs whose time is over are no longer counted', async () => {
  const world = await redisFilesWorld();
  const { deps } = await world.process();
  const archive = openArchive({ ...deps, kind: 'redis', ttlS: 10, maxRedisBytes: 100_000 });
  const write = async () => {
    const at = new Date(world.clock.nowMs).toISOString();
    const run = written(archived(newRunId(world.clock.nowMs), 'a', at));
    return { run, bytes: await writeOne(archive, run) };
  };
  const { run, bytes } = await write();
  await writeOne(archive, run);
  const alone = (await archive.usage()).inRedis;
  expect(alone?.runs).toBe(1);
  expect(alone?.bytes).toBeGreaterThan(bytes);
  world.clock.nowMs += 60_000;
  await write();
  expect((await archive.usage()).inRedis?.runs).toBe(1);
});

test('what was written is read with the very same dictionary: it never changes', () => {
  expect(sha256(dictionary.toString())).toBe('238319cf6acfccd40a25fd76dc294ebd3bc06ec499afa31ce367598f6b855de9');
});
