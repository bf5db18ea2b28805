import { unlessAborted } from '../../../shared/base/deadline.ts';
import { defined } from '../../../shared/base/collections.ts';
import OpenAI from 'openai';
import type { Dispatcher } from 'undici';
import { systemClock, type Clock } from '../../../shared/base/clock.ts';
import { sha256 } from '../../../shared/base/ids.ts';
import { RunError } from '../../../shared/base/errors.ts';
import type { ProviderLimits, RateLimitReport } from '../../../shared/contract/limits.ts';
import type { Sensitivity } from '../../../shared/contract/message.ts';
import { Redactor } from '../../../shared/base/redact.ts';
import { sensitivityAt } from '../base-url.ts';
import { cancelledCall, LlmError } from '../errors.ts';
import { errorFromClient, requestIdOf } from './errors.ts';
import { readAnswer, type AnswerFold, type WireObject } from './read.ts';
import {
  allInputKinds,
  type InputKind,
  type LlmAnswer,
  type LlmPart,
  type LlmProvider,
  type LlmRequest,
} from '../provider.ts';
import { rateLimitOf, createTransport, fetchThrough, type StreamResponse } from './transport.ts';
import { watched } from '../watchdog.ts';
import { wireFilesOf, type WireFiles } from './user-parts.ts';

export interface OpenAiOptions {
  /** Name of the provider in attempts, errors and reasoning. */
  readonly id: string;
  /** With its version path, for instance `https://api.openai.com/v1`. */
  readonly baseUrl: string;
  /** A function is asked at every attempt; what it throws is never shown. */
  readonly apiKey: string | (() => Promise<string> | string);
  /** Names the key for limits that the fleet shares. Default: by base URL and key, or by the id of a key that is asked for. */
  readonly credential?: string | undefined;
  readonly organization?: string | undefined;
  /** Longest wait for the first byte of an answer, connecting included. */
  readonly startTimeoutMs: number;
  /** Longest silence within an answer. Comments that keep the connection open are no silence. */
  readonly idleTimeoutMs: number;
  /** Default: tools and reasoning. */
  readonly capabilities?:
    | { readonly [K in 'tools' | 'reasoning' | 'responseFormat']?: boolean | undefined }
    | undefined;
  /** `false`: the server cannot stream and is asked for answers in one piece, whose parts are emitted all the same. */
  readonly streams?: boolean | undefined;
  /** Default: by the base URL, see `sensitivityAt`. */
  readonly acceptsSensitivity?: readonly Sensitivity[] | undefined;
  readonly limitsOf?: ((model: string) => ProviderLimits | undefined) | undefined;
  /** What a model reads, where that is known. Default: text, images and PDFs; a server that refuses one says so itself. */
  readonly inputOf?: ((model: string) => readonly InputKind[] | undefined) | undefined;
  /** Header that carries the idempotency key, default `Idempotency-Key`. `false`: none. */
  readonly idempotencyHeader?: string | false | undefined;
  /** The server takes the run's metadata; strict servers refuse it. Default: not sent. */
  readonly sendsMetadata?: boolean | undefined;
  readonly clock?: Clock;
  /** Shared between providers; an own one when absent. */
  readonly dispatcher?: Dispatcher;
}

/** One of OpenAI's interfaces: how a call is asked for and how its answer is put together. */
export interface OpenAiInterface<Chunk extends WireObject> {
  /** Resolves with the headers of the response; its body is not read. */
  send(
    client: OpenAI,
    request: LlmRequest,
    files: WireFiles,
    options: SendOptions,
  ): { asResponse(): Promise<Response> };
  fold(onPart: (part: LlmPart) => void): AnswerFold<Chunk>;
}

