import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { RunError } from '../../../shared/base/errors.ts';

const fileName = '.env';

/** A line, or the lines of a quoted value: nothing, a comment, or `NAME=value`. */
const entry =
  /^[ \t]*(?:(?:export[ \t]+)?[A-Za-z_]\w*[ \t]*=[ \t]*(?:"[^"]*"|'[^']*'|`[^`]*`|[^"'`\s][^\n]*)?[ \t]*)?(?:#[^\n]*)?$/my;

/**
 * The environment with what the `.env` of a folder adds to it: never in place of a variable that is set already. Throws
 * `invalid_config` that names every line that is none of a `.env` file, and no value.
 */
export function withEnvFile(
  env: Readonly<Record<string, string | undefined>>,
  folder: string,
): Readonly<Record<string, string | undefined>> {
  const path = join(folder, fileName);
  if (!existsSync(path)) return env;
  const text = contents(path);
  const problems = [
    ...malformedLines(text).map((line) => `${fileName}:${line}: is not NAME=value`),
    // No process takes one, and what starts it would quote the value.
    ...linesWithNul(text).map((line) => `${fileName}:${line}: has a NUL character, which no variable can have`),
  ];
  if (problems.length > 0) throw new RunError('invalid_config', problems.join('\n'), { details: problems });
  return { ...parseEnv(text), ...env };
}

function contents(path: string): string {
  try {
    return readFileSync(path, 'utf8')
      .replace(/^\uFEFF/, '')
      .replaceAll('\r\n', '\n');
  } catch (error) {
    throw new RunError('invalid_config', `cannot read ${path}`, { cause: error });
  }
}

/** Numbers of the lines that are no entries, from 1. */
function malformedLines(text: string): number[] {
  const found: number[] = [];
  let [at, line] = [0, 1];
  while (at < text.length) {
    entry.lastIndex = at;
    const [read] = entry.exec(text) ?? [];
    if (read === undefined) found.push(line);
    const newline = text.indexOf('\n', at);
    const end = read === undefined ? (newline < 0 ? text.length : newline) : at + read.length;
    line += text.slice(at, end + 1).split('\n').length - 1;
    at = end + 1;
  }
  return found;
}

function linesWithNul(text: string): number[] {
  return text.split('\n').flatMap((line, index) => (line.includes('\0') ? [index + 1] : []));
}
