import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chartTool } from '../helm.ts';
import { notesOf } from './files.ts';
import { runAloud } from './run.ts';

/** Where what is uploaded of a version is packed. The package and the chart have the same file name. */
export function releaseFiles(root: string, version: string) {
  const folder = join(root, '.cache/release', version);
  const name = `millrace-${version}.tgz`;
  return { folder, notes: join(folder, 'notes.md'), npm: join(folder, name), chart: join(folder, 'chart', name) };
}

/** Packs a version from what is checked out. Answers why there is no chart, where there is no helm. */
export async function packRelease(root: string, version: string): Promise<{ readonly noChart: string | undefined }> {
  const { folder, notes } = releaseFiles(root, version);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, 'chart'), { recursive: true });
  writeFileSync(notes, `${notesOf(readFileSync(join(root, 'CHANGELOG.md'), 'utf8'), version)}\n`);
  runAloud(root, 'npm', ['pack', '--pack-destination', folder]);
  const helm = await chartTool('helm', process.env);
  if ('missing' in helm) return { noChart: helm.missing };
  runAloud(root, helm.path, ['package', 'helm/millrace', '--destination', join(folder, 'chart')]);
  return { noChart: undefined };
}
