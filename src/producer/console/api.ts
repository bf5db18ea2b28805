import { signal } from '@preact/signals';
import { session } from './session.ts';

const readMs = 30_000;
const changeMs = 90_000;
/** For answers and bodies that may be large. */
export const transferMs = 600_000;

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
  /** Until the whole answer is here, body included. Default half a minute for a GET, else 90 seconds. 0: the caller sees to it. */
  readonly deadlineMs?: number;
}

/**
 * One request to the producer with this browser's session. Answers the JSON of the body (undefined when there is none).
 * Throws {@link ApiError}; a 401 also ends the session, which brings up the login.
 */
export async function api<T>(path: string, ask: Ask = {}): Promise<T> {
  const response = await request(path, ask);
  const text = await reached(() => response.text());
  return (text === '' ? undefined : JSON.parse(text)) as T;
}

/** As {@link api}, for answers that are bytes. */
export async function blobAt(path: string, ask: Ask = {}): Promise<Blob> {
  const response = await request(path, { deadlineMs: transferMs, ...ask });
  return await reached(() => response.blob());
}

/** As {@link api}, for answers that are read as a stream: what its body throws is the caller's. */
export async function request(path: string, ask: Ask = {}): Promise<Response> {
  const { method = 'GET', body, headers, signal: leave, deadlineMs = method === 'GET' ? readMs : changeMs } = ask;
  const raw = body === undefined || body instanceof FormData || body instanceof Blob;
  const signals = [...(leave ? [leave] : []), ...(deadlineMs > 0 ? [AbortSignal.timeout(deadlineMs)] : [])];
  const init: RequestInit = {
    method,
    headers: {
      accept: 'application/json',
      ...(method !== 'GET' && { 'x-millrace-console': '1' }),
      ...(!raw && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: raw ? (body as BodyInit) : JSON.stringify(body) }),
    signal: AbortSignal.any(signals),
    credentials: 'same-origin',
  };
  const response = await reached(() => fetch(path, init));
  if (response.ok) return response;
  throw await refusal(response);
}

/** What the network brings. Throws `unreachable` for a network, or a producer, that brings nothing; what is aborted stays so. */
async function reached<T>(bring: () => Promise<T>): Promise<T> {
  try {
    const brought = await bring();
    reachable.value = true;
    return brought;
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

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new ApiError(0, { code: 'console', message, retryable: false });
}
