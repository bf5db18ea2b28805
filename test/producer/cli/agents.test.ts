import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { millraceProcess } from './support/cli-process.ts';

test('the sample agents have no problem', async () => {
  const { code, stdout, stderr } = await millraceProcess(['agents', 'check', 'agents', '--json']);
  expect(stderr).toBe('');
  expect((JSON.parse(stdout) as { id: string }[]).map(({ id }) => id).toSorted()).toEqual(['summarise', 'support']);
  expect(code).toBe(0);
});

test('every problem of a folder is reported at once', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-agents-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'a.yaml'), 'model: m\nmodle: x\n');
  writeFileSync(join(folder, 'b.yaml'), 'model: m\ntools: [missing]\n');
  const { code, stderr } = await millraceProcess(['agents', 'check', folder]);
  expect(stderr).toContain('modle');
  expect(stderr).toContain('there is no tool missing');
  expect(code).toBe(2);
});
