import type { IncomingHttpHeaders } from 'node:http';
import { RunError } from '../../shared/errors.ts';
import type { App } from './app.ts';

export const maxJsonDepth = 64;

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Makes JSON the only content type that is read. Depth is checked on the bytes, before anything is parsed; keys that
 * reach a prototype are refused; an empty body is `undefined`, and the route decides whether that will do.
 */
export function readJsonBodies(app: App): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    // A list nests each of its runs one level deeper.
    const maxDepth = maxJsonDepth + (request.routeOptions.config.bodyIsList ? 1 : 0);
    try {
      if (isDeeperThan(body, maxDepth))
        throw new RunError('too_deep', `the body is nested deeper than ${maxJsonDepth} levels`);
      const text = bodyText(body, request.headers);
      if (text === undefined) done(null, undefined);
      else void parse(request, text, done);
    } catch (error) {
      done(error as RunError);
    }
  });
}

/** The text of a body, or undefined for none. Throws `invalid_json`, `unsupported_media_type`. */
export function bodyText(body: Buffer, headers: IncomingHttpHeaders): string | undefined {
  const charset = /;\s*charset="?([^";\s]+)/i.exec(headers['content-type'] ?? '')?.[1];
  if (charset && !/^utf-?8$/i.test(charset)) throw new RunError('unsupported_media_type', 'only UTF-8 is read');
  const encoding = headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity') throw new RunError('unsupported_media_type', 'compressed bodies are not read');
  if (body.length === 0) return undefined;
  const text = decoded(body);
  if (text.startsWith('\uFEFF')) throw new RunError('invalid_json', 'the body starts with a byte order mark');
  return text;
}

function decoded(body: Buffer): string {
  try {
    return utf8.decode(body);
  } catch (cause) {
    throw new RunError('invalid_json', 'the body is not UTF-8', { cause });
  }
}

const quote = 0x22;
const backslash = 0x5c;

/** Counts brackets outside of strings, and stops at the first one too many. */
export function isDeeperThan(json: Uint8Array, maxDepth: number): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < json.length; i++) {
    const byte = json[i];
    if (inString) {
      if (byte === backslash) i++;
      else if (byte === quote) inString = false;
    } else if (byte === quote) inString = true;
    else if (byte === 0x7b || byte === 0x5b) {
      depth += 1;
      if (depth > maxDepth) return true;
    } else if (byte === 0x7d || byte === 0x5d) depth -= 1;
  }
  return false;
}
