import { fetch as send, type Dispatcher, type Response as Received } from 'undici';

const defaults = { method: 'GET', maxBytes: 1024 * 1024, deadlineMs: 30_000, maxRedirects: 3 };

/** A request. Bodies can be sent again, which redirects may ask for. */
export interface EgressInit {
  /** Default GET. */
  readonly method?: string;
  readonly headers?: Headers | Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  readonly signal?: AbortSignal;
  /** Of the body after decompression. Default 1 MiB. */
  readonly maxBytes?: number;
  /** A larger body: `refuse` (default) throws `too_large`, `cut` takes its beginning. */
  readonly overflow?: 'refuse' | 'cut';
  /** From the call to the last byte, redirects included. Default 30,000. */
  readonly deadlineMs?: number;
  /** Default 3. */
  readonly maxRedirects?: number;
  /** The only hosts (`host` or `host:port`) that may be asked, redirects included. Default: any public one. */
  readonly domains?: readonly string[];
}

/** An answer that has been read. */
export interface EgressResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Uint8Array;
  /** There was more than `body`. */
  readonly truncated: boolean;
  /** Where the answer came from, after redirects. */
  readonly url: string;
}

/** What a request goes through. `allow` throws an `EgressError` for a URL that must not be asked. */
export interface Way {
  readonly dispatcher: Dispatcher;
  readonly allow: (url: URL, domains?: readonly string[]) => void;
}

/**
 * Headers of a connection, not of a request: they are not sent, because they would say something else about it than what
 * it is.
 */
export const connectionHeaders: readonly string[] = [
  'host',
  'connection',
  'proxy-connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'content-length',
  'expect',
  'http2-settings',
];

/** What another origin gets to see of the headers, when a redirect leads there. */
const headersForAnyone = ['accept', 'accept-language', 'user-agent', 'content-type'];
const headersOfBody = ['content-type', 'content-encoding', 'content-language', 'content-location'];
const redirectStatus: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

interface Hop {
  readonly url: URL;
  readonly method: string;
  readonly headers: Headers;
  readonly body: string | Uint8Array | undefined;
}

/** Sends a request, follows its redirects, reads the answer. Throws an `EgressError`, or the reason of the signal. */
export async function boundedFetch(url: URL, init: EgressInit, way: Way): Promise<EgressResponse> {
  const deadline = AbortSignal.timeout(init.deadlineMs ?? defaults.deadlineMs);
  const signal = init.signal ? AbortSignal.any([init.signal, deadline]) : deadline;
  try {
    init.signal?.throwIfAborted();
    const { response, url: last } = await follow(firstHop(url, init), init, way, signal);
    const { status } = response;
    const headers = headersOf(response);
    return { status, headers, ...(await read(response, last, init)), url: last.href };
  } catch (error) {
    if (init.signal?.aborted) throw init.signal.reason;
    if (deadline.aborted)
      throw new EgressError('timeout', `there was no whole answer in time: ${url.hostname}`, {
        cause: error,
        mayHaveArrived: true,
      });
    throw error;
  }
}

function firstHop(url: URL, { method = defaults.method, headers, body }: EgressInit): Hop {
  const given = new Headers(headers);
  for (const name of connectionHeaders) given.delete(name);
  if (!given.has('user-agent')) given.set('user-agent', 'millrace');
  return { url, method: method.toUpperCase(), headers: given, body };
}

async function follow(first: Hop, init: EgressInit, way: Way, signal: AbortSignal) {
  const { maxRedirects = defaults.maxRedirects, domains } = init;
  for (let [hop, redirects] = [first, 0]; ; redirects++) {
    const asked = ask(hop, way, domains, signal);
    const response = redirects === 0 ? await asked : await asked.catch(afterAnswer);
    const next = nextHop(hop, response);
    if (!next) return { response, url: hop.url };
    await discard(response);
    if (redirects >= maxRedirects) throw tooManyRedirects(hop.url, `which is followed ${maxRedirects} times`);
    hop = next;
  }
}

export function tooManyRedirects({ hostname }: URL, why: string): EgressError {
  return new EgressError('too_many_redirects', `${hostname} redirects, ${why}`, { mayHaveArrived: true });
}

/** A later hop failed: the first one did arrive. */
function afterAnswer(error: unknown): never {
  if (!(error instanceof EgressError)) throw error;
  throw new EgressError(error.reason, error.message, { cause: error, mayHaveArrived: true });
}

async function ask(
  { url, method, headers, body }: Hop,
  { dispatcher, allow }: Way,
  domains: readonly string[] | undefined,
  signal: AbortSignal,
): Promise<Received> {
  allow(url, domains);
  try {
    return await send(url, {
      method,
      headers: [...headers],
      ...(body !== undefined && { body }),
      redirect: 'manual',
      dispatcher,
      signal,
    });
  } catch (error) {
    throw egressErrorOf(error, url.hostname);
  }
}

/** Throws an unread body away, and its connection with it. */
export async function discard(response: Received): Promise<void> {
  await response.body?.cancel().catch(() => {});
}

