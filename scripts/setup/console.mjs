import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const sources = ['src/producer/console', 'scripts/console.mjs', 'package-lock.json'];

/** Builds the console that a producer serves which runs from source, when there is none or it is of another source. */
export function ensureConsole(root, say) {
  // An installed package has it built.
  if (!existsSync(join(root, 'src/producer/console'))) return;
  const built = join(root, '.cache/console');
  const stamp = join(root, '.cache/console-source');
  const digest = digestOf(root);
  if (existsSync(join(built, 'index.html')) && existsSync(stamp) && readFileSync(stamp, 'utf8') === digest) return;
  say('building the console into .cache/console');
  const { status } = spawnSync(process.execPath, [join(root, 'scripts/console.mjs'), 'build', built], {
    cwd: root,
    // stdout belongs to the command that follows.
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) throw new Error('the console could not be built. See above; then try again.');
  writeFileSync(stamp, digest);
}

function digestOf(root) {
  const hash = createHash('sha256');
  for (const path of sources.flatMap((source) => filesOf(join(root, source))))
    hash.update(path).update(readFileSync(path));
  return hash.digest('hex');
}

function filesOf(path) {
  const entries = isFolder(path) ? readdirSync(path, { recursive: true, withFileTypes: true }) : undefined;
  if (!entries) return existsSync(path) ? [path] : [];
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted((a, b) => (a < b ? -1 : 1));
}

function isFolder(path) {
  return existsSync(path) && !/\.\w+$/.test(path);
}
