import type { ServerResponse, IncomingHttpHeaders } from 'node:http';
import { type ErrorInfo, RunError } from '../../shared/base/errors.ts';
import { orLate } from '../../shared/base/deadline.ts';
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import type { DialectEvent, Projector } from '../../shared/dialects/dialect.ts';
import type { RunEvent } from '../../shared/contract/event.ts';
import type { Services } from './app.ts';
import { errorAnswer } from './error-answer.ts';
import type { ChatLine } from '../client/chat/chat-line.ts';
import { shownIn, type EventProfile } from '../../shared/dialects/project.ts';
import { wireJson } from './wire-json.ts';

/** What a stream of events or lines is sent with. */
interface Sending<T> {
  readonly framing: Framing<T>;
  /** Rejects when the run cannot be read. */
  readonly look: () => Promise<unknown>;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Sends a stream once its start is known. Rejects with an error that comes before its first item, so that it gets a status.
 * From then on never rejects: it writes until the stream ends, the client is gone or the process drains. A reader that stops
 * reading stops the iteration, so that what is kept for it is one write buffer here and one event buffer in the client; one
 * that does not read at all is cut off by the connection timeout. The stream ends without the terminal event only when it is
 * to be resumed.
 */
export async function sendStream<T>(
  items: AsyncIterator<T>,
  { framing, look, headers = {} }: Sending<T>,
  reply: FastifyReply,
  { metrics, keepAliveMs, redactor }: Pick<Services, 'metrics' | 'keepAliveMs' | 'redactor'>,
): Promise<void> {
  const first = items.next();
  await untilKnown(first, look);
  void reply.headers(headers);
  reply.hijack();
  metrics.subscribers.inc();
  const response = reply.raw;
  response.writeHead(200, {
    ...(reply.getHeaders() as Record<string, string>),
    'content-type': framing.contentType,
    'cache-control': 'no-store',
    vary: 'accept',
    // Keeps nginx from buffering the stream.
    'x-accel-buffering': 'no',
    connection: 'close',
  });
  response.flushHeaders();
  const beat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(framing.keepAlive);
  }, keepAliveMs);
  try {
    for (let step = await first; !step.done && !response.destroyed; step = await items.next()) {
      const frame = framing.frame(step.value);
      if (frame.length > 0 && !response.write(frame)) await drained(response);
    }
  } catch (error) {
    response.write(framing.failure(errorAnswer(error, reply.request.id, redactor).body));
  } finally {
    clearInterval(beat);
    response.end();
    await items.return?.();
    metrics.subscribers.dec();
  }
}

async function drained(response: ServerResponse): Promise<void> {
  if (response.destroyed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const proceed = () => resolve();
  response.once('drain', proceed).once('close', proceed);
  await promise;
  response.off('drain', proceed).off('close', proceed);
}

/** A log that has an event or an error has delivered it by then. */
const quietMs = 50;

/** From where a broken stream is resumed. */
export const resumeHeaders = z.object({
  'last-event-id': z.string().optional().describe('Continue after this number. Wins over `after`.'),
});

/** The number in the header, or undefined. Throws `validation`. */
export function lastEventId(headers: IncomingHttpHeaders): number | undefined {
  const text = headers['last-event-id'];
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(String(text))) throw new RunError('validation', 'Last-Event-ID must be a whole number from 0');
  return Number(text);
}

/**
 * Resolves when the stream can be started: the first event is there, or the run exists and is quiet. Rejects when it
 * cannot: the same connection answers in order, so once the run has been read, an error of the log would have come.
 */
async function untilKnown<T>(first: Promise<IteratorResult<T>>, look: () => Promise<unknown>): Promise<void> {
  const settled = first.then(() => true);
  // When the look fails first, no code awaits this one any more.
  settled.catch(() => {});
  if (await orLate(quietMs, settled, () => false)) return;
  await Promise.race([settled, look()]);
}

/** How a stream of things looks on the wire. */
export interface Framing<T> {
  readonly contentType: string;
  /** Keeps proxies from closing a quiet stream, and is none of the things. */
  readonly keepAlive: string;
  frame(item: T): Buffer;
  /** Ends a stream that cannot go on. It carries no number, so the client resumes after the last one it has. */
  failure(body: { readonly error: ErrorInfo }): string;
}

/** How events look on the wire. */
export interface StreamFormat extends Framing<RunEvent> {
  /** What an event has become in a dialect: nothing, one or several frames. `id` numbers the event itself. */
  frames(events: readonly DialectEvent[], id: number): Buffer;
}

const sse: StreamFormat = {
  contentType: 'text/event-stream; charset=utf-8',
  keepAlive: ': keep-alive\n\n',
  frame: encodedOnce((event) => `id: ${event.sequenceNumber}\nevent: ${event.type}\ndata: ${wireJson(event)}\n\n`),
  // Only the last one has the number of the event, those before it the number before: a client that resumes after a break in
  // between gets all of them again, and misses none.
  frames: (events, id) =>
    Buffer.from(
      events
        .map((event, index) => {
          const number = index === events.length - 1 ? id : id - 1;
          return `id: ${number}\nevent: ${event.type}\ndata: ${wireJson(event)}\n\n`;
        })
        .join(''),
    ),
  failure: (body) => `event: error\ndata: ${wireJson(body)}\n\n`,
};

const ndjson: StreamFormat = {
  contentType: 'application/x-ndjson; charset=utf-8',
  keepAlive: '\n',
  frame: encodedOnce((event) => `${wireJson(event)}\n`),
  frames: (events) => Buffer.from(events.map((event) => `${wireJson(event)}\n`).join('')),
  failure: (body) => `${wireJson(body)}\n`,
};

/** The lines of a chat turn. Its readers parse every line, so that signs of life are JSON as well. */
export const chatFraming: Framing<ChatLine> = {
  contentType: 'application/x-ndjson',
  keepAlive: '{"type":"heartbeat"}\n',
  frame: (line) => Buffer.from(`${wireJson(line)}\n`),
  failure: ({ error }) => `${wireJson({ type: 'error', data: error })}\n`,
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

/** The same format with every event projected to a dialect. */
export function inDialect(format: StreamFormat, project: Projector): StreamFormat {
  return { ...format, frame: (event) => format.frames(project(event), event.sequenceNumber) };
}

/** The same format for events of many runs: there is nowhere to resume, so none of them has an id. */
export function liveOnly(format: StreamFormat): Framing<RunEvent> {
  if (format === ndjson) return ndjson;
  return { ...sse, frame: (event) => Buffer.from(`event: ${event.type}\ndata: ${wireJson(event)}\n\n`) };
}

/** The same format, which takes note of every event and writes only what this profile shows. */
export function shownOnly(format: StreamFormat, profile: EventProfile): StreamFormat {
  const isShown = shownIn(profile);
  return {
    ...format,
    frame: (event) => {
      const frame = format.frame(event);
      return isShown(event) ? frame : nothing;
    },
  };
}

const nothing = Buffer.alloc(0);

/** All readers of a run get the same event objects from the client, so each is encoded once for all of them. */
function encodedOnce(encode: (event: RunEvent) => string): (event: RunEvent) => Buffer {
  const known = new WeakMap<RunEvent, Buffer>();
  return (event) => {
    const frame = known.get(event) ?? Buffer.from(encode(event));
    known.set(event, frame);
    return frame;
  };
}
