import { z } from 'zod';
import { defined } from '../../shared/base/collections.ts';
import type { FinishReason } from '../../shared/contract/event.ts';
import type { AssistantMessage, Message, Sensitivity } from '../../shared/contract/message.ts';
import type { InputFile } from '../../shared/contract/input-parts.ts';
import type { ProviderLimits, RateLimitReport } from '../../shared/contract/limits.ts';
import type { MediaModality } from '../../shared/contract/media.ts';
import type { Usage } from '../../shared/contract/money.ts';

/** What a model reads. */
export const inputKind = z.enum(['text', 'image', 'pdf']);
export type InputKind = z.infer<typeof inputKind>;
export const allInputKinds = inputKind.options;

/** What a provider can do. The chain skips a candidate that lacks what a request needs. */
export interface ProviderCapabilities {
  readonly tools: boolean;
  readonly reasoning: boolean;
  /** `false`: `generate` emits no parts. Its text is then emitted in pieces once the answer is whole. Default: true. */
  readonly streaming?: boolean;
  /** It fetches files by their URL, not only images. Default: false. */
  readonly fileUrls?: boolean;
  /** It keeps to `responseFormat`. Otherwise the wanted shape is also described in words. Default: false. */
  readonly responseFormat?: boolean;
}

/** A tool as it is advertised: its name and the JSON Schema of its arguments. */
export interface AdvertisedTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: Record<string, unknown>;
}

/** One model call, in no provider's wire format. Absent fields are not sent. Built by `turn/request.ts`. */
export interface LlmRequest {
  readonly model: string;
  /** The same for every retry and candidate of a step: `<runId>:step:<n>`. */
  readonly requestId: string;
  readonly idempotencyKey: string;
  /** Another candidate than the first of the plan is asked: adapters distinguish the two in what they send as the key. */
  readonly isFallback?: boolean;
  /** Those of users may have files: images and PDFs. The text of other files stands in their content already. */
  readonly messages: readonly Message[];
  /** The bytes of a file of a message, when they are sent. Undefined: they are not there any more. Absent: no message has one. */
  readonly readFile?: (file: InputFile, signal: AbortSignal) => Promise<Uint8Array | undefined>;
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

export type LlmPart =
  | { readonly type: 'text'; readonly delta: string }
  | { readonly type: 'reasoning'; readonly delta: string }
  | { readonly type: 'tool_call_start'; readonly id: string; readonly name: string }
  | { readonly type: 'tool_call_delta'; readonly id: string; readonly delta: string }
  /** The provider runs a tool of its own, somewhere else. Never executed here. */
  | { readonly type: 'tool_relayed_call'; readonly id: string; readonly name: string; readonly args: unknown }
  | { readonly type: 'tool_relayed_result'; readonly id: string; readonly output: string; readonly isError: boolean };

/** A whole answer. Only a stream that ended with a finish reason, and without an abort, becomes one. */
export interface LlmAnswer {
  /** Parts in the order reasoning, text, tool calls. */
  readonly message: AssistantMessage;
  /** As the provider reported it, normalised. Whether tools run is decided by the message, not by this. */
  readonly finishReason: FinishReason;
  /** Tool calls whose arguments were still being written when the stream ended. They never run. */
  readonly incompleteToolCalls: readonly { readonly id: string; readonly name: string }[];
  /** Absent when the provider reported none. `input` is without cached tokens. */
  readonly usage?: Usage;
  /** The provider's own id of the call, for its support. */
  readonly providerRequestId?: string;
  readonly sessionToken?: string;
  readonly checkpointToken?: string;
  /** Of the headers of the answer. */
  readonly rateLimit?: RateLimitReport;
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
  /** Texts that may be sent to it. Absent: only public ones. */
  readonly acceptsSensitivity?: readonly Sensitivity[];
  /** Names the credential for limits shared by the fleet, without revealing it. Absent: the provider's id. */
  readonly credential?: string;
  /** The credentials that it works with, as far as it knows them by now: they are masked in whatever a run makes. */
  secrets?(): readonly string[];
  /** What it allows for this model. Absent: unlimited as far as we know. */
  limitsOf?(model: string): ProviderLimits | undefined;
  /** Tokens of prompt and answer together that this model takes. Absent: not known. */
  contextWindowOf?(model: string): number | undefined;
  /** What this model reads. Absent, or undefined: text alone, so that no file is left out in silence. */
  inputOf?(model: string): readonly InputKind[] | undefined;
  generate(request: LlmRequest, onPart: (part: LlmPart) => void, signal: AbortSignal): Promise<LlmAnswer>;
  /** What this model makes, by the operator's configuration. Absent: it is a chat model, whatever its name. */
  mediaOf?(model: string): MediaOffer | undefined;
  readonly media?: MediaPort;
}

export interface MediaOffer {
  readonly modality: MediaModality;
  /** Price of an image, or of a second of sound or video. Absent: not known. */
  readonly unitMicrocents?: number;
}

/** One call for media. `seconds` is there for sound and video only. */
export interface MediaCall {
  readonly model: string;
  readonly requestId: string;
  readonly idempotencyKey: string;
  readonly modality: MediaModality;
  readonly prompt: string;
  readonly count: number;
  readonly seconds?: number;
  readonly size?: string;
}

export interface MediaBytes {
  readonly bytes: Uint8Array;
  /** For instance `image/png`. */
  readonly mediaType: string;
}

/** Either what was made, or the job that makes it. */
export type MediaStart =
  | { readonly media: readonly MediaBytes[]; readonly jobId?: undefined }
  | { readonly jobId: string; readonly media?: undefined };

/**
 * The part of a provider that makes media. Like `generate`: one call on the wire, no retries, an `LlmError` for every
 * failure. A failed job is one that `pollMedia` throws for.
 */
export interface MediaPort {
  generateMedia(call: MediaCall, signal: AbortSignal): Promise<MediaStart>;
  /** The media of a job that is done, or undefined while it works. Needed where `generateMedia` answers with jobs. */
  pollMedia?(jobId: string, signal: AbortSignal): Promise<readonly MediaBytes[] | undefined>;
}

/** The same provider with another way to make a call. Nothing else of it is touched or shared out. */
export function wrapProvider(provider: LlmProvider, generate: LlmProvider['generate']): LlmProvider {
  const { id, capabilities, acceptsSensitivity, credential, media } = provider;
  return {
    id,
    capabilities,
    ...defined({ acceptsSensitivity, credential, media }),
    ...defined({
      secrets: provider.secrets?.bind(provider),
      limitsOf: provider.limitsOf?.bind(provider),
      contextWindowOf: provider.contextWindowOf?.bind(provider),
      inputOf: provider.inputOf?.bind(provider),
      mediaOf: provider.mediaOf?.bind(provider),
    }),
    generate,
  };
}
