import type { Sanitization } from '../../shared/contract/agent/agent.ts';
import type { TrustClass } from '../../shared/contract/agent/trust.ts';
import { isContinuation } from '../../shared/base/text.ts';
import type { Sensitivity } from '../../shared/contract/message.ts';
import type { Tool } from './tool.ts';

/** The part that is wanted of a text that a handle names. Byte offsets, or lines counted from 1, both ends included. */
export type ReadRange =
  | { readonly kind: 'bytes'; readonly offset: number; readonly length: number }
  | { readonly kind: 'lines'; readonly startLine: number; readonly endLine: number };

/** What a reader found. `content` begins and ends between characters. */
export interface ReadPart {
  readonly content: string;
  /** Where `content` begins in the whole, in bytes. Absent: not known. */
  readonly offset?: number;
  /** Bytes of `content`, and of the whole. */
  readonly bytes: number;
  readonly totalBytes: number;
  readonly eof: boolean;
  /** Of what made the text: it is sanitised and labelled like the result itself. */
  readonly trust: TrustClass;
  readonly toolName: string;
  readonly sensitivity?: Sensitivity;
  /** What is done to it before a model reads it. Absent: what its trust class asks for. */
  readonly inboundSanitization?: Sanitization;
}

export interface ReadRequest {
  readonly runId: string;
  readonly tenant: string;
  readonly handle: string;
  readonly range: ReadRange;
  /** The most bytes of content; up to three more complete its last character. */
  readonly maxBytes: number;
  readonly signal: AbortSignal;
}

/**
 * Reads what a handle names. Answers undefined for a handle that is not its own: the next reader is asked. Throws a
 * `ToolError` of kind `spill_handle_invalid` for a handle of its own that names nothing that this run may read.
 */
export type ResultReader = (request: ReadRequest) => Promise<ReadPart | undefined>;

/** Tools that are there only while a run is worked on, for instance those of an MCP server. Closing them never rejects. */
export interface OpenedTools extends AsyncDisposable {
  /** As they are now: a server may change its list while the run goes on. */
  tools(): readonly Tool[];
  /** Readers of the handles that their results name. */
  readonly resultReaders: readonly ResultReader[];
}

/** How much of a text is looked through at once for a line, in bytes. */
const scanBytes = 256 * 1024;
/** A character has at most so many bytes after its first. */
const maxContinuation = 3;
const newline = 10;

type PartFacts = Omit<ReadPart, 'content' | 'offset' | 'bytes' | 'eof'>;

/** Answers the bytes of a text from an offset, at most so many, and what is known about it. */
type ReadBytes = (offset: number, length: number) => Promise<{ readonly bytes: Buffer; readonly info: PartFacts }>;

/** The part of a text that a range names. What `read` throws is thrown on. */
export async function partOf(range: ReadRange, maxBytes: number, read: ReadBytes): Promise<ReadPart> {
  if (range.kind === 'lines') return await linesAt(read, range.startLine, range.endLine, maxBytes);
  return await bytesAt(read, range.offset, Math.min(range.length, maxBytes));
}

/**
 * The characters that begin within the range. So pages that follow each other are exactly the text, whether the next one
 * begins where the last one ended or at a multiple of the length.
 */
async function bytesAt(read: ReadBytes, offset: number, length: number): Promise<ReadPart> {
  const { bytes, info } = await read(offset, length + maxContinuation);
  let [start, end] = [0, Math.min(length, bytes.length)];
  while (start < bytes.length && isContinuation(bytes[start])) start++;
  while (end < bytes.length && isContinuation(bytes[end])) end++;
  return partWith(bytes.subarray(start, Math.max(start, end)), offset + start, info);
}

/** Whole lines with their ends, or as much of them as `maxBytes` allows. */
async function linesAt(read: ReadBytes, startLine: number, endLine: number, maxBytes: number): Promise<ReadPart> {
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
  return partWith(bytes.subarray(0, end), start, info);
}

/** Where a line begins, in bytes; the end of the text when it has fewer lines. */
async function offsetOfLine(read: ReadBytes, line: number): Promise<number> {
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

function partWith(content: Buffer, offset: number, info: PartFacts): ReadPart {
  const eof = offset + content.length >= info.totalBytes;
  return { ...info, content: content.toString('utf8'), offset, bytes: content.length, eof };
}
