import {
  boundedFetch,
  type EgressInit,
  discard,
  redirectTarget,
  tooManyRedirects,
  type Way,
  EgressError,
  type EgressReason,
  egressErrorOf,
} from './egress-fetch.ts';
import { guardedAgent, type Lookup } from './guarded-agent.ts';
import { familyOf, hostOf, isInnerHost, isNamed, portOf } from './networks.ts';
import { fetch as send, type RequestInit as SentInit } from 'undici';

const connectTimeoutMs = 10_000;
/** Of the head of an answer, in bytes. */
const maxHeaderSize = 32 * 1024;

export interface EgressOptions {
  /** `host` or `host:port`, lower-case: these may be private, and without TLS. */
  readonly allowedHosts: readonly string[];
  /** Also for hosts that are not named: URLs without TLS. Default false. */
  readonly allowHttp?: boolean;
  /** Ports of hosts that are not named. Default: any. */
  readonly ports?: readonly number[];
  /** Resolves names. Default: the system's. */
  readonly lookup?: Lookup;
}

export interface EgressProblem {
  readonly reason: EgressReason;
  /** Says what to do. Names the host, and no address behind it. */
  readonly message: string;
}

/** What leaves a process towards an address that a user, a model or a server gave. */
export type Egress = ReturnType<typeof createEgress>;

