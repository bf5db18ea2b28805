import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { RunError } from '../../shared/base/errors.ts';
import type { BodyShare } from './body-room.ts';

export interface BodyReading {
  readonly limitBytes: number;
  readonly share: BodyShare;
  readonly signal?: AbortSignal;
}

/**
 * The bytes of a body as they arrive, none of them before there is room for it. Throws `payload_too_large`,
 * `overloaded`, and `invalid_json` when the client breaks off. Leaves the rest unread when its reader stops.
 */
export async function* bodyChunks(
  payload: Readable,
  { limitBytes, share, signal }: BodyReading,
): AsyncGenerator<Buffer, void, void> {
  const announced = Number((payload as IncomingMessage).headers?.['content-length'] ?? 0);
  if (announced > limitBytes) throw tooLarge(limitBytes);
  let bytes = 0;
  try {
    // An iterator that destroyed the request would cut the connection that the answer needs.
    for await (const chunk of payload.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > limitBytes) throw tooLarge(limitBytes);
      await share.take(chunk.length, signal);
      yield chunk;
    }
  } catch (error) {
    if (error instanceof RunError || !payload.errored) throw error;
    throw new RunError('invalid_json', 'the client broke off before the body was complete', { cause: error });
  }
}

const pieceBytes = 1024 * 1024;

/**
 * The bytes of a body, in pieces that are returned to the system as soon as they were read, from front to back: the garbage
 * collector would keep most of a large body until its end. Chunks are copied together, because those of a client that sends
 * single bytes would need a hundred times their size.
 */
export class BodyBytes implements Disposable {
  readonly #pieces: Buffer<ArrayBuffer>[] = [];
  #length = 0;
  #freed = 0;

  add(chunk: Uint8Array): void {
    for (let from = 0; from < chunk.length;) {
      const at = this.#length % pieceBytes;
      if (at === 0) this.#pieces.push(Buffer.from(new ArrayBuffer(pieceBytes, { maxByteLength: pieceBytes })));
      const part = chunk.subarray(from, from + pieceBytes - at);
      this.#pieces.at(-1)?.set(part, at);
      this.#length += part.length;
      from += part.length;
    }
  }

  /** A copy of the bytes from `start` up to `end`. Frees what is before `start`. */
  take(start: number, end: number): Buffer {
    this.#free(Math.floor(start / pieceBytes));
    const copy = Buffer.allocUnsafe(end - start);
    for (let at = start; at < end;) {
      const inPiece = at % pieceBytes;
      const bytes = Math.min(pieceBytes - inPiece, end - at);
      this.#pieces[Math.floor(at / pieceBytes)]?.copy(copy, at - start, inPiece, inPiece + bytes);
      at += bytes;
    }
    return copy;
  }

  [Symbol.dispose](): void {
    this.#free(this.#pieces.length);
  }

  /** Shrinking a resizable buffer returns its memory at once. */
  #free(until: number): void {
    for (; this.#freed < until; this.#freed++) this.#pieces[this.#freed]?.buffer.resize(0);
  }
}

function tooLarge(limitBytes: number): RunError {
  return new RunError('payload_too_large', `the body is over ${limitBytes} bytes, the limit of this route`);
}
