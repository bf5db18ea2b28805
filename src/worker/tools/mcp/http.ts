import { StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { Clock } from '../../../shared/base/clock.ts';
import type { Egress, FetchLike } from '../../../shared/egress/egress.ts';
import { floodGate, maxMessageBytes, maxMessageDepth, maxReconnects, reconnectWindowMs } from './limits.ts';

const minReconnectMs = 500;
const maxReconnectMs = 10_000;

export interface HttpAddress {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A connection over streamable HTTP, through the egress check. Streams that break off are resumed, but not for ever. */
export function httpTransport({ url, headers }: HttpAddress, egress: Pick<Egress, 'asFetch'>, clock: Clock) {
  const mayReconnect = floodGate(4 * maxReconnects, reconnectWindowMs, clock);
  return new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { ...headers } },
    fetch: shallow(egress.asFetch({ maxBytes: maxMessageBytes })),
    reconnectionOptions: {
      maxRetries: 2,
      initialReconnectionDelay: minReconnectMs,
      maxReconnectionDelay: maxReconnectMs,
      reconnectionDelayGrowFactor: 2,
    },
    // A server may ask for any delay, also for none.
    reconnectionScheduler(reconnect, delayMs) {
      if (!mayReconnect()) return undefined;
      const done = new AbortController();
      const waitMs = Math.min(Math.max(delayMs, minReconnectMs), maxReconnectMs);
      clock.sleep(waitMs, done.signal).then(reconnect, () => {});
      return () => done.abort();
    },
  });
}

/** The same, but a body that is nested too deeply breaks off before it is parsed. */
function shallow(fetch: FetchLike): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (!response.body) return response;
    // What a GET answers is read as a stream, whatever it calls itself.
    const named = response.headers.get('content-type')?.toLowerCase().includes('text/event-stream') ?? false;
    const body = response.body.pipeThrough(depthBound(named || init?.method === 'GET' ? 'stream' : 'json'));
    const { status, statusText, headers } = response;
    return new Response(body, { status, statusText, headers });
  };
}

const lineFeed = 10;
const carriageReturn = 13;
const quote = 34;
const backslash = 92;
const dataField = Buffer.from('data:');

/**
 * Counts brackets outside strings. In an event stream an empty line begins anew, no string goes over a line, and in lines
 * without data only what opens counts: they must not hide how deep the data is.
 */
function depthBound(kind: 'stream' | 'json'): TransformStream<Uint8Array, Uint8Array> {
  let [depth, column, isData, isString, isEscaped] = [0, 0, true, false, false];
  const endLine = () => {
    if (column === 0) depth = 0;
    [column, isData, isString, isEscaped] = [0, true, false, false];
  };
  const read = (byte: number): void => {
    if (kind === 'stream') {
      if (byte === lineFeed || byte === carriageReturn) return endLine();
      if (column < dataField.length) isData &&= byte === dataField[column];
      column++;
    }
    if (isEscaped) isEscaped = false;
    else if (isString) {
      if (byte === backslash) isEscaped = true;
      else if (byte === quote) isString = false;
    } else if (byte === quote) isString = isData;
    else if (byte === 0x5b || byte === 0x7b) depth++;
    else if (isData && (byte === 0x5d || byte === 0x7d)) depth--;
  };
  return new TransformStream({
    transform(chunk, controller) {
      for (const byte of chunk) {
        read(byte);
        if (depth > maxMessageDepth) throw new Error(`a message is nested deeper than ${maxMessageDepth} levels`);
      }
      controller.enqueue(chunk);
    },
  });
}
