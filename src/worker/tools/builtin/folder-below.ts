import { realpathSync, statSync } from 'node:fs';
import { isAbsolute, join, sep } from 'node:path';
import { jsonText } from '../../../shared/base/json-text.ts';

/** A folder with no link in its path, or why there is none and which of the two is wrong. */
export type FolderBelow =
  | { readonly kind: 'folder'; readonly path: string }
  | { readonly kind: 'none'; readonly of: 'root' | 'part'; readonly problem: string };

/** The folder `part` below `root`, or `root` itself. It may not lead out of it, by `..` or by links. */
export function folderBelow(root: string, part: string | undefined): FolderBelow {
  const none = (of: 'root' | 'part', problem: string): FolderBelow => ({ kind: 'none', of, problem });
  if (!isFolder(root)) return none('root', `there is no folder ${root}`);
  const whole = realpathSync(root);
  if (part === undefined) return { kind: 'folder', path: whole };
  if (isAbsolute(part) || part.includes('\0') || part.split(/[\\/]/).includes('..'))
    return none('part', `${jsonText(part)} is not a folder below MILLRACE_FILES`);
  const below = join(whole, part);
  if (!isFolder(below)) return none('part', `there is no folder ${part} below MILLRACE_FILES`);
  const path = realpathSync(below);
  const isInside = path === whole || isBelow(whole, path);
  return isInside ? { kind: 'folder', path } : none('part', `${part} leads out of MILLRACE_FILES`);
}

/** Does the path begin with the folder, neither of them with links or `..`? */
export function isBelow(folder: string, path: string): boolean {
  return path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
