import OpenAI from 'openai';
import type { Dispatcher } from 'undici';
import { systemClock, type Clock } from '../../shared/clock.ts';
import { RunError } from '../../shared/errors.ts';
import { cancelledCall, LlmError } from './errors.ts';
import { errorFromClient } from './openai-errors.ts';
import { ChatFold } from './openai-fold.ts';
import { readAnswer } from './openai-read.ts';
import { chatBody, type WireOptions } from './openai-wire.ts';
import type { LlmAnswer, LlmPart, LlmProvider, LlmRequest } from './provider.ts';
import { createTransport, fetchThrough, type StreamResponse } from './transport.ts';
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
    await readAnswer(response, fold, watchdog, connection.options);
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
