import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { withEnvFile } from '../src/producer/cli/options/env-file.ts';
import { docsPage } from './support/docs-page.ts';
import { codeBlocks } from './support/markdown.ts';

const page = docsPage('development.md');

test('the .env of the page is one', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-page-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const block = codeBlocks(page, 'sh').find((code) => code.includes('OPENAI_API_KEY')) ?? '';
  writeFileSync(join(folder, '.env'), block);
  expect(withEnvFile({}, folder)).toEqual({ OPENAI_API_KEY: 'sk-example', PORT: '8081' });
});

test('the page and the README begin with the commands that the test of the first hour runs', () => {
  const begin = ['npm install millrace zod', 'npx millrace init', 'npx millrace dev'].join('\n');
  const readme = readFileSync(join(import.meta.dirname, '../README.md'), 'utf8');
  for (const text of [page, readme]) expect(codeBlocks(text, 'sh').map((code) => code.trim())).toContain(begin);
});
