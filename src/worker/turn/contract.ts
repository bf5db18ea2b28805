import type { Limits } from '../../shared/agent.ts';
import type { Clock } from '../../shared/clock.ts';
import type { RunError } from '../../shared/errors.ts';
import type { EventBody, FinishReason, PendingItem } from '../../shared/event.ts';
import type { JournalEntry } from '../../shared/journal.ts';
import type { Redactor } from '../../shared/redact.ts';
import type { ChainRequest } from '../llm/candidate.ts';
import type { ChainCall, ChainResult } from '../llm/fallback-chain.ts';
import type { ToolExecutor } from '../tools/execute.ts';
import type { ToolFailure } from './next-move.ts';
import type { GrowingState, TurnState } from './state.ts';

/** What a turn is asked to do. The same for every worker that continues it. */
export interface TurnSpec {
  /** Authored text; '' for none. */
  readonly system: string;
  /** The first model of the chain, and where the choice came from: both only told, never acted on. */
  readonly model: string;
  readonly modelSource: string;
  readonly maxOutputTokens?: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly stop?: readonly string[];
  readonly reasoningEffort?: string;
  /** JSON Schema that the final answer has to match. */
  readonly outputSchema?: Readonly<Record<string, unknown>>;
  readonly limits: Limits;
  readonly toolFailure: ToolFailure;
  /** For the provider, beside what the request says by itself. */
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** The models of a run. */
export interface ModelChain {
  run(request: ChainRequest, call: ChainCall, signal: AbortSignal): Promise<ChainResult>;
}

/** Why a turn that could go on stops between two steps. */
export type StopReason = 'drain' | 'hand_over';

/** What a turn works with. It knows no run id, no queue and no Redis. */
export interface TurnDeps {
  readonly chain: ModelChain;
  readonly tools: ToolExecutor;
  readonly clock: Clock;
  readonly redactor: Redactor;
  /** Takes one fact, in order. Called for every delta: it must not block or throw. */
  emit(body: EventBody): void;
  /** Durable when it resolves. What was emitted just before belongs to it. A rejection ends the turn with its error. */
  record(entries: readonly JournalEntry[]): Promise<void>;
  /** Names a step's model call: the same for each retry, model and worker. */
  requestId(step: number): string;
  /** Once before each step's model call. A rejection ends the turn before anything is sent. */
  preEgress?(step: number, signal: AbortSignal): Promise<void>;
  /**
   * `drain`: stop once the current step is complete. `hand_over`: stop as soon as nothing would be interrupted; another
   * worker goes on.
   */
  stopRequested?(): StopReason | undefined;
}

/**
 * How a turn ended. Each is an expected end; `state` is what it ended with.
 *
 * - completed: the model gave its final answer. `degraded`: a tool failed instead, and `text` says so
 * - failed: `engaged` says whether a provider was ever called, `partialText` is what subscribers saw last
 * - cancelled: wins over every other end
 * - stopped: nothing is wrong; the turn can go on from its journal
 * - suspended: a person has to say what became of the pending calls
 */
export type TurnOutcome =
  | {
      readonly status: 'completed';
      readonly text: string;
      readonly finishReason: FinishReason;
      readonly structured?: unknown;
      readonly emptyResponse: boolean;
      readonly degraded: boolean;
      readonly state: TurnState;
    }
  | {
      readonly status: 'failed';
      readonly error: RunError;
      readonly engaged: boolean;
      readonly partialText: string;
      readonly state: TurnState;
    }
  | { readonly status: 'cancelled'; readonly state: TurnState }
  | { readonly status: 'stopped'; readonly reason: StopReason; readonly state: TurnState }
  | {
      readonly status: 'suspended';
      readonly reason: 'unknown_outcome';
      readonly pending: readonly PendingItem[];
      readonly state: TurnState;
    };

/** A turn while it runs. */
export interface Turn {
  readonly spec: TurnSpec;
  readonly deps: TurnDeps;
  readonly signal: AbortSignal;
  readonly growing: GrowingState;
  /** The text that the current step has shown so far. */
  shownText: string;
}
