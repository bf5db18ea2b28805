import { request, type Dispatcher } from 'undici';
import { guardedAgent, type Lookup } from '../../../shared/egress/guarded-agent.ts';
import { providerGuard, type EgressRule } from '../base-url.ts';
import { defined } from '../../../shared/base/collections.ts';
import { orLate } from '../../../shared/base/deadline.ts';
import type { RateLimitReport, RateLimitWindow } from '../../../shared/contract/limits.ts';

/** More of an error body is not read: only 2 KiB of it are shown. */
const maxErrorBytes = 64 * 1024;

/** A connection whose answer goes on for longer is closed. */
const maxDumpMs = 1_000;

const connectTimeoutMs = 10_000;
const anywhereButLocal: EgressRule = { allowedHosts: [], production: false };

/**
 * Connections to model providers: one per process, shared by all of them. Deadlines are the caller's. A name that
 * resolves to an address which the rule refuses is never connected to. One stream on a connection: a connection that
 * breaks then takes one answer with it.
 */
export function createTransport(rule: EgressRule = anywhereButLocal, lookup?: Lookup): Dispatcher {
  return guardedAgent(providerGuard(rule), {
    connectTimeoutMs,
    lookup,
    // The watchdog of each call knows better what is silence: keep-alive comments, start and end of an answer.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}

/** A response of {@link fetchThrough}: its body is undici's own stream, not a web stream. */
export interface StreamResponse {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: Headers;
  readonly body: Dispatcher.ResponseData['body'];
  text(): Promise<string>;
}

/**
 * A `fetch` for the `openai` client that skips web streams: they cost more than all the rest of reading an answer. It
 * knows just what that client sends: a URL, headers, a text. Redirects are not followed, so credentials go nowhere else.
 * Error bodies are cut.
 */
export function fetchThrough(dispatcher: Dispatcher): typeof fetch {
  const send = async (url: string, init: SentByClient): Promise<StreamResponse> => {
    const { statusCode: status, headers, body } = await request(url, { ...init, dispatcher });
    const ok = status >= 200 && status < 300;
    return { ok, status, headers: headersOf(headers), body, text: () => (ok ? body.text() : beginning(body)) };
  };
  return send as unknown as typeof fetch;
}

interface SentByClient {
  readonly method: Dispatcher.HttpMethod;
  readonly headers: Headers;
  readonly body: string;
  readonly signal: AbortSignal;
}

function headersOf(raw: Record<string, string | string[] | undefined>): Headers {
  const fields = Object.entries(raw).flatMap(([name, values = []]) => {
    return [values].flat().map((value): [string, string] => [name, value]);
  });
  return new Headers(fields);
}

/**
 * Passes on the bytes of a body as they arrive. `onChunk` answers false when it has all it needs: the rest is then
 * thrown away in the background, so that the connection can be used again. Resolves with what broke the body off before
 * its end, or undefined. A throw of `onChunk` destroys the body and is thrown on.
 */
export async function readBody(body: StreamResponse['body'], onChunk: (chunk: Buffer) => boolean) {
  const { promise, resolve, reject } = Promise.withResolvers<Error | undefined>();
  const onData = (chunk: Buffer) => {
    try {
      if (onChunk(chunk)) return;
    } catch (error) {
      body.off('data', onData);
      reject(error);
      body.destroy();
      return;
    }
    body.off('data', onData);
    resolve(undefined);
    orLate(maxDumpMs, body.dump({ limit: maxErrorBytes }), () => body.destroy()).catch(() => {});
  };
  body.on('data', onData);
  body.once('end', () => resolve(undefined));
  body.on('error', resolve);
  body.once('close', () => resolve(new Error('the body was closed before its end')));
  return await promise;
}

/** The bytes of a body, and what broke it off. `goesOn` is asked after each chunk, with the number of bytes by then. */
export async function gathered(body: StreamResponse['body'], goesOn: (size: number) => boolean) {
  const chunks: Buffer[] = [];
  let size = 0;
  const broken = await readBody(body, (chunk) => {
    chunks.push(chunk);
    size += chunk.length;
    return goesOn(size);
  });
  return { bytes: Buffer.concat(chunks), broken };
}

async function beginning(body: StreamResponse['body']): Promise<string> {
  const { bytes } = await gathered(body, (size) => size < maxErrorBytes);
  return bytes.subarray(0, maxErrorBytes).toString('utf8');
}

const maxResetMs = 86_400_000;
const msPerUnit: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * The values of `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`; undefined when there are none. Values that cannot
 * be read count as not sent. A reset is at most a day.
 */
export function rateLimitOf(headers: Headers): RateLimitReport | undefined {
  const requests = windowOf(headers, 'requests');
  const tokens = windowOf(headers, 'tokens');
  if (!requests && !tokens) return undefined;
  return defined({ requests, tokens });
}

function windowOf(headers: Headers, what: 'requests' | 'tokens'): RateLimitWindow | undefined {
  const limit = countOf(headers.get(`x-ratelimit-limit-${what}`));
  const remaining = countOf(headers.get(`x-ratelimit-remaining-${what}`));
  const resetMs = durationMs(headers.get(`x-ratelimit-reset-${what}`));
  if (limit === undefined && remaining === undefined && resetMs === undefined) return undefined;
  return defined({ limit, remaining, resetMs });
}

function countOf(text: string | null): number | undefined {
  return text !== null && /^\s*\d{1,15}\s*$/.test(text) ? Number(text) : undefined;
}

/** Milliseconds of `1s`, `6m0s`, `120ms`, `1h2m3.5s`, or of a plain number of seconds. */
function durationMs(text: string | null): number | undefined {
  const trimmed = text?.trim() ?? '';
  if (/^\d{1,15}(\.\d+)?$/.test(trimmed)) return bounded(Number(trimmed) * 1_000);
  if (!/^(\d{1,15}(\.\d+)?(ms|s|m|h|d))+$/.test(trimmed)) return undefined;
  let total = 0;
  for (const [, count, unit = ''] of trimmed.matchAll(/([\d.]+)(ms|s|m|h|d)/g)) {
    total += Number(count) * (msPerUnit[unit] ?? 0);
  }
  return bounded(total);
}

function bounded(ms: number): number {
  return Math.min(Math.ceil(ms), maxResetMs);
}
