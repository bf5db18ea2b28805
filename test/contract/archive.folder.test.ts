import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { archiveContract } from './archive.ts';
import { filesWorld } from './files-world.ts';

archiveContract('Folder', async () => {
  const root = mkdtempSync(join(tmpdir(), 'millrace-archive-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const world = await filesWorld({ kind: 'folder', root });
  const leftovers = async () => {
    const all = readdirSync(root, { recursive: true, withFileTypes: true });
    return all.filter((entry) => entry.isDirectory() && entry.name !== 'files').map(({ name }) => name);
  };
  return { ...world, leftovers };
});
