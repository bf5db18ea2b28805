import { depthOver, maxLevels } from '../../shared/base/json-depth.ts';
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { RunError } from '../../shared/base/errors.ts';
import type { App } from './app.ts';
import type { BodyRoom } from './body-room.ts';
import { bodyChunks } from './read-body.ts';

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
