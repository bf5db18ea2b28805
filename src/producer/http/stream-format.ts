import type { ErrorInfo } from '../../shared/errors.ts';
import type { RunEvent } from '../../shared/event.ts';

/** How events look on the wire. */
export interface StreamFormat {
  readonly contentType: string;
  /** Keeps proxies from closing a quiet stream, and is no event. */
  readonly keepAlive: string;
  frame(event: RunEvent): Buffer;
  /** Ends a stream that cannot go on. It carries no number, so the client resumes after the last event it has. */
  failure(body: { readonly error: ErrorInfo }): string;
}

const sse: StreamFormat = {
  contentType: 'text/event-stream; charset=utf-8',
  keepAlive: ': keep-alive\n\n',
  frame: encodedOnce(
    (event) => `id: ${event.sequenceNumber}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`,
  ),
  failure: (body) => `event: error\ndata: ${JSON.stringify(body)}\n\n`,
};

const ndjson: StreamFormat = {
  contentType: 'application/x-ndjson; charset=utf-8',
  keepAlive: '\n',
  frame: encodedOnce((event) => `${JSON.stringify(event)}\n`),
  failure: (body) => `${JSON.stringify(body)}\n`,
};

/** What an `Accept` header asks for: NDJSON when it is named and SSE is not named before it, else SSE. */
export function formatFor(accept: string | undefined): StreamFormat {
  const types = (accept ?? '')
    .toLowerCase()
    .split(',')
    .map((part) => part.split(';')[0]?.trim());
  const first = types.find((type) => type === 'text/event-stream' || type === 'application/x-ndjson');
  return first === 'application/x-ndjson' ? ndjson : sse;
}

/** All readers of a run get the same event objects from the client, so each is encoded once for all of them. */
function encodedOnce(encode: (event: RunEvent) => string): (event: RunEvent) => Buffer {
  const known = new WeakMap<RunEvent, Buffer>();
  return (event) => {
    const frame = known.get(event) ?? Buffer.from(encode(event));
    known.set(event, frame);
    return frame;
  };
}
