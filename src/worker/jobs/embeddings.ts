import { unlessAborted } from '../../shared/base/deadline.ts';
import { RunError } from '../../shared/base/errors.ts';
import { cutText } from '../../shared/base/redact.ts';
import type { ProviderLimits } from '../../shared/contract/limits.ts';
import { textOf, userWords } from '../../shared/contract/message.ts';
import { zeroUsage } from '../../shared/contract/money.ts';
import type { PostrunJob } from '../../shared/contract/queues.ts';
import type { ThreadEventBody, NumberedEntry } from '../../shared/contract/thread/thread.ts';
import { asLlmError } from '../llm/candidate.ts';
import { costOf, promptTokensOf } from '../llm/cost.ts';
import { LlmError } from '../llm/errors.ts';
import type { LlmRequest } from '../llm/provider.ts';
import { failureOf, gateFor, type AuxiliaryCall, type AuxiliaryCallDeps } from './auxiliary-call.ts';

/** A message with its vector. */
export interface EmbeddedMessage {
  readonly tenant: string;
  readonly threadId: string;
  readonly agentId: string;
  readonly runId: string;
  /** The number of its entry in the log of the thread. */
  readonly seq: number;
  readonly role: 'user' | 'assistant';
  readonly text: string;
  readonly vector: readonly number[];
}

/** Makes vectors of messages of threads, and stores them. The operator provides it; without one there are no vectors. */
export interface Embedder {
  /** Of the provider, for limits, breakers and costs. */
  readonly id: string;
  readonly model: string;
  /** Absent: unpriced. */
  readonly microcentsPerMillionTokens?: number;
  readonly limits?: ProviderLimits;
  /** One vector for each text, in their order. One request: it is paid for and counted as one. */
  embed(
    texts: readonly string[],
    signal: AbortSignal,
  ): Promise<{ readonly vectors: readonly (readonly number[])[]; readonly inputTokens?: number }>;
  /** Stores them. The same messages may come again. */
  keep(messages: readonly EmbeddedMessage[], signal: AbortSignal): Promise<void>;
}

/** Entries at the end of a thread in which those of the run are searched. */
const maxEntries = 200;
const maxTextBytes = 24_000;

export interface EmbeddingDeps extends AuxiliaryCallDeps {
  /** Absent: nothing is embedded. */
  readonly embedder?: Embedder | undefined;
}

/** Vectors of the last user message of the run and of its answer. */
export async function embedMessages(
  { tenant, threadId, agentId, runId }: PostrunJob,
  call: AuxiliaryCall,
  { embedder, ...deps }: EmbeddingDeps,
  signal: AbortSignal,
): Promise<ThreadEventBody | undefined> {
  if (!embedder) return undefined;
  const { entries } = await deps.ports.threads.read(tenant, threadId, { limit: maxEntries, order: 'desc' });
  const messages = entries.filter(({ entry }) => entry.runId === runId).flatMap(messageIn);
  const last = (['user', 'assistant'] as const).flatMap((role) => messages.find((one) => one.role === role) ?? []);
  if (last.length === 0) return undefined;
  const texts = last.map(({ text }) => text);
  const vectors = await embedTexts(call, texts, embedder, deps, signal);
  const about = { tenant, threadId, agentId, runId };
  const embedded = last.map((one, index) => ({ ...about, ...one, vector: vectors[index] ?? [] }));
  await embedder.keep(embedded, signal);
  return { type: 'thread.embedding_done', model: embedder.model, messages: embedded.length };
}

function messageIn({ seq, entry }: NumberedEntry): { seq: number; role: 'user' | 'assistant'; text: string }[] {
  if (entry.t !== 'message' || entry.byRuntime || entry.message.role === 'tool') return [];
  const { message } = entry;
  const text = message.role === 'user' ? userWords(message) : textOf(message);
  return text === '' ? [] : [{ seq, role: message.role, text: cutText(text, maxTextBytes) }];
}

/** Has the embedder make vectors of texts, one for each. Throws as `askModel` does. */
async function embedTexts(
  call: AuxiliaryCall,
  texts: readonly string[],
  embedder: Embedder,
  deps: AuxiliaryCallDeps,
  signal: AbortSignal,
): Promise<readonly (readonly number[])[]> {
  const { id, model, limits, microcentsPerMillionTokens: rate } = embedder;
  const price = rate === undefined ? undefined : { input: rate, output: 0, cached: 0, cacheWrite: 0 };
  const request: LlmRequest = {
    model,
    requestId: call.requestId,
    idempotencyKey: call.requestId,
    messages: texts.map((content) => ({ role: 'user', content })),
    maxOutputTokens: 0,
  };
  const gate = await gateFor(call, deps);
  const provider = { id, limitsOf: () => limits };
  const priced = price !== undefined;
  try {
    const permit = await gate.admit({ step: 1, provider, attemptNumber: 1, price, request, optional: true }, signal);
    if (permit.kind === 'skip') throw new LlmError('overloaded', id, `embedder ${id} is not called for now`);
    try {
      signal.throwIfAborted();
      // An embedder is code of the operator's, and may not listen to the signal.
      const embedded = await unlessAborted(embedder.embed(texts, signal), signal);
      const { vectors, inputTokens: input = promptTokensOf(request) } = embedded;
      const usage = { ...zeroUsage, input, total: input };
      await permit.settle({ usage, costMicrocents: price ? costOf(usage, price) : 0, priced, rateLimit: undefined });
      if (vectors.length === texts.length) return vectors;
    } catch (thrown) {
      const error = asLlmError(thrown, id, signal);
      await permit.settle({ usage: undefined, costMicrocents: 0, priced, rateLimit: undefined, error });
      throw error;
    }
    throw new RunError('provider_unavailable', `embedder ${id} did not answer one vector for each text`);
  } catch (thrown) {
    throw failureOf(thrown);
  }
}