/** What callers of `asFetch` may pass: a URL, and a body that is text, bytes or form fields. */
export type FetchLike = (url: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * The check of outgoing requests against server-side request forgery (SSRF): of tools, MCP servers, webhooks and files. Model
 * providers, whose addresses an operator sets, pass the looser one of `base-url.ts`. Refused, unless the host is allowed by name: every address that is not public (the
 * families of `networks.ts`: loopback, private, link-local, carrier-grade NAT, metadata services, multicast, reserved,
 * documentation, benchmarking; in IPv6 also unique local, site-local, discard, and all forms that hold an IPv4 address:
 * mapped, compatible, translated, NAT64, 6to4, Teredo); names of inner networks, and names that end in a dot; URLs without
 * TLS. Always refused: URLs with a user name or password. All addresses of a name are checked when the connection is made,
 * so that a name that changes its address gains nothing. Every redirect is checked like the first URL. Proxies that the
 * environment names are not used.
 */
export function createEgress(options: EgressOptions) {
  const agent = guardedAgent(
    {
      allows: (host, port) => isNamed(host, port, options.allowedHosts),
      refusal: (host, address) => (familyOf(address) ? new EgressError('private_address', inner(host)) : undefined),
    },
    { connectTimeoutMs, maxHeaderSize, headersTimeout: 0, bodyTimeout: 0, lookup: options.lookup },
  );
  const check = (url: string | URL, domains?: readonly string[]) => problemOf(url, options, domains);
  const allow = (url: URL, domains?: readonly string[]) => {
    const problem = check(url, domains);
    if (problem) throw new EgressError(problem.reason, problem.message);
  };
  return {
    /**
     * What is wrong with a URL as far as it says so itself, before anything is resolved or connected to. `domains`: the only
     * hosts (`host` or `host:port`) that it may name.
     */
    check,
    /** Is this host one that is not public, and that no entry of the allowed hosts names, with whatever port? */
    isPrivateHost: (hostname: string) =>
      isInnerHost(hostname) && !options.allowedHosts.some((entry) => hostOf(hostname) === hostInEntry(entry)),
    /** Did the operator allow this host by name? */
    names: (url: string | URL): boolean => {
      const parsed = URL.parse(String(url));
      return parsed !== null && isNamed(parsed.hostname, portOf(parsed), options.allowedHosts);
    },
    /** A request whose answer is read to its end. Throws an `EgressError`, or the reason of the signal. */
    fetch: (url: string | URL, init: EgressInit = {}) => boundedFetch(parsed(url), init, { dispatcher: agent, allow }),
    /**
     * A `fetch` for clients that stream. Deadlines are the caller's. Redirects are refused. A body, or one event of an event
     * stream, beyond `maxBytes` (default 16 MiB) breaks off with `too_large`.
     */
    asFetch: (limits?: { readonly maxBytes?: number }) =>
      streamingFetch({ dispatcher: agent, allow }, limits?.maxBytes),
    [Symbol.asyncDispose]: () => agent.destroy(),
  };
}

/** The host of `host` or `host:port`. An IPv6 address without brackets has no port. */
function hostInEntry(entry: string): string {
  const [, host = entry] = /^([^:]+|\[.*\]):\d+$/.exec(entry) ?? [];
  return hostOf(host);
}

function parsed(url: string | URL): URL {
  const found = URL.parse(String(url));
  if (!found) throw new EgressError('invalid_url', 'this is no URL');
  return found;
}

function problemOf(
  given: string | URL,
  { allowedHosts, allowHttp = false, ports }: EgressOptions,
  domains: readonly string[] | undefined,
): EgressProblem | undefined {
  const url = URL.parse(String(given));
  if (!url) return { reason: 'invalid_url', message: 'this is no URL' };
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    return { reason: 'insecure_url', message: `${url.protocol} is not spoken here: use https` };
  if (url.username !== '' || url.password !== '')
    return { reason: 'userinfo', message: 'a URL must not hold a user name or password' };
  const [host, port] = [hostOf(url.hostname), portOf(url)];
  if (domains && !isNamed(host, port, domains))
    return { reason: 'domain_not_allowed', message: `${host} is not one of the hosts that EGRESS_DOMAINS names` };
  if (isNamed(host, port, allowedHosts)) return undefined;
  // The URL parser has brought short, octal and hexadecimal addresses into their usual form.
  if (url.hostname.endsWith('.') || isInnerHost(host)) return { reason: 'private_address', message: inner(host) };
  if (url.protocol === 'http:' && !allowHttp)
    return { reason: 'insecure_url', message: `${host} is to be asked without TLS: use https, or ${howToAllow(host)}` };
  if (ports && !ports.includes(Number(port)))
    return {
      reason: 'port_not_allowed',
      message: `port ${port} of ${host} is refused: ${howToAllow(`${host}:${port}`)}`,
    };
  return undefined;
}

function inner(host: string): string {
  return `${host} is not public, or resolves to an address that is not: ${howToAllow(host)}`;
}

function howToAllow(entry: string): string {
  return `the operator can add ${entry} to EGRESS_ALLOWED_HOSTS`;
}

const defaultMaxBytes = 16 * 1024 * 1024;
const [lineFeed, carriageReturn] = [10, 13];

/** A `fetch` behind the egress check that leaves the body to the caller. */
function streamingFetch({ dispatcher, allow }: Way, maxBytes = defaultMaxBytes): FetchLike {
  return async (given, init = {}) => {
    const url = parsed(given);
    allow(url);
    const received = await ask(url, { ...(init as unknown as SentInit), redirect: 'manual', dispatcher });
    if (redirectTarget(received, url)) {
      await discard(received);
      throw tooManyRedirects(url, 'which is not followed here');
    }
    const { status, statusText } = received;
    const headers = new Headers([...received.headers]);
    const bound = headers.get('content-type')?.includes('text/event-stream') ? perEvent : perBody;
    const body =
      received.body && (received.body as ReadableStream<Uint8Array>).pipeThrough(bound(maxBytes, url.hostname));
    // A response of the platform, not of undici: callers recognise it by its class.
    return new Response(body, { status, statusText, headers });
  };
}

async function ask(url: URL, init: SentInit) {
  try {
    return await send(url, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw egressErrorOf(error, url.hostname);
  }
}

function perBody(maxBytes: number, host: string): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0;
  return counted((chunk) => (bytes += chunk.length), maxBytes, host);
}

/** Counts from one empty line to the next: an event stream may last, but its reader has to hold one event. */
function perEvent(maxBytes: number, host: string): TransformStream<Uint8Array, Uint8Array> {
  let [bytes, lineStart, last] = [0, 0, 0];
  const count = (chunk: Uint8Array) => {
    for (const byte of chunk) {
      bytes++;
      const endsPair = byte === lineFeed && last === carriageReturn;
      const endsLine = byte === lineFeed || byte === carriageReturn;
      last = byte;
      if (!endsLine) continue;
      if (!endsPair && bytes === lineStart + 1) bytes = 0;
      lineStart = bytes;
    }
    return bytes;
  };
  return counted(count, maxBytes, host);
}

function counted(count: (chunk: Uint8Array) => number, maxBytes: number, host: string) {
  return new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      if (count(chunk) > maxBytes)
        throw new EgressError('too_large', `${host} sends more than ${maxBytes} bytes at once`);
      controller.enqueue(chunk);
    },
  });
}
