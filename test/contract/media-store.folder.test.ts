import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openMedia } from '../../src/shared/state/results/media-store.ts';
import { filesWorld } from './files-world.ts';
import { mediaContract } from './media-store.ts';

const ttlS = 100;

async function makeWorld() {
  const root = mkdtempSync(join(tmpdir(), 'millrace-media-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const world = await filesWorld({ kind: 'folder', root });
  const media = openMedia({ ...(await world.process()).deps, ttlS });
  const blobs = () => readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return { ...world, media, blobs };
}

mediaContract('Folder', async () => (await makeWorld()).media);

test('a file of 20 MB lies in the folder, and hardly anything of it in Redis', async () => {
  const { redis, keys, media, blobs } = await makeWorld();
  const sha256 = await media.put('a', Buffer.alloc(20_000_000), 'application/pdf');
  expect(await redis.memory('USAGE', keys.media('a', sha256))).toBeLessThan(1_000);
  expect(blobs()).toHaveLength(1);
  await media.put('a', Buffer.alloc(1_000), 'image/png');
  expect(blobs()).toHaveLength(1);
});

test('the bytes of a file go after its time, which a later use makes longer and an earlier one does not make shorter', async () => {
  const world = await makeWorld();
  const { media, clock, blobs } = world;
  const sha256 = await media.put('a', Buffer.alloc(300_000), 'image/png');
  await media.keep('a', sha256, 20_000);
  await media.put('a', Buffer.alloc(300_000), 'image/png');
  clock.nowMs += 19_000_000;
  await world.sweep();
  expect(blobs()).toHaveLength(1);
  clock.nowMs += 6_000_000;
  await world.sweep();
  expect(blobs()).toEqual([]);
});
