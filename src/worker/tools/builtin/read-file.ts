import { constants, existsSync, realpathSync, statSync } from 'node:fs';
import { open, readlink, type FileHandle } from 'node:fs/promises';
import { isAbsolute, join, sep } from 'node:path';
import { z } from 'zod';
import { RunError } from '../../../shared/errors.ts';
import { isContinuation } from '../bound.ts';
import { defineTool } from '../define.ts';
import { ToolError } from '../tool-error.ts';
import type { Tool } from '../tool.ts';
import { utf8Text } from './body-text.ts';

const maxPathChars = 1_024;
const maxFileBytes = 64 * 1024 * 1024;
const maxPageBytes = 1024 * 1024;
const defaultPageBytes = 64 * 1024;
/** A character has at most so many bytes after its first. */
const maxContinuation = 3;
/** In JSON one byte becomes six at most, and the other fields need some. */
const maxAnswerBytes = 6 * maxPageBytes + 8 * 1_024;

const inputSchema = z.strictObject({
  path: z.string().min(1).max(maxPathChars).describe('Relative to the folder of this agent, with slashes.'),
  offset: z.int().min(0).default(0).describe('First byte.'),
  length: z.int().min(1).max(maxPageBytes).default(defaultPageBytes).describe('Bytes from there, up to 1 MiB.'),
});

const description =
  `Reads a text file, for instance {"path":"reports/2026.md","offset":0,"length":20000}. Answers content,
offset (the byte at which it begins), bytes, totalBytes and eof; go on at offset + bytes until eof is true. Of a file that
is not text it says so in a note. Files that are links cannot be read.`.replaceAll('\n', ' ');

export interface ReadFileOptions {
  /** The operator's folder (`MILLRACE_FILES`). */
  readonly root: string | undefined;
  /** The folder below it that the agent may read (`fileScope`). Default: all of it. */
  readonly scope?: string | undefined;
}

/**
 * The tool that reads files below one folder, however a path is spelled, and whatever is done to the folder meanwhile: what
 * counts is where the opened file is. Links of every kind, pipes, devices and files beyond 64 MiB are refused. Throws
 * `invalid_config` that says what is missing: a folder, or Linux (only there a process can tell where an open file is).
 */
export function createReadFileTool({ root, scope }: ReadFileOptions): Tool {
  const folder = folderOf(root, scope);
  const tool = defineTool({
    name: 'read_file',
    description,
    inputSchema,
    effect: 'read',
    // What was asked for is never cut: a page with a hole in it would be no page.
    maxResultTokens: 0,
    async execute({ path, offset, length }, { signal }) {
      await using file = await openWithin(folder, path);
      signal.throwIfAborted();
      return await pageOf(file, offset, length);
    },
  });
  return Object.freeze({ ...tool, maxResultBytes: maxAnswerBytes });
}

/** The folder that may be read, with no link in its path. */
function folderOf(root: string | undefined, scope: string | undefined): string {
  if (root === undefined) throw refused('MILLRACE_FILES is not set: it names the folder that may be read');
  if (!existsSync('/proc/self/fd')) throw refused('this system does not tell where an open file is (/proc/self/fd)');
  if (!isFolder(root)) throw refused(`there is no folder ${root} (MILLRACE_FILES)`);
  const whole = realpathSync(root);
  if (scope === undefined) return whole;
  if (isAbsolute(scope) || scope.includes('\0') || scope.split(/[\\/]/).includes('..'))
    throw refused(`fileScope ${JSON.stringify(scope)} is not a folder below MILLRACE_FILES`);
  const part = join(whole, scope);
  if (!isFolder(part)) throw refused(`there is no folder ${scope} below MILLRACE_FILES (fileScope)`);
  const real = realpathSync(part);
  if (real !== whole && !isBelow(whole, real)) throw refused(`fileScope ${scope} leads out of MILLRACE_FILES`);
  return real;
}

function refused(why: string): RunError {
  return new RunError('invalid_config', `the tool read_file cannot be used: ${why}`);
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function isBelow(folder: string, path: string): boolean {
  return path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

/** Opens a file without following it as a link or waiting for it as a pipe, and lets go of it when it is elsewhere. */
async function openWithin(folder: string, path: unknown): Promise<FileHandle> {
  if (typeof path !== 'string' || path.includes('\0') || isAbsolute(path) || path.length > maxPathChars)
    throw new ToolError('invalid_input', `a path is relative, and has at most ${maxPathChars} characters`);
  const target = join(folder, path);
  if (!isBelow(folder, target)) throw notReadable();
  const file = await opened(target);
  try {
    // Where it really is, whatever the path said, and whatever its folders have become since.
    const where = await readlink(`/proc/self/fd/${file.fd}`);
    const stat = await file.stat();
    if (!isBelow(folder, where) || !stat.isFile() || stat.nlink !== 1) throw notReadable();
    if (stat.size > maxFileBytes)
      throw new ToolError('capability_blocked', `the file has ${stat.size} bytes; ${maxFileBytes} can be read`);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function opened(path: string): Promise<FileHandle> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ENAMETOOLONG')
      throw new ToolError('invalid_input', 'there is no such file', { cause });
    throw notReadable(cause);
  }
}

function notReadable(cause?: unknown): ToolError {
  return new ToolError('capability_blocked', 'this is no file that may be read', { cause });
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
