import { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';
import { definePackageTool } from '../define.ts';
import type { Tool } from '../tool.ts';
import {
  maxPageAnswerBytes,
  openWithin,
  scannedPageOf,
  pageRange,
  relativePath,
  knowsOpenPaths,
  folderBelow,
} from '../file-within.ts';

const maxFileBytes = 64 * 1024 * 1024;

const inputSchema = z.strictObject({
  path: relativePath.describe('Relative to the folder of this agent, with slashes.'),
  ...pageRange,
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
 * `invalid_config` that says what is missing: a folder, or Linux (only there a process knows the path of an open file).
 */
export function createReadFileTool({ root, scope }: ReadFileOptions): Tool {
  const folder = folderOf(root, scope);
  const tool = definePackageTool({
    name: 'read_file',
    description,
    inputSchema,
    effect: 'read',
    // A worker does not know who wrote a file: an agent whose folder only its operator fills says so.
    trust: 'external',
    // What was asked for is never cut: a page with a hole in it would be no page.
    maxResultTokens: 0,
    async execute({ path, offset, length }, { signal }) {
      await using file = await openWithin(folder, path, maxFileBytes);
      signal.throwIfAborted();
      return await scannedPageOf(file, offset, length);
    },
  });
  return Object.freeze({ ...tool, maxResultBytes: maxPageAnswerBytes });
}

/** The folder that may be read, with no link in its path. */
function folderOf(root: string | undefined, scope: string | undefined): string {
  if (root === undefined) throw refused('MILLRACE_FILES is not set: it names the folder that may be read');
  if (!knowsOpenPaths()) throw refused('this system does not report the path of an open file (/proc/self/fd)');
  const below = folderBelow(root, scope);
  if (below.kind === 'folder') return below.path;
  throw refused(`${below.problem} (${below.of === 'root' ? 'MILLRACE_FILES' : 'fileScope'})`);
}

function refused(why: string): RunError {
  return new RunError('invalid_config', `the tool read_file cannot be used: ${why}`);
}
