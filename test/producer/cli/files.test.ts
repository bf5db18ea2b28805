import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { clientWorld } from './options/client.ts';
import { millrace, settings } from './support/cli-process.ts';

async function world() {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-files-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const { prefix, mill } = await clientWorld();
  const run = async (...args: string[]) => await millrace(['files', ...args], { cwd: folder, env: settings(prefix) });
  return { folder, run, mill };
}

test('a file is put, listed, got and removed', async () => {
  const { folder, run } = await world();
  writeFileSync(join(folder, 'lines.jsonl'), '{"input":"a"}\n');
  const put = await run('put', 'lines.jsonl');
  const id = put.stdout.trim();
  expect([put.code, put.stderr, id]).toEqual([
    0,
    'lines.jsonl: 14 bytes, for batch\n',
    expect.stringMatching(/^file-/),
  ]);
  const listed = await run();
  expect(listed.stdout.split('\n')[1]).toMatch(new RegExp(`^${id} +14  batch +20.* lines.jsonl$`));
  expect((await run('get', id)).stdout).toBe('{"input":"a"}\n');
  const got = await run('get', id, '-o', 'copy.jsonl');
  expect([got.stderr, readFileSync(join(folder, 'copy.jsonl'), 'utf8')]).toEqual([
    'copy.jsonl: application/jsonl, 14 bytes\n',
    '{"input":"a"}\n',
  ]);
  expect((await run('rm', id)).stderr).toBe(`${id} is gone.\n`);
  expect((await run('list')).stderr).toBe('There are no such files.\n');
  for (const args of [
    ['get', id],
    ['rm', id],
  ]) {
    const gone = await run(...args);
    expect([gone.code, gone.stderr]).toEqual([2, expect.stringContaining(`there is no file ${id}`)]);
  }
});

test('what a file is for, is called and is made of can be said, and otherwise follows from its ending', async () => {
  const { folder, run, mill } = await world();
  writeFileSync(join(folder, 'a.pdf'), '%PDF-');
  await run('put', 'a.pdf');
  await run('put', 'a.pdf', '--purpose', 'vision', '--name', 'b.bin', '--type', 'image/png', '--expires', '7200');
  const { data } = await mill.files.list({ order: 'asc' });
  expect(data.map(({ filename, purpose, media_type }) => [filename, purpose, media_type])).toEqual([
    ['a.pdf', 'user_data', 'application/pdf'],
    ['b.bin', 'vision', 'image/png'],
  ]);
  expect((data[1]?.expires_at ?? 0) - (data[1]?.created_at ?? 0)).toBe(7_200);
});

test.each([
  [['put', 'nowhere.txt'], 'nowhere.txt cannot be read'],
  [['put', '.'], '. is not a file'],
  [['put', 'x', '--purpose', 'batch_output'], 'Allowed choices are batch, user_data, vision, assistants'],
  [['put', 'x', '--expires', '5'], '3600'],
  [['list', '--limit', '0'], 'from 1'],
])('%j is a mistake that the command names', async (args, says) => {
  const { run } = await world();
  const { code, stderr } = await run(...args);
  expect([code, stderr]).toEqual([2, expect.stringContaining(says)]);
});
