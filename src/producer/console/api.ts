import { signal } from '@preact/signals';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { RunEvent } from '../../shared/contract/event.ts';
import { session } from './session.ts';

const requestMs = 90_000;
const firstRetryMs = 1_000;
const lastRetryMs = 15_000;

/** An answer of the producer that is no success, or no answer at all (`code` is then `unreachable`). */
export class ApiError extends Error {
  readonly code: string;
  readonly status: number;
  readonly retryable: boolean;
  readonly details: unknown;

  constructor(status: number, error: { code: string; message: string; retryable: boolean; details?: unknown }) {
    super(error.message);
    this.code = error.code;
    this.status = status;
    this.retryable = error.retryable;
    this.details = error.details;
  }
}

/** Whether the last request reached the producer. The shell shows a bar while it does not. */
export const reachable = signal(true);

export type QueryValue = string | number | boolean | undefined | null;

/** `/v1/runs?status=failed`: empty and undefined values are left out, keys keep their order. */
export function withQuery(path: string, query: Readonly<Record<string, QueryValue>>): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query))
    if (value !== undefined && value !== null && value !== '') params.append(key, String(value));
  const text = params.toString();
  return text === '' ? path : `${path}${path.includes('?') ? '&' : '?'}${text}`;
}

export interface Ask {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Sent as JSON, unless it is a `FormData` or `Blob`. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/**
 * One request to the producer with this browser's session. Answers the JSON of the body (undefined when there is none).
 * Throws {@link ApiError}; a 401 also ends the session, which brings up the login.
 */
export async function api<T>(path: string, ask: Ask = {}): Promise<T> {
  const response = await request(path, ask);
  const text = await response.text();
  return (text === '' ? undefined : JSON.parse(text)) as T;
}

/** As {@link api}, for answers that are read as a stream, as text or as bytes. */
export async function request(path: string, { method = 'GET', body, headers, signal: leave }: Ask = {}) {
  const raw = body === undefined || body instanceof FormData || body instanceof Blob;
  const init: RequestInit = {
    method,
    headers: {
      accept: 'application/json',
      ...(method !== 'GET' && { 'x-millrace-console': '1' }),
      ...(!raw && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: raw ? (body as BodyInit) : JSON.stringify(body) }),
    signal: leave ?? AbortSignal.timeout(requestMs),
    credentials: 'same-origin',
  };
  const response = await reach(path, init);
  if (response.ok) return response;
  throw await refusal(response);
}

async function reach(path: string, init: RequestInit): Promise<Response> {
  try {
    const response = await fetch(path, init);
    reachable.value = true;
    return response;
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    reachable.value = false;
    throw new ApiError(0, {
      code: 'unreachable',
      message: 'The producer does not answer. Is it running? This page tries again by itself.',
      retryable: true,
    });
  }
}

async function refusal(response: Response): Promise<ApiError> {
  if (response.status === 401) session.value = { state: 'out' };
  const body: unknown = await response.json().catch(() => undefined);
  const error = typeof body === 'object' && body !== null && 'error' in body ? body.error : undefined;
  if (typeof error === 'object' && error !== null && 'code' in error)
    return new ApiError(response.status, error as never);
  return new ApiError(response.status, {
    code: `http_${response.status}`,
    message: `The producer answered ${response.status} without saying why.`,
    retryable: response.status >= 500,
  });
}

export interface Query<T> {
  /** The newest answer. Stays while a newer one is fetched, and when fetching it failed; goes when the path changes. */
  readonly data: T | undefined;
  /** Why the last attempt failed; undefined after a success. */
  readonly error: ApiError | undefined;
  /** Nothing to show yet. */
  readonly loading: boolean;
  /** Fetches now; resolves when the answer is there. */
  readonly reload: () => Promise<void>;
}

/**
 * Keeps the answer of a GET: fetched when the path changes, then every `everyMs` while the page is visible (absent:
 * once), and again with growing pauses after errors that may pass. `undefined` as path asks nothing.
 */
export function useQuery<T>(path: string | undefined, everyMs?: number): Query<T> {
  const [state, setState] = useState<{ path?: string; data?: T; error?: ApiError | undefined }>({});
  const live = useRef<{ load: () => Promise<void> }>({ load: async () => {} });
  useEffect(() => {
    if (path === undefined) return undefined;
    const leave = new AbortController();
    const poll = new Poll<T>(path, everyMs, leave.signal, (next) =>
      setState((before) => ({ path, ...(before.path === path && { data: before.data as T }), ...next })),
    );
    live.current = poll;
    void poll.load();
    return () => leave.abort();
  }, [path, everyMs]);
  const reload = useCallback(() => live.current.load(), []);
  const isCurrent = state.path === path;
  const data = isCurrent ? state.data : undefined;
  const error = isCurrent ? state.error : undefined;
  return { data, error, loading: path !== undefined && data === undefined && error === undefined, reload };
}

type Show<T> = (next: { data?: T; error: ApiError | undefined }) => void;

/** One path that is asked again and again. Hidden pages ask nothing, and ask at once when they are shown again. */
class Poll<T> {
  readonly #path: string;
  readonly #everyMs: number | undefined;
  readonly #leave: AbortSignal;
  readonly #show: Show<T>;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;

  constructor(path: string, everyMs: number | undefined, leave: AbortSignal, show: Show<T>) {
    this.#path = path;
    this.#everyMs = everyMs;
    this.#leave = leave;
    this.#show = show;
    const onVisible = () => {
      if (!document.hidden && this.#everyMs !== undefined) void this.load();
    };
    document.addEventListener('visibilitychange', onVisible, { signal: leave });
    leave.addEventListener('abort', () => clearTimeout(this.#timer));
  }

  async load(): Promise<void> {
    clearTimeout(this.#timer);
    let pauseMs = this.#everyMs;
    try {
      const data = await api<T>(this.#path, { signal: AbortSignal.any([this.#leave, AbortSignal.timeout(requestMs)]) });
      if (this.#leave.aborted) return;
      this.#failures = 0;
      this.#show({ data, error: undefined });
    } catch (error) {
      if (this.#leave.aborted) return;
      const known = asApiError(error);
      this.#show({ error: known });
      pauseMs = known.retryable ? retryPause(this.#failures) : undefined;
      this.#failures += 1;
    }
    clearTimeout(this.#timer);
    if (pauseMs !== undefined) this.#timer = setTimeout(() => void this.#again(), pauseMs);
  }

  async #again(): Promise<void> {
    if (!document.hidden) await this.load();
  }
}

/** Doubles from a second to fifteen. */
export function retryPause(failures: number): number {
  return Math.min(lastRetryMs, firstRetryMs * 2 ** failures);
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new ApiError(0, { code: 'console', message, retryable: false });
}

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
    follow(runId, after, onEvent, () => setFollowing({ state: 'live' }), leave.signal).then(
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

async function follow(
  runId: string,
  begin: number,
  onEvent: (event: RunEvent) => void,
  onLive: () => void,
  leave: AbortSignal,
): Promise<void> {
  let after = begin;
  let failures = 0;
  while (!leave.aborted) {
    try {
      const response = await request(`/v1/runs/${encodeURIComponent(runId)}/events?after=${after}`, {
        headers: { accept: 'application/x-ndjson' },
        signal: leave,
      });
      onLive();
      for await (const event of eventLines(response)) {
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
    }
    await pause(retryPause(failures), leave);
    failures += 1;
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
async function* eventLines({ body }: Response): AsyncGenerator<RunEvent> {
  if (!body) return;
  let rest = '';
  for await (const chunk of chunks(body.pipeThrough(new TextDecoderStream()))) {
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
