import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { folderArtifacts } from '../../src/shared/state/results/folder-artifacts.ts';
import { artifactBounds, artifactsContract } from './artifacts.ts';

const dayMs = 86_400_000;
const run = '01KAPN3YV8Q2T5W7X9Z0A1B2C3';
const info = { toolName: 'report', trust: 'built-in', sensitivity: 'public' } as const;

function folder(): string {
  const root = mkdtempSync(join(tmpdir(), 'millrace-artifacts-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  return root;
}

const storeIn = (root: string) => folderArtifacts({ root, bounds: artifactBounds, progressTtlS: 30 * 86_400 });
const filesIn = (root: string) =>
  readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .toSorted();

artifactsContract('Folder', async () => {
  const root = folder();
  return async () => storeIn(root);
});

test('files are for their owner only, and no temporary one stays', async () => {
  const root = folder();
  await storeIn(root).put(run, 'one', Buffer.from('text'), info);
  expect(filesIn(root)).toEqual([`${run}/spill/one`]);
  expect(statSync(join(root, run, 'spill/one')).mode & 0o777).toBe(0o600);
  expect(statSync(join(root, run, 'spill')).mode & 0o777).toBe(0o700);
});

test('a write that fails leaves no temporary file', async () => {
  const root = folder();
  mkdirSync(join(root, run, 'spill/one'), { recursive: true });
  await expect(storeIn(root).put(run, 'one', Buffer.from('text'), info)).rejects.toMatchObject({
    code: 'queue_unavailable',
  });
  expect(filesIn(root)).toEqual([]);
});

test('a sweep removes results after seven days, notes after their own time, and what is left of writes', async () => {
  const root = folder();
  const store = storeIn(root);
  const nowMs = Date.now();
  const old = (path: string, days: number) => utimesSync(join(root, path), new Date(), new Date(nowMs - days * dayMs));
  const other = '01KAPN3YV8Q2T5W7X9Z0A1B2C4';
  for (const name of ['old', 'new']) await store.put(run, name, Buffer.from('text'), info);
  await store.put(other, 'old', Buffer.from('text'), info);
  mkdirSync(join(root, run, 'progress'));
  for (const name of ['agent.001.txt', 'agent.002.txt']) writeFileSync(join(root, run, 'progress', name), 'note');
  writeFileSync(join(root, run, 'spill/.tmp-x'), 'half');
  mkdirSync(join(root, 'foreign/spill'), { recursive: true });
  writeFileSync(join(root, 'foreign/spill/old'), 'theirs');
  for (const path of [`${run}/spill/old`, `${other}/spill/old`, `${run}/spill/.tmp-x`, 'foreign/spill/old'])
    old(path, 8);
  old(`${run}/progress/agent.001.txt`, 31);
  old(`${run}/progress/agent.002.txt`, 29);
  await store.sweep(nowMs);
  expect(filesIn(root)).toEqual([`${run}/progress/agent.002.txt`, `${run}/spill/new`, 'foreign/spill/old']);
  expect(readdirSync(root).toSorted()).toEqual([run, 'foreign']);
});

test('dropping results leaves the notes of the run', async () => {
  const root = folder();
  await storeIn(root).put(run, 'one', Buffer.from('text'), info);
  mkdirSync(join(root, run, 'progress'));
  writeFileSync(join(root, run, 'progress/agent.001.txt'), 'note');
  await storeIn(root).drop(run);
  expect(filesIn(root)).toEqual([`${run}/progress/agent.001.txt`]);
});

test('the body in a file is the body, after one line about it', async () => {
  const root = folder();
  await storeIn(root).put(run, 'one', Buffer.from('line 1\nline 2\n'), info);
  expect(readFileSync(join(root, run, 'spill/one'), 'utf8')).toBe(`${JSON.stringify(info)}\nline 1\nline 2\n`);
});
