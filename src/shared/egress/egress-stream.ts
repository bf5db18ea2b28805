import { fetch as send, type RequestInit as SentInit } from 'undici';
import { EgressError, egressErrorOf } from './egress-error.ts';
import { discard, redirectTarget, tooManyRedirects, type Way } from './egress-fetch.ts';

const defaultMaxBytes = 16 * 1024 * 1024;
const [lineFeed, carriageReturn] = [10, 13];

/** A `fetch` behind the egress check that leaves the body to the caller. */
export function streamingFetch(
  { dispatcher, allow }: Way,
  { maxBytes = defaultMaxBytes }: { readonly maxBytes?: number } = {},
): (url: string | URL, init?: RequestInit) => Promise<Response> {
  return async (given, init = {}) => {
    const url = URL.parse(String(given));
    if (!url) throw new EgressError('invalid_url', 'this is no URL');
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