/** Where an answer redirects to; undefined when it is the answer. Throws `invalid_url` for a target that is none. */
export function redirectTarget(response: Received, from: URL): URL | undefined {
  const location = response.headers.get('location');
  if (!redirectStatus.has(response.status) || location === null) return undefined;
  const target = URL.parse(location, from.href);
  if (!target)
    throw new EgressError('invalid_url', `${from.hostname} redirects to what is no URL`, { mayHaveArrived: true });
  return target;
}

/** The request that a redirect asks for: methods change as they do for `fetch`, headers stay with their origin. */
function nextHop({ url, method, headers, body }: Hop, response: Received): Hop | undefined {
  const target = redirectTarget(response, url);
  if (!target) return undefined;
  const { status } = response;
  const becomesGet =
    ((status === 301 || status === 302) && method === 'POST') ||
    (status === 303 && method !== 'GET' && method !== 'HEAD');
  const kept = new Headers(headers);
  if (becomesGet) for (const name of headersOfBody) kept.delete(name);
  if (target.origin !== url.origin)
    for (const name of [...kept.keys()].filter((one) => !headersForAnyone.includes(one))) kept.delete(name);
  return { url: target, method: becomesGet ? 'GET' : method, headers: kept, body: becomesGet ? undefined : body };
}

function headersOf(response: Received): Headers {
  return new Headers([...response.headers]);
}

async function read(
  response: Received,
  { hostname }: URL,
  { maxBytes = defaults.maxBytes, overflow = 'refuse' }: EgressInit,
): Promise<{ body: Uint8Array; truncated: boolean }> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      chunks.push(chunk);
      bytes += chunk.length;
      // Leaving the loop cancels the body, and so the connection.
      if (bytes > maxBytes) break;
    }
  } catch (error) {
    throw egressErrorOf(error, hostname);
  }
  const truncated = bytes > maxBytes;
  if (truncated && overflow === 'refuse')
    throw new EgressError('too_large', `the answer of ${hostname} is larger than ${maxBytes} bytes`, {
      mayHaveArrived: true,
    });
  return { body: Buffer.concat(chunks).subarray(0, maxBytes), truncated };
}

/**
 * Why a request was not made, or its answer not taken. The first six are refusals of where it would have gone:
 * - invalid_url: no URL
 * - insecure_url: another scheme than https
 * - userinfo: a user name or password in the URL
 * - domain_not_allowed: not on the list that was given
 * - private_address: a host that is not public, or whose name resolves to an address that is not
 * - port_not_allowed: not on the list that was given
 * - too_many_redirects: more than allowed, or any where none are followed
 * - too_large: the head or the body of the answer
 * - timeout: no connection, or no whole answer, in time
 * - unreachable: no connection, or one that broke off
 */
export type EgressReason =
  | 'invalid_url'
  | 'insecure_url'
  | 'userinfo'
  | 'domain_not_allowed'
  | 'private_address'
  | 'port_not_allowed'
  | 'too_many_redirects'
  | 'too_large'
  | 'timeout'
  | 'unreachable';

/** Its message names hosts, and neither paths nor addresses that names resolved to. */
export class EgressError extends Error {
  readonly reason: EgressReason;
  /** Whether the request, or its first hop, may have reached a server that acted on it. */
  readonly mayHaveArrived: boolean;

  constructor(
    reason: EgressReason,
    message: string,
    { mayHaveArrived = false, ...options }: ErrorOptions & { readonly mayHaveArrived?: boolean } = {},
  ) {
    super(message, options);
    this.name = 'EgressError';
    this.reason = reason;
    this.mayHaveArrived = mayHaveArrived;
  }
}

/** Failures of undici that have a reason of their own. */
const reasonByCode: ReadonlyMap<unknown, EgressReason> = new Map([
  ['UND_ERR_CONNECT_TIMEOUT', 'timeout'],
  ['ETIMEDOUT', 'timeout'],
  ['UND_ERR_HEADERS_OVERFLOW', 'too_large'],
  ['HPE_HEADER_OVERFLOW', 'too_large'],
]);

/** Failures of the lookup, the connection and TLS. */
const beforeSending =
  /^(ENOTFOUND|EAI_.*|ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT|ERR_TLS_.*|ERR_SSL_.*|CERT_.*|.*_CERT.*|UNABLE_TO_.*)$/;

/** Whatever a request to this host threw. A refusal of the connection comes out as it was made. */
export function egressErrorOf(thrown: unknown, host: string): EgressError {
  let code: string | undefined;
  let error = thrown;
  for (let depth = 0; error instanceof Error && depth < 6; depth++) {
    if (error instanceof EgressError) return error;
    if ('code' in error && typeof error.code === 'string' && /^[A-Z0-9_]{1,64}$/.test(error.code)) code = error.code;
    error = error.cause;
  }
  const reason = reasonByCode.get(code) ?? 'unreachable';
  return new EgressError(reason, `${messages[reason]}: ${host}${code ? ` (${code})` : ''}`, {
    cause: thrown,
    mayHaveArrived: !beforeSending.test(code ?? ''),
  });
}

const messages: Record<string, string> = {
  timeout: 'there was no connection in time',
  too_large: 'the head of the answer was too large',
  unreachable: 'there was no whole answer',
};
