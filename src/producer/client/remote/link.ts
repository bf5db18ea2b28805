import { systemClock } from '../../../shared/base/clock.ts';
import { jsonText } from '../../../shared/base/json.ts';
import { messageOf, RunError } from '../../../shared/base/run-error.ts';
import { Stop } from '../stop-signal.ts';
import { errorOf, jsonOf, retryAfterMs, unreachable, type Question } from './answers.ts';
import { addressOf, type Address, type RemoteOptions } from './options.ts';

/** Longest time from the beginning of a request to the end of its answer. */
const answerMs = 30_000;
/** How long a request that may be repeated is repeated. What follows a run goes on for longer. */
const repeatMs = 5_000;
const firstPauseMs = 200;
const longestPauseMs = 2_000;

/** Values of a query; those that are undefined are left out, lists are joined by commas. */
export type Query = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** One request. */
export interface Asked {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below the address, its variable parts escaped: see {@link at}. */
  readonly path: string;
  readonly query?: Query | undefined;
  readonly body?: Body | undefined;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  /** Asking twice does no more than asking once. Default: a GET. */
  readonly isRepeatable?: boolean;
  readonly answerMs?: number;
  readonly repeatMs?: number;
  /** Statuses that carry an answer, beside those from 200 to 299. */
  readonly alsoGood?: readonly number[];
  readonly signal?: AbortSignal | undefined;
}

export type Body =
  | { readonly json: unknown }
  | { readonly text: string; readonly type: string }
  | { readonly form: FormData }
  /** Sent as it comes, and so only once. */
  | { readonly stream: ReadableStream<Uint8Array>; readonly type: string };

/** An answer that is read as it comes. The caller disposes it. */
export interface OpenAnswer extends Disposable {
  readonly response: Response;
  readonly question: Question;
  /** Breaks the connection: what reads the body then fails. */
  abort(): void;
}

/**
 * The connection to a producer. Whatever goes wrong comes out as a `RunError`: that of the producer, or `queue_unavailable` where
 * none can be reached, with the URL and never with the key.
 */
export class Link {
  readonly #address: Address;
  readonly #fetch: typeof globalThis.fetch;
  readonly #closing = new AbortController();
  readonly onError: (error: Error) => void;

  constructor(options: RemoteOptions) {
    this.#address = addressOf(options);
    // Called as a method of anything else than the global object it is refused by browsers.
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.onError = (error) => options.onError?.(error);
  }

  get hasKey(): boolean {
    return this.#address.apiKey !== undefined;
  }

  /** Aborts when the client closes. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  close(): void {
    this.#closing.abort();
  }

  /** The JSON of an answer. The types are those of the contract, which the producer keeps. */
  async json<T>(asked: Asked): Promise<T> {
    return (await this.#repeating(asked, async (answer) => await jsonOf(answer.response, answer.question))) as T;
  }

  /** What `read` makes of the answer, which it may read until its time is over. */
  async read<T>(asked: Asked, read: (answer: OpenAnswer) => Promise<T>): Promise<T> {
    return await this.#repeating(asked, read);
  }

  /** An answer whose body goes on for as long as it does: only its beginning has a deadline. Asked for once. */
  async open(asked: Asked): Promise<OpenAnswer> {
    return await this.#attempt(asked, (answer) => Promise.resolve(answer), 'keep');
  }

  async #repeating<T>(asked: Asked, read: (answer: OpenAnswer) => Promise<T>): Promise<T> {
    const { isRepeatable = (asked.method ?? 'GET') === 'GET', signal } = asked;
    const until = systemClock.monotonic() + (asked.repeatMs ?? repeatMs);
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#attempt(asked, read, 'end');
      } catch (error) {
        if (!isPassingTrouble(error) || !(isRepeatable || wasNotSent(error))) throw error;
        const pauseMs = retryAfterMs(error) ?? pauseAfter(attempt);
        if (systemClock.monotonic() + pauseMs > until) throw error;
        this.onError(error);
        await this.pause(pauseMs, signal);
      }
    }
  }

  /** Throws the signal's reason when it aborts, and `queue_unavailable` once the client is closed. */
  async pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
    const stop = new Stop({ signals: [signal, this.closing] });
    try {
      await systemClock.sleep(ms, stop.signal);
    } catch {
      signal?.throwIfAborted();
      throw closed();
    } finally {
      stop[Symbol.dispose]();
    }
  }

  async #attempt<T>(asked: Asked, read: (answer: OpenAnswer) => Promise<T>, after: 'end' | 'keep'): Promise<T> {
    const { signal, answerMs: limitMs = answerMs } = asked;
    if (this.closing.aborted) throw closed();
    signal?.throwIfAborted();
    const stop = new Stop({ signals: [signal, this.closing] });
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      stop.now();
    }, limitMs);
    const question = { method: asked.method ?? 'GET', url: `${this.#address.base}${asked.path}` };
    let isKept = false;
    try {
      const response = await this.#send(asked, question, stop.signal);
      if (!response.ok && !asked.alsoGood?.includes(response.status)) throw await errorOf(response, question);
      const answer = { response, question, abort: () => stop.now(), [Symbol.dispose]: () => stop[Symbol.dispose]() };
      const value = await read(answer);
      isKept = after === 'keep';
      return value;
    } catch (error) {
      signal?.throwIfAborted();
      if (this.closing.aborted) throw closed();
      if (isLate) throw unreachable(`${question.url} did not answer within ${limitMs / 1_000} s`);
      throw error instanceof RunError ? error : brokenOff(error, question);
    } finally {
      clearTimeout(timer);
      if (!isKept) stop[Symbol.dispose]();
    }
  }

  async #send(asked: Asked, { method, url }: Question, signal: AbortSignal): Promise<Response> {
    const { apiKey } = this.#address;
    const { type, ...body } = bodyOf(asked.body);
    const headers = Object.entries({
      accept: 'application/json',
      authorization: apiKey === undefined ? undefined : `Bearer ${apiKey}`,
      'content-type': type,
      ...asked.headers,
    }).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const init = { method, headers, redirect: 'manual', signal, cache: 'no-store', credentials: 'omit' } as const;
    try {
      return await this.#fetch(`${url}${searchOf(asked.query)}`, { ...init, ...body } as RequestInit);
    } catch (error) {
      if (signal.aborted) throw error;
      throw notReached(error, this.#address.base);
    }
  }
}

