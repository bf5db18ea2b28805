import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { folderBlobs } from '../../../../src/shared/state/files/folder-blobs.ts';
import { FolderWriter, type NewFile } from '../../../../src/shared/state/files/folder-writer.ts';
import { until } from '../../../support/redis.ts';

function aFolder(): string {
  const root = mkdtempSync(join(tmpdir(), 'millrace-test-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  return root;
}

function fileOf(root: string, name: string, text: string): NewFile {
  return { path: join(root, name, 'record'), bytes: Buffer.from(text) };
}

test('files are there when it answers, for their owner only, whole, and nothing beside them', async () => {
  const root = aFolder();
  const texts = Array.from({ length: 50 }, (_, i) => String(i).repeat(i * 1_000));
  const files = texts.map((text, i) => fileOf(root, `run-${i}`, text));
  const writer = new FolderWriter();
  expect(await writer.write(files)).toEqual(files.map(() => undefined));
  expect(files.map(({ path }) => readFileSync(path, 'utf8'))).toEqual(texts);
  expect(files.flatMap(({ path }) => readdirSync(dirname(path)))).toEqual(files.map(() => 'record'));
  const modeOf = (path: string) => statSync(path).mode & 0o777;
  expect([modeOf(files[0]?.path ?? ''), modeOf(dirname(files[0]?.path ?? ''))]).toEqual([0o600, 0o700]);
  await writer.write([fileOf(root, 'run-7', 'another')]);
  expect(readFileSync(files[7]?.path ?? '', 'utf8')).toBe('another');
});

test('a file that cannot be written keeps no other from being written, and leaves nothing', async () => {
  const root = aFolder();
  mkdirSync(join(root, 'taken', 'record', 'below'), { recursive: true });
  writeFileSync(join(root, 'file'), '');
  const files = ['first', 'taken', 'file', 'last'].map((name) => fileOf(root, name, name));
  expect(await new FolderWriter().write(files)).toEqual([undefined, 'EISDIR', 'ENOTDIR', undefined]);
  expect(readdirSync(join(root, 'taken'))).toEqual(['record']);
  expect(readFileSync(join(root, 'last', 'record'), 'utf8')).toBe('last');
});

test('what the folder refuses is said as its failure, for each blob', async () => {
  const root = aFolder();
  mkdirSync(join(root, 'files', 'a'), { recursive: true });
  mkdirSync(join(root, 'files', 'a', 'name'));
  const blob = (owner: string) => ({ owner, name: 'name', bytes: Buffer.from(owner), untilMs: 1 });
  const [failed, written] = await folderBlobs(root).putAll([blob('a'), blob('b')]);
  const message = 'the folder of ARTIFACT_STORE fails (EISDIR): write of a file';
  expect(failed).toMatchObject({ status: 'rejected', reason: { code: 'queue_unavailable', message } });
  expect(written).toEqual({ status: 'fulfilled', value: undefined });
});

test('a folder that does not answer in time is away, until the call that hangs has ended', async () => {
  const root = aFolder();
  let isOver = true;
  const clock = { sleep: async () => (isOver ? undefined : await new Promise<void>(() => {})) };
  const writer = new FolderWriter({ clock });
  const late = { code: 'queue_unavailable', message: expect.stringContaining('has not answered within 30000 ms') };
  await expect(writer.write([fileOf(root, 'a', 'x')])).rejects.toMatchObject(late);
  isOver = false;
  // The thread has not ended yet.
  await expect(writer.write([fileOf(root, 'b', 'x')])).rejects.toMatchObject(late);
  await until('a new thread writes', async () => {
    const failures = await writer.write([fileOf(root, 'c', 'x')]).catch(() => ['away']);
    return failures[0] === undefined;
  });
  expect(readFileSync(join(root, 'c', 'record'), 'utf8')).toBe('x');
});
