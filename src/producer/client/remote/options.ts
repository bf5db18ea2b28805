import { RunError } from '../../../shared/base/run-error.ts';

/** How a client reaches Millrace over HTTP: `fetch` and nothing else, from Node, an edge function or a browser. */
export interface RemoteOptions {
  /**
   * Where a producer listens, for instance `https://agents.example.com`; a path is kept. Default: `MILLRACE_URL`, where no option for
   * Redis is given.
   */
  readonly url: string;
  /** A key of `MILLRACE_API_KEYS`, which names the tenant. Default beside `MILLRACE_URL`: `MILLRACE_API_KEY`. */
  readonly apiKey?: string | undefined;
  /** In place of the global `fetch`, for instance a service binding of an edge platform. */
  readonly fetch?: typeof globalThis.fetch;
  /** Called for each failure of the network that the client outlives by itself. Must not throw. Default: ignored. */
  readonly onError?: (error: Error) => void;
}

/** Where requests go. */
export interface Address {
  /** The URL without a slash at its end, as errors name it. */
  readonly base: string;
  readonly apiKey: string | undefined;
}

/** Throws `invalid_config` for what is no address of a producer, and for a key that no header can carry; never shows the key. */
export function addressOf({ url, apiKey }: Pick<RemoteOptions, 'url' | 'apiKey'>): Address {
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.hostname === '')
    throw invalid('url: must be like https://agents.example.com');
  if (parsed.username !== '' || parsed.password !== '')
    throw invalid('url: has a user or a password; the key belongs into apiKey (MILLRACE_API_KEY)');
  if (parsed.search !== '' || parsed.hash !== '')
    throw invalid('url: has a query or a fragment; give the address of the producer alone');
  if (apiKey !== undefined && !/^[\x21-\x7e]{1,4096}$/.test(apiKey))
    throw invalid('apiKey: is empty, or has characters that no header can carry');
  return { base: `${parsed.origin}${parsed.pathname}`.replace(/\/+$/, ''), apiKey };
}

/** Would the key cross a network in the clear? */
export function isInTheClear({ url, apiKey }: Pick<RemoteOptions, 'url' | 'apiKey'>): boolean {
  if (apiKey === undefined) return false;
  const { protocol, hostname } = new URL(url);
  return protocol === 'http:' && !/^(localhost|.*\.localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}

function invalid(message: string): RunError {
  return new RunError('invalid_config', message);
}
