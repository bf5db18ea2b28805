import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { RunError } from '../../../src/shared/base/errors.ts';
import { createToolSecrets } from '../../../src/worker/agents/tool-secrets.ts';

function folderOf(files: Record<string, string | Uint8Array>): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-secrets-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

function problemsOf(read: () => unknown): readonly string[] {
  try {
    read();
  } catch (error) {
    if (error instanceof RunError && error.code === 'invalid_config') return error.details as string[];
    throw error;
  }
  return [];
}

test('secrets come from the files of a folder and from the environment', () => {
  const folder = folderOf({ CRM: 'from-a-file\n', 'tls.key': 'two\nlines\r\n', spaces: '  kept  ' });
  const env = { MILLRACE_SECRET_MAIL: 'from-env', MILLRACE_SECRETS: folder, OPENAI_API_KEY: 'sk-no', OTHER: undefined };
  const secrets = createToolSecrets({ folder, env });
  expect(['CRM', 'tls.key', 'spaces', 'MAIL', 'OPENAI_API_KEY', 'S', ''].map((name) => secrets.get(name))).toEqual([
    'from-a-file',
    'two\nlines',
    '  kept  ',
    'from-env',
    undefined,
    undefined,
    undefined,
  ]);
  expect([...secrets.values()].sort()).toEqual(['  kept  ', 'from-a-file', 'from-env', 'two\nlines']);
  expect(secrets.values()).toBe(secrets.values());
});

test('a folder as Kubernetes mounts it is read through its links, without what is its own', () => {
  const folder = folderOf({});
  mkdirSync(join(folder, '..2026_data'));
  writeFileSync(join(folder, '..2026_data', 'CRM'), 'value-1');
  symlinkSync('..2026_data', join(folder, '..data'));
  symlinkSync(join('..data', 'CRM'), join(folder, 'CRM'));
  mkdirSync(join(folder, 'lost+found'));
  writeFileSync(join(folder, '.keep'), 'no secret');
  const secrets = createToolSecrets({ folder, env: {} });
  expect([secrets.get('CRM'), secrets.values()]).toEqual(['value-1', ['value-1']]);
});

test('every problem is reported at once, and none with a value', () => {
  const folder = folderOf({
    CRM: 'hidden-1',
    EMPTY: '\n',
    BIG: 'x'.repeat(70_000),
    BYTES: Uint8Array.of(0xff, 0xfe),
    'a b': 'hidden-2',
  });
  symlinkSync('nowhere', join(folder, 'DEAD'));
  const problems = problemsOf(() =>
    createToolSecrets({ folder, env: { MILLRACE_SECRET_CRM: 'hidden-3', MILLRACE_SECRET_: 'hidden-4' } }),
  );
  const about = ['CRM', 'EMPTY', 'BIG', 'BYTES', 'a b', 'DEAD', ''].map((name) => `secret ${name}: `);
  expect(problems).toHaveLength(about.length);
  for (const start of about) expect(problems.filter((problem) => problem.startsWith(start))).toHaveLength(1);
  expect(problems.join()).not.toContain('hidden');
});

test('a folder that is not there is a problem', () => {
  expect(problemsOf(() => createToolSecrets({ folder: '/no/such/folder', env: {} }))).toEqual([
    'cannot read the folder /no/such/folder: ENOENT',
  ]);
});
