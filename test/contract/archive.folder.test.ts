import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { archiveContract } from './archive.ts';
import { filesWorld } from './files-world.ts';

archiveContract('Folder', async () => {
  const root = mkdtempSync(join(tmpdir(), 'millrace-archive-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const world = await filesWorld({ kind: 'folder', root });
  const leftovers = async () => {
    const all = readdirSync(root, { recursive: true, withFileTypes: true });
    return all.filter((entry) => entry.isFile()).map(({ name }) => name);
  };
  return { ...world, leftovers };
});

test('a folder in the place of a blob is about one run, and no outage of the store', async () => {
  const root = mkdtempSync(join(tmpdir(), 'millrace-archive-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  mkdirSync(join(root, 'files', 'owner'), { recursive: true });
  const { deps } = await (await filesWorld({ kind: 'folder', root })).process();
  const blobs = await deps.blobs();
  await expect(blobs.read('owner', 'record', 0, 10)).rejects.toMatchObject({ code: 'internal' });
});