interface SendOptions {
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

interface Connection<Chunk extends WireObject> {
  readonly options: OpenAiOptions;
  readonly wire: OpenAiInterface<Chunk>;
  readonly client: OpenAI;
  readonly clock: Clock;
  /** That were used, newest last. */
  readonly keys: Set<string>;
}

/** Of keys that are renewed, an answer may still contain the one before. */
const maxKeys = 10;

/** A server that speaks this interface. Throws `invalid_config` when the base URL or the key is missing. */
export function createOpenAiProvider<Chunk extends WireObject>(
  options: OpenAiOptions,
  wire: OpenAiInterface<Chunk>,
): LlmProvider {
  const { id, baseUrl, apiKey, clock = systemClock, capabilities, limitsOf } = options;
  if (!URL.canParse(baseUrl)) throw new RunError('invalid_config', `provider ${id} has no valid base URL`);
  if (!apiKey) throw new RunError('invalid_config', `provider ${id} has no API key`);
  const connection: Connection<Chunk> = { options, wire, clock, client: createClient(options), keys: new Set() };
  return {
    id,
    capabilities: { tools: true, reasoning: true, responseFormat: false, ...defined({ ...capabilities }) },
    acceptsSensitivity: options.acceptsSensitivity ?? sensitivityAt(baseUrl),
    credential: options.credential ?? credentialOf(baseUrl, typeof apiKey === 'string' ? apiKey : `provider ${id}`),
    ...defined({ limitsOf }),
    inputOf: (model) => options.inputOf?.(model) ?? allInputKinds,
    secrets: () => [...connection.keys],
    generate: (request, onPart, signal) => generate(connection, request, onPart, signal),
  };
}

/** Two providers with one key at one server share its limits. Reveals nothing of the key. */
export function credentialOf(baseUrl: string, secret: string): string {
  const { origin, pathname } = new URL(baseUrl);
  const account = `${origin}${pathname.replace(/\/+$/, '')}\n${secret}`;
  return sha256(account).slice(0, 16);
}

/** Every setting is given, so that the client takes nothing from the environment of its own accord. */
export function createClient(options: OpenAiOptions): OpenAI {
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

async function generate<Chunk extends WireObject>(
  connection: Connection<Chunk>,
  request: LlmRequest,
  onPart: (part: LlmPart) => void,
  signal: AbortSignal,
): Promise<LlmAnswer> {
  const { clock, options, wire } = connection;
  const { id, startTimeoutMs, idleTimeoutMs } = options;
  if (signal.aborted) throw cancelledCall(id, signal);
  return await watched({ id, who: `provider ${id}`, clock }, signal, async (watchdog, stop) => {
    const fold = wire.fold(onPart);
    let key: string | undefined;
    let rateLimit: RateLimitReport | undefined;
    let providerRequestId: string | undefined;
    try {
      watchdog.expect(startTimeoutMs);
      key = await resolveKey(options, stop);
      remember(key, connection.keys);
      const response = await post(connection, request, key, stop);
      rateLimit = rateLimitOf(response.headers);
      providerRequestId = requestIdOf(response.headers);
      await readAnswer({ response, fold, watchdog, id, idleTimeoutMs });
      if (signal.aborted) throw cancelledCall(id, signal);
      return { ...fold.answer(), ...defined({ rateLimit, providerRequestId }) };
    } catch (thrown) {
      // The abort's own reason explains more than what the transport made of it: cancelled, or silence.
      const error: unknown = stop.aborted ? stop.reason : thrown;
      if (error instanceof LlmError) {
        error.usage ??= fold.usage;
        error.rateLimit ??= rateLimit;
        error.providerRequestId ??= providerRequestId;
        // Servers quote the key that they refuse.
        error.message = new Redactor([key]).text(error.message);
      }
      throw error;
    }
  });
}

function remember(key: string, keys: Set<string>): void {
  keys.add(key);
  for (const oldest of keys) {
    if (keys.size <= maxKeys) return;
    keys.delete(oldest);
  }
}

async function post<Chunk extends WireObject>(
  { client, options, wire, clock }: Connection<Chunk>,
  request: LlmRequest,
  key: string,
  signal: AbortSignal,
): Promise<StreamResponse> {
  const { idempotencyHeader = 'Idempotency-Key' } = options;
  const { requestId, idempotencyKey, model, isFallback } = request;
  const headers: Record<string, string> = { Authorization: `Bearer ${key}`, 'X-Client-Request-Id': requestId };
  // A server that compares bodies refuses one key for two models.
  if (idempotencyHeader !== false) headers[idempotencyHeader] = idempotencyKey + (isFallback ? `:${model}` : '');
  const files = await wireFilesOf(request, options.id, signal);
  try {
    const response = await wire.send(client, request, files, { headers, signal }).asResponse();
    return response as unknown as StreamResponse;
  } catch (thrown) {
    throw errorFromClient(options.id, thrown, clock.now());
  }
}

export async function resolveKey({ id, apiKey }: OpenAiOptions, signal: AbortSignal): Promise<string> {
  if (typeof apiKey === 'string') return apiKey;
  try {
    const key = await unlessAborted(apiKey(), signal);
    if (key) return key;
  } catch {
    // Its text is kept out of the error below: what a secret store throws may contain the secret.
  }
  throw new LlmError('auth', id, `the API key of provider ${id} could not be looked up`);
}
