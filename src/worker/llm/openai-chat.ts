import OpenAI from 'openai';
import type { Dispatcher } from 'undici';
import { systemClock, type Clock } from '../../shared/clock.ts';
import { RunError } from '../../shared/errors.ts';
import { cancelledCall, LlmError } from './errors.ts';
import { errorFromBody, errorFromClient } from './openai-errors.ts';
import { ChatFold, type WireChunk } from './openai-fold.ts';
import { chatBody, type WireOptions } from './openai-wire.ts';
import type { LlmAnswer, LlmPart, LlmProvider, LlmRequest } from './provider.ts';
import { SseSplitter, type SseVerdict } from './sse.ts';
import { createTransport, discardBody, fetchThrough, readBody, type StreamResponse } from './transport.ts';
import { Watchdog } from './watchdog.ts';

export interface OpenAiChatOptions {
  /** Name of the provider in attempts, errors and reasoning. */
  readonly id: string;
  /** With its version path, for instance `https://api.openai.com/v1`. */
  readonly baseUrl: string;
  /** A function is asked at every attempt; what it throws is never shown. */
  readonly apiKey: string | (() => Promise<string> | string);
  readonly organization?: string | undefined;
  /** Longest wait for the first byte of an answer, connecting included. */
  readonly startTimeoutMs: number;
  /** Longest silence within an answer. Comments that keep the connection open are no silence. */
  readonly idleTimeoutMs: number;
  readonly clock?: Clock;
  /** Shared between providers; an own one when absent. */
  readonly dispatcher?: Dispatcher;
}

const sseLimits = { maxLineBytes: 1024 * 1024, maxBytes: 128 * 1024 * 1024 };
const maxJsonBytes = 10 * 1024 * 1024;
/** After the finish reason only the usage is missing: no reason to wait as long as for a token. */
const tailTimeoutMs = 5_000;

interface Connection {
  readonly options: OpenAiChatOptions;
  readonly client: OpenAI;
  readonly wire: WireOptions;
  readonly clock: Clock;
}

/**
 * Any server that speaks OpenAI's chat completions. One call makes one request: no retries. Throws `invalid_config` when
 * the base URL or the key is missing.
 */
export function createOpenAiChatProvider(options: OpenAiChatOptions): LlmProvider {
  const { id, baseUrl, apiKey, clock = systemClock } = options;
  if (!URL.canParse(baseUrl)) throw new RunError('invalid_config', `provider ${id} has no valid base URL`);
  if (!apiKey) throw new RunError('invalid_config', `provider ${id} has no API key`);
  const connection: Connection = {
    options,
    clock,
    client: createClient(options),
    wire: { provider: id, maxTokensField: isOpenAi(baseUrl) ? 'max_completion_tokens' : 'max_tokens' },
  };
  return {
    id,
    capabilities: { tools: true, reasoning: true },
    generate: (request, onPart, signal) => generate(connection, request, onPart, signal),
  };
}

/** Every setting is given, so that the client takes nothing from the environment of its own accord. */
function createClient(options: OpenAiChatOptions): OpenAI {
  return new OpenAI({
    baseURL: options.baseUrl,
    apiKey: 'given per request',
    adminAPIKey: null,
    organization: options.organization ?? null,
    project: null,
    webhookSecret: null,
    logLevel: 'off',
    maxRetries: 0,
    // The watchdog ends the wait first; this one covers the headers only.
    timeout: options.startTimeoutMs + 1_000,
    fetch: fetchThrough(options.dispatcher ?? createTransport()),
  });
}

function isOpenAi(baseUrl: string): boolean {
  return /(^|\.)openai\.(azure\.)?com$/.test(new URL(baseUrl).hostname);
}

async function generate(
  connection: Connection,
  request: LlmRequest,
  onPart: (part: LlmPart) => void,
  signal: AbortSignal,
): Promise<LlmAnswer> {
  const { clock } = connection;
  const { id, startTimeoutMs } = connection.options;
  if (signal.aborted) throw cancelledCall(id, signal);
  const stop = new AbortController();
  const onAbort = () => stop.abort(cancelledCall(id, signal));
  signal.addEventListener('abort', onAbort, { once: true });
  const watchdog = new Watchdog(clock, (limitMs) =>
    stop.abort(new LlmError('timeout', id, `provider ${id} was silent for ${limitMs} ms`)),
  );
  const fold = new ChatFold(id, onPart);
  try {
    watchdog.expect(startTimeoutMs);
    const response = await post(connection, request, stop.signal);
    await readAnswer(connection, response, fold, watchdog);
    if (signal.aborted) throw cancelledCall(id, signal);
    return fold.answer();
  } catch (thrown) {
    // The abort's own reason explains more than what the transport made of it: cancelled, or silence.
    const error: unknown = stop.signal.aborted ? stop.signal.reason : thrown;
    if (error instanceof LlmError) error.usage ??= fold.usage;
    throw error;
  } finally {
    watchdog.stop();
    signal.removeEventListener('abort', onAbort);
  }
}

