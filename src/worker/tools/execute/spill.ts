import { createHash } from 'node:crypto';
import { jsonText } from '../../../shared/base/json.ts';
import type { Log } from '../../../shared/base/log.ts';
import type { ArtifactInfo, Artifacts } from '../../../shared/state/results/artifacts.ts';
import { isContinuation } from '../../../shared/base/text.ts';
import type { Spill } from './batch.ts';
import type { ReadPart, ReadRequest, ResultReader } from '../source.ts';
import { ToolError } from '../tool-error.ts';

/** What the handles of kept results begin with. The rest is the name within the run's own area, and has no meaning. */
const scheme = 'spill:';
/** How much of a body is looked through at once for a line, in bytes. */
const scanBytes = 256 * 1024;
/** A character has at most so many bytes after its first. */
const maxContinuation = 3;
const newline = 10;

/**
 * Keeps the results of one run. A name is made of the run, the tool and the body: the same result again takes no more
 * room, and no other run has or can guess it. A store that fails is logged, without the body.
 */
export function spillOf(artifacts: Artifacts, runId: string, log: Log): Spill {
  return {
    async put(body, origin) {
      const { toolName, trust, sensitivity, inboundSanitization } = origin;
      const facts = jsonText([runId, toolName, trust, sensitivity, inboundSanitization]);
      const name = createHash('sha256').update(facts).update(body).digest('hex').slice(0, 32);
      const bytes = Buffer.from(body);
      try {
        await artifacts.put(runId, name, bytes, origin);
      } catch (error) {
        log.warn({ tool: toolName, bytes: bytes.length, err: error }, 'a large result was not kept');
        throw error;
      }
      return scheme + name;
    },
  };
}

/** Reads what `spillOf` kept, for the same run only. */
export function createSpillReader(artifacts: Artifacts): ResultReader {
  return async (request) => {
    if (!request.handle.startsWith(scheme)) return undefined;
    const name = request.handle.slice(scheme.length);
    // Checked before it can reach a path or a key.
    if (!/^[0-9a-f]{32}$/.test(name)) throw unknownHandle();
    const { range, maxBytes } = request;
    const read: Read = (offset, length) => readAt(artifacts, request, name, offset, length);
    return range.kind === 'bytes'
      ? await bytesAt(read, range.offset, Math.min(range.length, maxBytes))
      : await linesAt(read, range.startLine, range.endLine, maxBytes);
  };
}

type Read = (offset: number, length: number) => Promise<Found>;

interface Found {
  readonly bytes: Buffer;
  readonly info: ArtifactInfo;
}

async function readAt(
  artifacts: Artifacts,
  { runId, signal }: ReadRequest,
  name: string,
  offset: number,
  length: number,
): Promise<Found> {
  signal.throwIfAborted();
  const found = await artifacts.read(runId, name, offset, length);
  if (!found) throw unknownHandle();
  return { bytes: Buffer.from(found.bytes), info: found.info };
}

/**
 * The characters that begin within the range. So pages that follow each other are exactly the text, whether the next one
 * begins where the last one ended or at a multiple of the length.
 */
async function bytesAt(read: Read, offset: number, length: number): Promise<ReadPart> {
  const { bytes, info } = await read(offset, length + maxContinuation);
  let [start, end] = [0, Math.min(length, bytes.length)];
  while (start < bytes.length && isContinuation(bytes[start])) start++;
  while (end < bytes.length && isContinuation(bytes[end])) end++;
  return partOf(bytes.subarray(start, Math.max(start, end)), offset + start, info);
}

/** Whole lines with their ends, or as much of them as `maxBytes` allows. */
async function linesAt(read: Read, startLine: number, endLine: number, maxBytes: number): Promise<ReadPart> {
  const start = await offsetOfLine(read, startLine);
  const { bytes, info } = await read(start, maxBytes + maxContinuation);
  let [end, lines] = [0, endLine - startLine + 1];
  while (lines > 0 && end < Math.min(bytes.length, maxBytes)) {
    const at = bytes.indexOf(newline, end);
    end = at === -1 ? bytes.length : at + 1;
    lines--;
  }
  end = Math.min(end, maxBytes);
  while (end < bytes.length && isContinuation(bytes[end])) end++;
  return partOf(bytes.subarray(0, end), start, info);
}

/** Where a line begins, in bytes; the end of the text when it has fewer lines. */
async function offsetOfLine(read: Read, line: number): Promise<number> {
  let [before, offset] = [line - 1, 0];
  while (before > 0) {
    const { bytes } = await read(offset, scanBytes);
    if (bytes.length === 0) return offset;
    let from = 0;
    for (; before > 0 && from < bytes.length; before--) {
      const at = bytes.indexOf(newline, from);
      if (at === -1) break;
      from = at + 1;
    }
    offset += before === 0 ? from : bytes.length;
  }
  return offset;
}

function partOf(content: Buffer, offset: number, info: ArtifactInfo): ReadPart {
  const eof = offset + content.length >= info.totalBytes;
  return { ...info, content: content.toString('utf8'), offset, bytes: content.length, eof };
}

function unknownHandle(): ToolError {
  return new ToolError('spill_handle_invalid', 'this run has no result of this handle');
}
