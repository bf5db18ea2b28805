import { defined } from '../../../shared/base/collections.ts';
import { isRecord, jsonOr } from '../../../shared/base/json.ts';
import { errorTable, RunError, type ErrorCode } from '../../../shared/base/run-error.ts';

/** What one answer may take in memory. The largest are pages of runs with their results. */
const maxAnswerBytes = 128 * 1024 * 1024;
const maxErrorBytes = 1024 * 1024;

/** What was asked, as errors name it. */
export interface Question {
  readonly method: string;
  /** Without its query. */
  readonly url: string;
}

export interface Answered {
  readonly response: Response;
  readonly question: Question;
}

/** The JSON of an answer. Throws `queue_unavailable` for one that did not arrive whole, `invalid_config` for one that is not ours. */
export async function jsonOf(response: Response, question: Question): Promise<unknown> {
  const text = await textOf(response, maxAnswerBytes, question);
  if (!isJson(response)) throw notOurs(response, question);
  const value = jsonOr(text);
  if (value !== undefined) return value;
  const what = text === '' ? 'an empty answer' : 'an answer that broke off';
  throw unreachable(`${question.url} sent ${what}`);
}

/** The error that an answer is, with the code, the details and the status of the producer. */
export async function errorOf(response: Response, question: Question): Promise<RunError> {
  if (isRedirect(response)) return redirected(response, question);
  const text = await textOf(response, maxErrorBytes, question).catch(() => '');
  return errorIn(jsonOr(text), { response, question });
}

/** The same for a body that was read, or came within a stream. */
export function errorIn(body: unknown, { response, question }: Answered): RunError {
  const error = isRecord(body) ? body['error'] : undefined;
  if (!isRecord(error) || typeof error['code'] !== 'string') return notOurs(response, question);
  const { code } = error;
  const known = Object.hasOwn(errorTable, code) ? errorTable[code as ErrorCode] : undefined;
  // Within a stream the status says nothing about it.
  const status = response.ok ? (known?.http ?? 500) : response.status;
  return new RunError(code as ErrorCode, wordsOf(error['message'], code, question), {
    // The code of a newer producer: its answer says what its table would.
    retryable: typeof error['retryable'] === 'boolean' ? error['retryable'] : (known?.retryable ?? isPassing(status)),
    http: status,
    details: detailsOf(error, response),
  });
}

/** The producer cannot be reached, or cannot answer now. */
export function unreachable(message: string, cause?: unknown, retryable = true): RunError {
  return new RunError('queue_unavailable', message, { cause, retryable });
}

/** How long the producer asks to wait, in milliseconds. */
export function retryAfterMs({ details }: RunError): number | undefined {
  const seconds = isRecord(details) ? details['retryAfterS'] : undefined;
  return typeof seconds === 'number' && seconds >= 0 ? seconds * 1_000 : undefined;
}

/** Streams and bytes are read elsewhere; everything else is read at once. Throws `queue_unavailable` when it breaks off. */
export async function bytesOf(
  response: Response,
  maxBytes: number,
  { url }: Question,
): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of partsOf(response)) {
    bytes += part.length;
    if (bytes > maxBytes) throw new RunError('payload_too_large', `${url} sent more than ${maxBytes} bytes`);
    parts.push(part);
  }
  const whole = new Uint8Array(bytes);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** A body as it arrives. Leaving early cancels the rest. Not every runtime lets a body be iterated over. */
export async function* partsOf({ body }: Response): AsyncGenerator<Uint8Array, void, undefined> {
  if (!body) return;
  const reader = body.getReader();
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

async function textOf(response: Response, maxBytes: number, question: Question): Promise<string> {
  return new TextDecoder().decode(await bytesOf(response, maxBytes, question));
}

function isJson({ headers }: Response): boolean {
  return /^application\/json\b/i.test(headers.get('content-type') ?? '');
}

/** A browser hides where it leads. */
function isRedirect({ status, type }: Response): boolean {
  return type === 'opaqueredirect' || (status >= 300 && status < 400);
}

/** The key is meant for one host, so that no redirect is followed. */
function redirected(response: Response, { url }: Question): RunError {
  const given = response.headers.get('location') ?? '';
  const target = URL.canParse(given, url) ? new URL(given, url) : undefined;
  const where = target ? ` to ${target.origin}${target.pathname}` : '';
  return new RunError('invalid_config', `${url} redirects${where}: give the address of the producer itself`);
}

/** Something else than a producer answers: a proxy, or another server. */
function notOurs(response: Response, { method, url }: Question): RunError {
  const { status, headers } = response;
  const type = headers.get('content-type')?.split(';')[0] ?? 'no content type';
  const what = `${method} ${url} was answered with ${status} (${type}), not as a producer does`;
  if (isPassing(status)) {
    const details = detailsOf({}, response);
    return new RunError('queue_unavailable', `${what}: a proxy cannot reach one`, { details });
  }
  if (status === 401) return new RunError('unauthorized', `${what}: a proxy asks for credentials`);
  if (status === 403) return new RunError('forbidden', `${what}: a proxy refuses it`);
  if (status === 413) return new RunError('payload_too_large', `${what}: a proxy takes no body of this size`);
  return new RunError('invalid_config', `${what}: is this the address of a Millrace producer?`);
}

function isPassing(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500;
}

function wordsOf(message: unknown, code: string, { method, url }: Question): string {
  if (typeof message !== 'string') return code;
  // An older producer knows fewer routes than this client asks.
  return code === 'not_found' && message === 'there is no such route' ? `${message}: ${method} ${url}` : message;
}

function detailsOf({ details, correlationId }: Record<string, unknown>, { headers }: Response): unknown {
  const retryAfterS = secondsOf(headers.get('retry-after'));
  const added = defined({ retryAfterS, correlationId });
  if (Object.keys(added).length === 0 || (details !== undefined && !isRecord(details))) return details;
  return { ...added, ...details };
}

/** `Retry-After` is a number of seconds, or a time. */
function secondsOf(header: string | null): number | undefined {
  if (header === null) return undefined;
  if (/^\d{1,6}$/.test(header.trim())) return Number(header);
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - Date.now()) / 1_000));
}