async function post(connection: Connection, request: LlmRequest, signal: AbortSignal): Promise<StreamResponse> {
  const { client, options, wire, clock } = connection;
  const key = await resolveKey(options, signal);
  const headers = {
    Authorization: `Bearer ${key}`,
    'Idempotency-Key': request.idempotencyKey,
    'X-Client-Request-Id': request.requestId,
  };
  try {
    const response = await client.chat.completions.create(chatBody(request, wire), { headers, signal }).asResponse();
    return response as unknown as StreamResponse;
  } catch (thrown) {
    throw errorFromClient(options.id, thrown, clock.now());
  }
}

async function resolveKey({ id, apiKey }: OpenAiChatOptions, signal: AbortSignal): Promise<string> {
  if (typeof apiKey === 'string') return apiKey;
  const gone = Promise.withResolvers<never>();
  const onAbort = () => gone.reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    const key = await Promise.race([apiKey(), gone.promise]);
    if (key) return key;
  } catch {
    // Its text is kept out of the error below: what a secret store throws may hold the secret.
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
  throw new LlmError('auth', id, `the API key of provider ${id} could not be looked up`);
}

async function readAnswer(
  connection: Connection,
  response: StreamResponse,
  fold: ChatFold,
  watchdog: Watchdog,
): Promise<void> {
  const { id } = connection.options;
  const type = response.headers.get('content-type') ?? '';
  if (type.startsWith('text/html')) {
    discardBody(response.body);
    throw new LlmError('transport', id, `provider ${id} answered with a web page`);
  }
  const read = type.startsWith('application/json') ? readCompletion : readStream;
  const broken = await read(connection, response, fold, watchdog);
  // A connection that dies after the finish reason has taken nothing of the answer with it.
  if (fold.finished) return;
  if (broken) throw errorFromClient(id, broken, connection.clock.now());
  throw new LlmError('transport', id, `provider ${id} ended its answer without a finish reason`);
}

/** Resolves with what broke the stream off, or undefined. */
async function readStream({ options }: Connection, response: StreamResponse, fold: ChatFold, watchdog: Watchdog) {
  let phase: 'start' | 'parts' | 'tail' | 'done' = 'start';
  const splitter = new SseSplitter(sseLimits, (payload) => {
    if (payload.startsWith('[DONE]')) phase = 'done';
    else if (payload !== '' && phase !== 'done') fold.chunk(parseChunk(payload, options.id));
  });
  const broken = await readBody(response.body, (bytes) => {
    if (phase === 'start') {
      phase = 'parts';
      watchdog.expect(options.idleTimeoutMs);
    } else {
      watchdog.seen();
    }
    assertWithinLimits(splitter.push(bytes), options.id);
    if (phase === 'parts' && fold.finished) {
      phase = 'tail';
      watchdog.expect(Math.min(tailTimeoutMs, options.idleTimeoutMs));
    }
    return phase !== 'done';
  });
  if (!broken) splitter.end();
  return broken;
}

/** A server that does not stream: its whole answer comes out as parts all the same. */
async function readCompletion({ options }: Connection, response: StreamResponse, fold: ChatFold, watchdog: Watchdog) {
  const { id, idleTimeoutMs } = options;
  const chunks: Buffer[] = [];
  let bytes = 0;
  watchdog.expect(idleTimeoutMs);
  const broken = await readBody(response.body, (chunk) => {
    watchdog.seen();
    bytes += chunk.length;
    if (bytes > maxJsonBytes)
      throw new LlmError('transport', id, `the answer of provider ${id} is over ${maxJsonBytes} bytes`);
    chunks.push(chunk);
    return true;
  });
  if (!broken) fold.whole(parseChunk(Buffer.concat(chunks).toString('utf8'), id));
  return broken;
}

/** Throws the error that the chunk holds, or `transport` when it is not JSON. */
function parseChunk(json: string, provider: string): WireChunk {
  const chunk = jsonObject(json);
  // Without the cause: it quotes the text, which belongs to the user.
  if (!chunk) throw new LlmError('transport', provider, `provider ${provider} sent a chunk that is not a JSON object`);
  if (chunk.error) throw errorFromBody(provider, chunk.error);
  return chunk;
}

/** The one place where wire data is taken for a chunk: checking every chunk by a schema would cost more than reading it. */
function jsonObject(json: string): WireChunk | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function assertWithinLimits(verdict: SseVerdict, provider: string): void {
  if (verdict === 'ok') return;
  const limit = verdict === 'line' ? sseLimits.maxLineBytes : sseLimits.maxBytes;
  throw new LlmError('transport', provider, `a ${verdict} of provider ${provider} is over ${limit} bytes`);
}
