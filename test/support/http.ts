import { createParser } from 'eventsource-parser';
import type { RunEvent } from '../../src/producer/index.ts';

/** An answer of the producer with its body read as JSON, or as text where it is none. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of many shapes
  readonly body: any;
}

/** Sends a request; an object as body goes out as JSON. */
export async function call(
  method: string,
  url: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const json = body !== undefined && typeof body !== 'string';
  const response = await fetch(url, {
    method,
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: json ? JSON.stringify(body) : body }),
  });
  const text = await response.text();
  let parsed: unknown = text;
  try {
    parsed = JSON.parse(text);
  } catch {}
  return { status: response.status, headers: response.headers, body: parsed };
}

/**
 * The body of a response that is not kept. The `fetch` of Node cancels a body whose reading has not begun once its
 * response is collected as garbage, and the reader then finds it empty, without an error.
 */
export function bodyOf({ body }: Response): ReadableStream<Uint8Array> {
  return (body as ReadableStream<Uint8Array>).pipeThrough(new TransformStream<Uint8Array, Uint8Array>());
}

/** Follows a run's server-sent events until the server ends the stream. Leaving the loop closes the connection. */
export async function* sse(url: string, headers: Record<string, string> = {}): AsyncGenerator<RunEvent, void, void> {
  const leave = new AbortController();
  const response = await fetch(url, { headers: { accept: 'text/event-stream', ...headers }, signal: leave.signal });
  if (response.status !== 200) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
  const ready: RunEvent[] = [];
  const parser = createParser({
    onEvent({ id, event, data }) {
      const parsed = JSON.parse(data) as RunEvent;
      if (id !== String(parsed.sequenceNumber) || event !== parsed.type) throw new Error(`wrong frame: ${id} ${event}`);
      ready.push(parsed);
    },
  });
  try {
    const decoder = new TextDecoder();
    for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
      parser.feed(decoder.decode(chunk, { stream: true }));
      yield* ready.splice(0);
    }
  } finally {
    leave.abort();
  }
}

/** Everything that an iteration gives until it ends. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const seen: T[] = [];
  for await (const item of items) seen.push(item);
  return seen;
}
