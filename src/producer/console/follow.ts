import { useEffect, useRef, useState } from 'preact/hooks';
import type { RunEvent } from '../../shared/contract/event.ts';
import { ApiError, asApiError, request } from './api.ts';
import { retryPause } from './poll.ts';

/** The producer gives a sign of life every 15 seconds. */
const longestSilenceMs = 45_000;

/** How far the following of a run has come. */
export type Following =
  | { readonly state: 'connecting' | 'live' | 'ended' }
  | { readonly state: 'failed'; readonly error: ApiError };

/**
 * Follows the events of a run from its first one (or after `after`) to its last, over every break of the connection.
 * `onEvents` gets them in order, in batches of one frame of the screen at most, each exactly once. The hook begins anew
 * when the id changes; `undefined` follows nothing.
 */
export function useEvents(
  runId: string | undefined,
  onEvents: (events: readonly RunEvent[]) => void,
  after = 0,
): Following {
  const [following, setFollowing] = useState<Following>({ state: 'connecting' });
  const sink = useRef(onEvents);
  sink.current = onEvents;
  useEffect(() => {
    if (runId === undefined) return undefined;
    const leave = new AbortController();
    setFollowing({ state: 'connecting' });
    const batch: RunEvent[] = [];
    const flush = () => {
      if (batch.length > 0 && !leave.signal.aborted) sink.current(batch.splice(0));
    };
    const onEvent = (event: RunEvent) => {
      if (batch.push(event) === 1) setTimeout(flush, 50);
    };
    const open = (from: number, signal: AbortSignal) => openEvents(runId, from, signal);
    follow({ open, after, onEvent, onLive: () => setFollowing({ state: 'live' }) }, leave.signal).then(
      () => {
        flush();
        setFollowing({ state: 'ended' });
      },
      (error: unknown) => {
        flush();
        if (!leave.signal.aborted) setFollowing({ state: 'failed', error: asApiError(error) });
      },
    );
    return () => leave.abort();
  }, [runId, after]);
  return following;
}

const terminal: ReadonlySet<string> = new Set(['run.completed', 'run.failed', 'run.cancelled']);

export interface Followed {
  /** Opens the stream of events behind this one. */
  readonly open: (after: number, leave: AbortSignal) => Promise<Response>;
  readonly after: number;
  readonly onEvent: (event: RunEvent) => void;
  readonly onLive: () => void;
  /** So long a stream may be silent before it is opened anew. */
  readonly silenceMs?: number;
}

async function openEvents(runId: string, after: number, leave: AbortSignal): Promise<Response> {
  const headers = { accept: 'application/x-ndjson' };
  const path = `/v1/runs/${encodeURIComponent(runId)}/events?after=${after}`;
  return await request(path, { headers, signal: leave, deadlineMs: 0 });
}

/** Gives each event once, in order, until the run has ended; a connection that breaks, or says nothing any more, is opened anew. */
export async function follow(followed: Followed, leave: AbortSignal): Promise<void> {
  const { open, onEvent, onLive, silenceMs = longestSilenceMs } = followed;
  let { after } = followed;
  let failures = 0;
  while (!leave.aborted) {
    const silence = new Silence(silenceMs);
    try {
      const response = await open(after, AbortSignal.any([leave, silence.signal]));
      onLive();
      for await (const event of eventLines(response, () => silence.broken())) {
        failures = 0;
        after = event.sequenceNumber;
        onEvent(event);
        if (terminal.has(event.type)) return;
      }
    } catch (error) {
      if (leave.aborted) return;
      const first = firstKept(error);
      if (first !== undefined) after = first - 1;
      else if (!asApiError(error).retryable && error instanceof ApiError) throw error;
    } finally {
      silence.stop();
    }
    await pause(retryPause(failures), leave);
    failures += 1;
  }
}

/** Aborts its signal when nothing has broken it for some time. */
class Silence {
  readonly #controller = new AbortController();
  readonly #ms: number;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(ms: number) {
    this.#ms = ms;
    this.broken();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  broken(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#controller.abort(new DOMException('silent', 'TimeoutError')), this.#ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

/** Of a log whose beginning is gone: where it begins now. */
function firstKept(error: unknown): number | undefined {
  if (!(error instanceof ApiError) || error.code !== 'replay_truncated') return undefined;
  const { details } = error;
  const first = typeof details === 'object' && details !== null && 'firstSequence' in details && details.firstSequence;
  return typeof first === 'number' ? first : undefined;
}

/** The events of a stream of lines. Ends without a word where the producer says that the stream is to be resumed. */
async function* eventLines({ body }: Response, onSign: () => void): AsyncGenerator<RunEvent> {
  if (!body) return;
  let rest = '';
  for await (const chunk of chunks(body.pipeThrough(new TextDecoderStream()))) {
    onSign();
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') continue;
      const event = JSON.parse(line) as Partial<RunEvent>;
      if (event.type === undefined) return;
      yield event as RunEvent;
    }
  }
}

/** Not every browser iterates over streams. */
async function* chunks(stream: ReadableStream<string>): AsyncGenerator<string> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function pause(ms: number, leave: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    leave.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });
}
