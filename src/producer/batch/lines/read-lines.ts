import { extname } from 'node:path';
import { RunError, type ErrorInfo } from '../../../shared/base/errors.ts';
import { sha256 } from '../../../shared/base/ids.ts';
import { canonicalJson } from '../../../shared/base/json.ts';
import type { RunRequestInput } from '../../../shared/contract/run.ts';
import { parseLine } from '../batch-file.ts';
import type { BatchLine, LineSource, SourceDraft } from './line.ts';

/** A line is one input (256 KB) in JSON, which may double it, and its options. */
const maxLineBytes = 1024 * 1024;

/** How the lines of a file are to be read. `head` is its beginning, up to 1 MiB: the header of a CSV is there. Throws `validation`. */
export function lineSource(draft: SourceDraft, _head: Uint8Array): LineSource {
  if (extname(draft.filename).toLowerCase() === '.csv') throw new RunError('validation', 'CSV files are not read yet');
  return { ...draft, columns: undefined };
}

/**
 * Reads the file line by line; a wrong line is yielded with its error and hinders no other. A line that repeats another one word for
 * word is a line of its own. A line whose id an earlier line has is wrong.
 */
export async function* readLines(bytes: AsyncIterable<Uint8Array>, source: LineSource): AsyncGenerator<BatchLine> {
  const options = sha256(canonicalJson(source.defaults)).slice(0, 8);
  const copies = new Map<string, number>();
  const lineWithId = new Map<string, number>();
  const keyOf = (content: unknown) => {
    const digest = sha256(canonicalJson(content)).slice(0, 20);
    const copy = (copies.get(digest) ?? 0) + 1;
    copies.set(digest, copy);
    return `${options}:${digest}${copy === 1 ? '' : `:${copy}`}`;
  };
  for await (const { number: line, offset, length, text } of rawLines(bytes)) {
    if (text?.trim() === '') continue;
    const parsed = parseLine(
      text === undefined ? { number: line, tooLong: true } : { number: line, text },
      source.defaults,
    );
    const { id } = parsed;
    const head = { line, id, offset, length };
    const first = id === undefined ? undefined : lineWithId.get(id);
    const problem =
      'problem' in parsed
        ? parsed.problem
        : first !== undefined
          ? `has the id of line ${first}: each line needs its own`
          : undefined;
    if (problem !== undefined || !('request' in parsed)) {
      yield { ...head, kind: 'bad', error: badLine(problem ?? ''), key: keyOf(['bad', text ?? line]) };
      continue;
    }
    if (id !== undefined) lineWithId.set(id, line);
    const request: RunRequestInput = parsed.request;
    yield { ...head, kind: 'request', request, key: keyOf([id, request]) };
  }
}

function badLine(problem: string): ErrorInfo {
  return { code: 'validation', message: `the line ${problem}`, retryable: false };
}

async function* rawLines(chunks: AsyncIterable<Uint8Array>) {
  let parts: Uint8Array[] = [];
  let length = 0;
  let offset = 0;
  let number = 1;
  const take = () => {
    const text = length > maxLineBytes ? undefined : Buffer.concat(parts).toString('utf8').replace(/\r$/, '');
    const line = { number, offset, length, text };
    offset += length + 1;
    [parts, length, number] = [[], 0, number + 1];
    return line;
  };
  const add = (part: Uint8Array) => {
    length += part.length;
    if (length <= maxLineBytes) parts.push(part);
    else parts = [];
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(0x0a); end >= 0; end = chunk.indexOf(0x0a, start)) {
      add(chunk.subarray(start, end));
      yield take();
      start = end + 1;
    }
    if (start < chunk.length) add(chunk.subarray(start));
  }
  if (length > 0) yield take();
}
