import { constants, existsSync, realpathSync, statSync } from 'node:fs';
import { lstat, open, readlink, realpath, type FileHandle } from 'node:fs/promises';
import { isAbsolute, join, sep } from 'node:path';
import { z } from 'zod';
import { isContinuation } from '../../shared/base/text.ts';
import { maxScannedChars } from '../guards/sanitise.ts';
import { ToolError } from './tool-error.ts';
import { jsonText } from '../../shared/base/json.ts';

const maxPathChars = 1_024;
const maxPageBytes = 1024 * 1024;
const defaultPageBytes = 64 * 1024;
/** In JSON one byte of a page becomes six at most, and the other fields need some. */
export const maxPageAnswerBytes = 6 * maxPageBytes + 8 * 1_024;
/** A character has at most so many bytes after its first. */
const maxContinuation = 3;

export const relativePath = z.string().min(1).max(maxPathChars);

/** Which part of a file a model asks for. */
export const pageRange = {
  offset: z.int().min(0).default(0).describe('First byte.'),
  length: z
    .int()
    .min(1)
    .max(maxPageBytes)
    .default(defaultPageBytes)
    .describe('Bytes from there, up to 1 MiB; the answer may have fewer.'),
};

/**
 * Opens a file below a folder, without following it as a link or waiting for it as a pipe, and closes it when it is
 * elsewhere. Links of every kind, pipes, devices and files beyond `maxBytes` are refused. Throws a `ToolError`.
 */
export async function openWithin(folder: string, path: unknown, maxBytes: number): Promise<FileHandle> {
  if (typeof path !== 'string' || path.includes('\0') || isAbsolute(path) || path.length > maxPathChars)
    throw new ToolError('invalid_input', `a path is relative, and has at most ${maxPathChars} characters`);
  const target = join(folder, path);
  if (!isBelow(folder, target)) throw notReadable();
  const file = await open(target, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(refuse);
  try {
    // Where it really is, whatever the path was, and whatever its folders have become since.
    const where = await whereIs(file, target);
    const stat = await file.stat();
    if (!isBelow(folder, where) || !stat.isFile() || stat.nlink !== 1) throw notReadable();
    if (stat.size > maxBytes)
      throw new ToolError('capability_blocked', `the file has ${stat.size} bytes; ${maxBytes} can be read`);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Only Linux shows where an open file is. Elsewhere it is what its path leads to, as long as that is still the same file. */
async function whereIs(file: FileHandle, target: string): Promise<string> {
  if (knowsOpenPaths()) return await readlink(`/proc/self/fd/${file.fd}`);
  const path = await realpath(target);
  const [there, here] = [await lstat(path), await file.stat()];
  if (there.ino !== here.ino || there.dev !== here.dev) throw notReadable();
  return path;
}

/** Does this system know the path of a file that is open already? */
export function knowsOpenPaths(): boolean {
  return existsSync('/proc/self/fd');
}

function refuse(cause: NodeJS.ErrnoException): never {
  if (!['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'].includes(cause.code ?? '')) throw notReadable(cause);
  throw new ToolError('invalid_input', 'there is no such file', { cause });
}

function notReadable(cause?: unknown): ToolError {
  return new ToolError('capability_blocked', 'this is no file that may be read', { cause });
}

/** A page of which all can be looked through: a longer one would lose its end on its way to the model. */
export async function scannedPageOf(file: FileHandle, offset: number, length: number) {
  let page = await pageOf(file, offset, length);
  for (let less = length / 2; jsonText(page).length > maxScannedChars && less >= 1; less /= 2)
    page = await pageOf(file, offset, Math.floor(less));
  return page;
}

/** The characters that begin within the range, so that pages that follow each other are exactly the text. */
async function pageOf(file: FileHandle, offset: number, length: number) {
  const { size } = await file.stat();
  const buffer = Buffer.alloc(Math.min(length + maxContinuation, Math.max(0, size - offset)));
  const { bytesRead } = await file.read(buffer, 0, buffer.length, offset);
  const bytes = buffer.subarray(0, bytesRead);
  let [start, end] = [0, Math.min(length, bytes.length)];
  while (start < Math.min(maxContinuation, bytes.length) && isContinuation(bytes[start])) start++;
  for (let more = 0; more < maxContinuation && end < bytes.length && isContinuation(bytes[end]); more++) end++;
  const part = bytes.subarray(start, Math.max(start, end));
  const facts = { offset: offset + start, bytes: part.length, totalBytes: size };
  const eof = facts.offset + facts.bytes >= size;
  const content = utf8Text(part, false);
  return content === undefined ? { note: 'not text', ...facts, eof } : { content, ...facts, eof };
}

/** A folder with no link in its path, or why there is none and which of the two is wrong. */
type FolderBelow =
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
function isBelow(folder: string, path: string): boolean {
  return path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

const nul = 0;

/** The bytes as UTF-8 text, or undefined when they are none. `cut`: the last character may not be whole. */
export function utf8Text(bytes: Uint8Array, cut: boolean): string | undefined {
  if (bytes.includes(nul)) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: cut });
  } catch {
    return undefined;
  }
}
