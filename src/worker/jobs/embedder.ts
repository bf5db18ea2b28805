import type { ProviderLimits } from '../../shared/contract/limits.ts';

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
