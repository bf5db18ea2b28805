import { realpathSync } from 'node:fs';
import { delimiter, join, sep } from 'node:path';
import type { Cli } from '../cli.ts';

/**
 * How this program is called from the working directory: `millrace` where a shell finds this installation by that name,
 * `node bin/millrace.mjs` in a checkout, and `npx millrace` elsewhere.
 */
export function callOf({ cwd, root, env }: Pick<Cli, 'cwd' | 'root' | 'env'>): string {
  const bin = realPath(join(root, 'bin/millrace.mjs'));
  // npm puts the programs of a project on the path of what it starts, and only there.
  const folders = (env['PATH'] ?? '').split(delimiter).filter((folder) => !isOfProject(folder));
  if (folders.some((folder) => folder !== '' && realPath(join(folder, 'millrace')) === bin)) return 'millrace';
  if (realPath(join(cwd, 'bin/millrace.mjs')) === bin) return 'node bin/millrace.mjs';
  return 'npx millrace';
}

function isOfProject(folder: string): boolean {
  return folder.split(sep).join('/').includes('node_modules/.bin') || folder.includes('node-gyp-bin');
}

/** Undefined where there is nothing. */
function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}
