import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** A file with this text that is gone after the test. */
export function scratchFile(name: string, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}
