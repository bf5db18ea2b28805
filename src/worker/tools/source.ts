import type { Sanitization, TrustClass } from '../../shared/contract/agent/agent.ts';
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
