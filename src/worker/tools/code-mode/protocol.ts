import type { ToolErrorKind } from '../../../shared/base/errors.ts';

/** One script, as its process gets it. */
export interface RunOrder {
  readonly t: 'run';
  readonly source: string;
  /** Names under which `tools` has a function. */
  readonly tools: readonly string[];
  readonly limits: ScriptLimits;
  /** The time that the script sees, from its beginning to its end. Milliseconds since the epoch. */
  readonly nowMs: number;
  /** Four 32-bit numbers from which its random numbers come. */
  readonly seed: readonly number[];
}

export interface ScriptCallReply {
  readonly t: 'result';
  readonly id: number;
  readonly result:
    | { readonly ok: true; readonly json: string | undefined }
    | { readonly ok: false; readonly kind: ToolErrorKind; readonly message: string };
}

export type HostMessage = RunOrder | ScriptCallReply;

/** What one script may use. The process around it is replaced when it goes beyond time or memory. */
export type ScriptLimits = Readonly<typeof defaultLimits>;

export const defaultLimits = {
  /** UTF-16 units of source text. */
  maxSourceChars: 100_000,
  /** From its first instruction to its last, waiting for tools included. */
  timeoutMs: 30_000,
  /** The call after the last one ends the script. */
  maxCalls: 64,
  /** UTF-16 units of JSON that one call may pass to a tool. */
  maxArgsChars: 262_144,
  /** Bytes of JSON that one call may get from a tool. */
  maxInnerResultBytes: 1_048_576,
  /** Bytes of JSON that it may return. */
  maxResultBytes: 51_200,
};

/** How long a script that has to end, and the calls it has in flight, may take to do so. */
export const scriptGraceMs = 100;

/** Levels of arrays and objects in arguments and in what a script returns. */
export const maxJsonLevels = 64;

/** What a script prints: this many lines, each of this length, are kept. */
export const maxLogLines = 100;
export const maxLogLineChars = 500;

/** Of what a script threw. */
export const maxErrorChars = 2_000;

/** Largest message of a process: the arguments of one call, in the longest way to write them. */
export const maxChildFrameBytes = 4 * 1_048_576;
/** Largest message to a process: the result of one call, likewise. */
export const maxHostFrameBytes = 8 * 1_048_576;

const headerBytes = 4;

/** A message as it travels: its length in four bytes, then its UTF-8 text. */
export function frameOf(text: string): Buffer {
  const body = Buffer.from(text);
  const frame = Buffer.allocUnsafe(headerBytes + body.length);
  frame.writeUInt32LE(body.length);
  frame.set(body, headerBytes);
  return frame;
}

/**
 * Cuts a byte stream back into messages. The length is checked before any of the message is kept, so that a peer cannot
 * make this side keep more than `maxBytes`.
 */
export class FrameReader {
  readonly #maxBytes: number;
  #chunks: Buffer[] = [];
  #pendingBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The texts that are complete with this chunk. Throws for a message over the bound; nothing more can be read then. */
  push(chunk: Buffer): string[] {
    this.#chunks.push(chunk);
    this.#pendingBytes += chunk.length;
    const texts: string[] = [];
    for (;;) {
      if (this.#pendingBytes < headerBytes) return texts;
      const size = this.#head().readUInt32LE();
      if (size > this.#maxBytes) throw new Error(`a message of ${size} bytes is over ${this.#maxBytes}`);
      if (this.#pendingBytes < headerBytes + size) return texts;
      const whole = this.#chunks.length === 1 ? this.#head() : Buffer.concat(this.#chunks);
      texts.push(whole.toString('utf8', headerBytes, headerBytes + size));
      const rest = whole.subarray(headerBytes + size);
      this.#chunks = rest.length > 0 ? [rest] : [];
      this.#pendingBytes = rest.length;
    }
  }

  /** The first chunk, with at least the header in it. */
  #head(): Buffer {
    const [first] = this.#chunks;
    if (first && first.length >= headerBytes) return first;
    const joined = Buffer.concat(this.#chunks);
    this.#chunks = [joined];
    return joined;
  }
}
