import { depthOver, maxLevels } from '../../shared/base/json.ts';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { orLate } from '../../shared/base/deadline.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { App } from './app.ts';
import type { BodyRoom, BodyShare } from './body-room.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Makes JSON the only content type that is read. Depth is checked on the bytes, before anything is parsed; keys that
 * reach a prototype are refused; an empty body is `undefined`, and the route decides whether that will do.
 */
export function readJsonBodies(app: App, room: BodyRoom): void {
  const parse = jsonParser(app);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', async (request: FastifyRequest, payload: Readable) => {
    checkEncoding(request.headers);
    using share = room.open();
    const chunks: Buffer[] = [];
    for await (const chunk of bodyChunks(payload, { limitBytes: request.routeOptions.bodyLimit, share }))
      chunks.push(chunk);
    const [only = Buffer.alloc(0)] = chunks;
    return chunks.length === 0 ? undefined : parse(request, chunks.length === 1 ? only : Buffer.concat(chunks));
  });
}

/** Reads the JSON of a body, or of a part of one. Throws `too_deep`, `invalid_json`. */
export type ParseJson = (request: FastifyRequest, json: Buffer) => unknown;

export function jsonParser(app: App): ParseJson {
  const parse = app.getDefaultJsonParser('error', 'error');
  return (request, json) => {
    // A character for each byte: what counts are brackets and quotes.
    if (depthOver(json.toString('latin1'), maxLevels))
      throw new RunError('too_deep', `the JSON is nested deeper than ${maxLevels} levels`);
    let answer: unknown;
    void parse(request, textOf(json), (error, value) => {
      if (error) throw error;
      answer = value;
    });
    return answer;
  };
}

/** Throws `unsupported_media_type` for anything but plain UTF-8. */
export function checkEncoding(headers: IncomingHttpHeaders): void {
  const charset = /;\s*charset="?([^";\s]+)/i.exec(headers['content-type'] ?? '')?.[1];
  if (charset && !/^utf-?8$/i.test(charset)) throw new RunError('unsupported_media_type', 'only UTF-8 is read');
  const encoding = headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity') throw new RunError('unsupported_media_type', 'compressed bodies are not read');
}

function textOf(json: Buffer): string {
  const text = decoded(json);
  if (text.startsWith('\uFEFF')) throw new RunError('invalid_json', 'the JSON starts with a byte order mark');
  return text;
}

function decoded(json: Buffer): string {
  try {
    return utf8.decode(json);
  } catch (cause) {
    throw new RunError('invalid_json', 'the JSON is not UTF-8', { cause });
  }
}

export interface BodyReading {
  readonly limitBytes: number;
  readonly share: BodyShare;
  readonly signal?: AbortSignal;
  /** In which the whole body must have come, in milliseconds. */
  readonly arrivesInMs?: number;
}

/** A client that sends a byte now and then would keep its share of the room. */
const usualArrivalMs = 120_000;

/**
 * The bytes of a body as they arrive, none of them before there is room for it. Throws `payload_too_large`,
 * `overloaded`, and `invalid_json` when the client breaks off or takes too long. Leaves the rest unread when its reader stops.
 */
export async function* bodyChunks(body: Readable, reading: BodyReading): AsyncGenerator<Buffer> {
  const { limitBytes, share, signal, arrivesInMs = usualArrivalMs } = reading;
  const announced = Number((body as IncomingMessage).headers?.['content-length'] ?? 0);
  if (announced > limitBytes) throw tooLarge(limitBytes);
  const endMs = performance.now() + arrivesInMs;
  let bytes = 0;
  // An iterator that destroyed the request would cut the connection that the answer needs.
  const chunks = body.iterator({ destroyOnReturn: false }) as AsyncIterableIterator<Buffer>;
  try {
    for (;;) {
      const step = await orLate(endMs - performance.now(), chunks.next(), () => tooSlow(arrivesInMs));
      if (step.done === true) return;
      const chunk = step.value;
      bytes += chunk.length;
      if (bytes > limitBytes) throw tooLarge(limitBytes);
      await share.take(chunk.length, signal);
      yield chunk;
    }
  } catch (error) {
    if (error instanceof RunError || !body.errored) throw error;
    throw new RunError('invalid_json', 'the client broke off before the body was complete', { cause: error });
  } finally {
    // Not awaited: it ends after a read that is under way.
    void chunks.return?.();
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

function tooSlow(arrivesInMs: number): never {
  throw new RunError('invalid_json', `the body did not arrive within ${arrivesInMs / 1_000} seconds`);
}

function tooLarge(limitBytes: number): RunError {
  return new RunError(
    'payload_too_large',
    `the body is over ${limitBytes} bytes, the limit of this route; large files are uploaded first, with POST /v1/files`,
  );
}
