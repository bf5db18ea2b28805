import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compareVersions, versionFiles, versionOf, withVersion, type VersionFiles } from './files.ts';
import { packRelease, releaseFiles } from './pack.ts';
import { read, runAloud } from './run.ts';

/**
 * Makes a version of a clean checkout of `main`: the version in every file that names it, the section of the changelog, one
 * commit and one tag. It packs what will be uploaded, to see that it can be. Nothing leaves the machine, and when a step
 * fails the checkout is as it was.
 */
export async function makeRelease(root: string, version: string, date: string, say: (text: string) => void) {
  const before = filesOf(root);
  requireReleasable(root, before, version);
  write(root, withVersion(before, version, date));
  try {
    const { noChart } = await packRelease(root, version);
    if (noChart !== undefined) say(`the chart was not packed: ${noChart}`);
    const { notes } = releaseFiles(root, version);
    runAloud(root, 'git', ['commit', '--quiet', '--message', `Release ${version}`, '--', ...versionFiles]);
    runAloud(root, 'git', ['tag', '--annotate', `v${version}`, '--cleanup=whitespace', '--file', notes]);
  } catch (error) {
    if (read(root, 'git', ['status', '--porcelain']) !== '') write(root, before);
    throw error;
  }
}

function filesOf(root: string): VersionFiles {
  const texts = versionFiles.map((path) => [path, readFileSync(join(root, path), 'utf8')]);
  return Object.fromEntries(texts) as VersionFiles;
}

function write(root: string, files: VersionFiles): void {
  for (const path of versionFiles) writeFileSync(join(root, path), files[path]);
}

function requireReleasable(root: string, files: VersionFiles, version: string): void {
  const current = versionOf(files['package.json']);
  if (compareVersions(version, current) < 0) throw new Error(`${version} is lower than ${current}, the version now`);
  if (read(root, 'git', ['tag', '--list', `v${version}`]) !== '') throw new Error(`there is a tag v${version} already`);
  const branch = read(root, 'git', ['branch', '--show-current']);
  if (branch !== 'main') throw new Error(`a version is made on main, and this is ${branch || 'no branch'}`);
  const changed = read(root, 'git', ['status', '--porcelain']);
  if (changed !== '') throw new Error(`commit or put away first:\n${changed}`);
}
