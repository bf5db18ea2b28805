import type { ChildEnd } from '../control.ts';
import type { CompactionSource, FinishReason } from '../event.ts';
import type { Attempt } from './journal.ts';
import type { MediaPart } from '../media.ts';
import type { Message } from '../message.ts';
import type { RunUsage, Usage } from '../money.ts';
import type { TurnHandoff } from '../thread/turn-log.ts';
import type { StepCall } from './call.ts';
import type { ConversationState } from './conversation.ts';
import type { OrchestrationFacts } from './orchestration-facts.ts';

/** The model's last answer, as far as the loop needs it. */
export interface LastAnswer {
  readonly text: string;
  readonly finishReason: FinishReason;
  readonly usage: Usage;
}

export interface MediaJob {
  readonly provider: string;
  readonly model: string;
  readonly jobId: string;
  readonly submittedAtMs: number;
  readonly polls: number;
}

export interface TurnCounters {
  readonly llmCalls: number;
  readonly toolCalls: number;
  /** Steps whose model asked for tools. */
  readonly toolSteps: number;
  /** Steps in which the model made at least one mistake that it may repair. */
  readonly corrections: number;
}

export interface Compaction {
  /** Whose model call came next. */
  readonly step: number;
  readonly source: CompactionSource;
  readonly beforeTokens: number;
  readonly afterTokens: number;
  readonly summaryTokens: number;
  readonly durationMs: number;
  /** The agent's hooks have not been asked yet. */
  readonly hooksDue: boolean;
  /** What they add to that call. */
  readonly pinned: readonly string[];
}

/**
 * The state of a turn. Everything the loop decides, it decides from this, so that a turn that another worker continues
 * goes on exactly like one that was never interrupted.
 */
export interface TurnState extends ConversationState {
  /** The conversation. Results of the current step are added, in call order, once it has all of them. */
  readonly messages: readonly Message[];
  /** The last time that a summary took the place of messages. */
  readonly compaction: Compaction | undefined;
  /** Number of the last answered step; 0 before the first. */
  readonly step: number;
  /** Tool calls of that step, in the order of the model. */
  readonly calls: readonly StepCall[];
  /** How many of them have no result yet. */
  readonly openCalls: number;
  readonly answer: LastAnswer | undefined;
  readonly usage: RunUsage;
  readonly costMicrocents: number;
  readonly attempts: readonly Attempt[];
  readonly counters: TurnCounters;
  /** Deferred tools that the model has found, in that order. */
  readonly promoted: readonly string[];
  /** What people were asked in this run, by id. */
  readonly asked: ReadonlySet<string>;
  /** Who goes on after the last handoff. */
  readonly agentId: string | undefined;
  /** What this agent began with, where another worker might build another prompt. */
  readonly prompt: string | undefined;
  readonly handoffs: readonly TurnHandoff[];
  /** What the user wrote while the run worked, by id. */
  readonly steered: ReadonlyMap<string, string>;
  /** How the children of this run have ended. */
  readonly childEnds: ReadonlyMap<string, ChildEnd>;
  /** Calls whose outcome is not known, of all steps. */
  readonly unknownCalls: readonly Pick<StepCall, 'name' | 'args'>[];
  /** How many final answers were sent back. `repairing`: the last one, and the model has not answered again yet. */
  readonly repairs: number;
  readonly repairing: boolean;
  /** Who gave that answer. */
  readonly serving: { readonly provider: string; readonly model: string } | undefined;
  readonly sessionToken: string | undefined;
  readonly checkpointToken: string | undefined;
  /** How often the turn has waited without a worker. */
  readonly suspensions: number;
  /** It was suspended for want of money, and has not gone on since. */
  readonly awaitsMoney: boolean;
  /** What a person decided about the money of the step that comes next. */
  readonly budgetDecision: 'approve' | 'reject' | undefined;
  /** A provider works on this. `polls` counts the waits for it. */
  readonly mediaJob: MediaJob | undefined;
  /** What the turn has made in place of a text. */
  readonly media: readonly MediaPart[];
  /** How often it was tried again as a whole, when that last try may begin, and the attempts made before it. */
  readonly retries: number;
  readonly retryAtMs: number | undefined;
  readonly attemptsBeforeRetry: number;
  /** Of a run that is an orchestration instead of a turn. */
  readonly orchestration: OrchestrationFacts;
  /** The journal says that the turn has ended. */
  readonly finished: boolean;
}
