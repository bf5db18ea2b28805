import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { withEnvFile } from '../../../../src/producer/cli/options/env-file.ts';
import { millrace, millraceProcess } from '../support/cli-process.ts';

function folderWith(text: string): string {
  const path = mkdtempSync(join(tmpdir(), 'millrace-env-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  writeFileSync(join(path, '.env'), text);
  return path;
}

test('.env adds variables in every form that such files have', () => {
  const text = [
    '# a comment',
    '',
    'PLAIN=1',
    'export SPACED = two words # note',
    'LINES="a',
    'b" # note',
    "HASH='#1'",
    'EMPTY=',
    "APOSTROPHE=it's",
    '  URL=redis://h:1/0?a=b',
  ].join('\r\n');
  expect(withEnvFile({}, folderWith(`\uFEFFMARKED=1\r\n${text}`))).toEqual({
    MARKED: '1',
    PLAIN: '1',
    SPACED: 'two words',
    LINES: 'a\nb',
    HASH: '#1',
    EMPTY: '',
    APOSTROPHE: "it's",
    URL: 'redis://h:1/0?a=b',
  });
});

test('a variable that is set wins, also when it is empty', () => {
  const given = { OPENAI_API_KEY: '', PORT: '1' };
  expect(withEnvFile(given, folderWith('OPENAI_API_KEY=sk-file\nPORT=2\nHOST=::1\n'))).toEqual({
    ...given,
    HOST: '::1',
  });
});

test('a folder without .env adds nothing', () => {
  const given = { PORT: '1' };
  expect(withEnvFile(given, join(folderWith(''), 'elsewhere'))).toEqual(given);
});

test('every line that is none of a .env file is named by its number, and no value is shown', async () => {
  const cwd = folderWith('LINES="a\nb"\nPORT=8081\nsk-secret\nOPEN="sk-open\nHOST=::1\n1X=3\n');
  const { code, stderr } = await millrace(['runs'], { cwd });
  expect(stderr).toBe(
    'invalid_config: .env:4: is not NAME=value\n.env:5: is not NAME=value\n.env:7: is not NAME=value\n',
  );
  expect(code).toBe(2);
});

test.each(['runs', 'worker', 'producer'])('`%s` reads the .env of the folder', async (command) => {
  const cwd = folderWith('WORKER_CONCURRENCY=none\n');
  const { code, stderr } = await millraceProcess([command], { cwd });
  expect(stderr).toContain('WORKER_CONCURRENCY:');
  expect(code).toBe(2);
});

test('a NUL in a .env file is refused by its line before any process is started with it, and no value is shown', async () => {
  const cwd = folderWith('PORT=8081\nOPENAI_API_KEY="sk-secret\0value"\n');
  const { code, stderr } = await millrace(['dev'], { cwd });
  expect(stderr).toBe('invalid_config: .env:2: has a NUL character, which no variable can have\n');
  expect(code).toBe(2);
});
