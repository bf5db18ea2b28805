import type { FinishReason } from '../../shared/event.ts';
import type { AssistantMessage, Message } from '../../shared/message.ts';
import type { Usage } from '../../shared/money.ts';

/** What a provider can do. The chain skips a candidate that lacks what a request needs. */
export interface ProviderCapabilities {
  readonly tools: boolean;
  readonly reasoning: boolean;
}

/** A tool as it is advertised: its name and the JSON Schema of its arguments. */
export interface AdvertisedTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: Record<string, unknown>;
}

/** One model call, in nobody's wire format. Absent fields are not sent. Built by `turn/request.ts`. */
export interface LlmRequest {
  readonly model: string;
  /** The same for every retry and candidate of a step: `<runId>:step:<n>`. */
  readonly requestId: string;
  readonly idempotencyKey: string;
  readonly messages: readonly Message[];
  readonly tools?: readonly AdvertisedTool[];
  readonly toolChoice?: 'auto' | 'none' | { readonly name: string };
  readonly maxOutputTokens?: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly stop?: readonly string[];
  readonly reasoningEffort?: string;
  readonly responseFormat?: Record<string, unknown>;
  readonly sessionToken?: string;
  readonly checkpointToken?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** A piece of an answer while it streams. */
export type LlmPart =
  | { readonly type: 'text'; readonly delta: string }
  | { readonly type: 'reasoning'; readonly delta: string }
  | { readonly type: 'tool_call_start'; readonly id: string; readonly name: string }
  | { readonly type: 'tool_call_delta'; readonly id: string; readonly delta: string };

/** A whole answer. Only a stream that ended with a finish reason, and without an abort, becomes one. */
export interface LlmAnswer {
  /** Parts in the order reasoning, text, tool calls. */
  readonly message: AssistantMessage;
  /** As the provider said it, normalised. Whether tools run is decided by the message, not by this. */
  readonly finishReason: FinishReason;
  /** Tool calls whose arguments were still being written when the stream ended. They never run. */
  readonly incompleteToolCalls: readonly { readonly id: string; readonly name: string }[];
  /** Absent when the provider reported none. `input` is without cached tokens. */
  readonly usage?: Usage;
  /** The provider's own id of the call, for its support. */
  readonly providerRequestId?: string;
  readonly sessionToken?: string;
  readonly checkpointToken?: string;
}

/**
 * The port of the language model boundary. A custom provider is one file that implements it.
 *
 * `generate` pushes parts as they arrive and resolves with the whole answer. It makes exactly one call on the wire: no
 * retries, no fallback. It throws an `LlmError` (llm/errors.ts) for every failure, of kind `cancelled` once the signal
 * is aborted. It never resolves for a stream that broke off.
 */
export interface LlmProvider {
  readonly id: string;
  readonly capabilities: ProviderCapabilities;
  generate(request: LlmRequest, onPart: (part: LlmPart) => void, signal: AbortSignal): Promise<LlmAnswer>;
}