/** A path with its variable parts escaped. */
export function at(parts: TemplateStringsArray, ...values: readonly string[]): string {
  return String.raw({ raw: parts }, ...values.map(escaped));
}

/** Is this worth asking again: no producer could be reached, or it asks to come back? */
export function isPassingTrouble(error: unknown): error is RunError {
  if (!(error instanceof RunError) || !error.retryable) return false;
  return error.code === 'queue_unavailable' || error.http === 429 || error.http === 503;
}

/** Doubles from 200 ms to 2 s; a bit apart, so that many clients do not come back in the same moment. */
export function pauseAfter(attempt: number): number {
  return Math.min(firstPauseMs * 2 ** attempt, longestPauseMs) * (0.75 + Math.random() / 2);
}

/** A dot or two alone would be taken for a step in the path. */
function escaped(value: string): string {
  const text = encodeURIComponent(value.toWellFormed());
  return /^\.{1,2}$/.test(text) ? text.replaceAll('.', '%2E') : text;
}

function searchOf(query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) search.set(name, Array.isArray(value) ? value.join(',') : String(value));
  }
  const text = search.toString();
  return text === '' ? '' : `?${text}`;
}

function bodyOf(body: Body | undefined) {
  if (body === undefined) return { type: undefined };
  if ('text' in body) return { body: body.text, type: body.type };
  // The boundary is in the type that `fetch` writes.
  if ('form' in body) return { body: body.form, type: undefined };
  if ('stream' in body) return { body: body.stream, duplex: 'half', type: body.type };
  return { body: jsonBody(body.json), type: 'application/json' };
}

/** The JSON of what a caller gave. Throws `validation` for what has none: cycles, big integers, functions. */
export function jsonBody(value: unknown): string {
  let text: string | undefined;
  let cause: unknown;
  try {
    text = jsonText(value);
  } catch (error) {
    cause = error;
  }
  if (text !== undefined) return text;
  throw new RunError('validation', 'the request cannot be written as JSON', { cause });
}

function closed(): RunError {
  return new RunError('queue_unavailable', 'this client is closed', { retryable: false });
}

function brokenOff(error: unknown, { url }: Question): RunError {
  return unreachable(`the answer of ${url} broke off`, error);
}

const unsent: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

/** Nothing listened there: the request has not reached anybody. */
function wasNotSent({ cause }: RunError): boolean {
  return unsent.has(codeOf(cause) ?? '');
}

function notReached(error: unknown, base: string): RunError {
  const code = codeOf(error);
  const why = code ?? messageOf(error);
  if (/CERT|SSL|TLS|SELF_SIGNED|VERIFY|EPROTO/.test(why)) {
    const advice = 'see NODE_EXTRA_CA_CERTS for an authority of your own';
    return unreachable(`the TLS connection to ${base} failed (${why}): ${advice}`, error, false);
  }
  return unreachable(`Millrace cannot be reached at ${base} (${why}): is a producer running there?`, error);
}

/** Of the error, or of what caused it. Browsers give none. */
function codeOf(error: unknown): string | undefined {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 4; cause = cause.cause, depth++) {
    if ('code' in cause && typeof cause.code === 'string') return cause.code;
  }
  return undefined;
}
