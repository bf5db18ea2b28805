import type { Limits } from '../../shared/contract/agent/agent.ts';
import type { LoopGuard } from '../../shared/contract/agent/loop-guard.ts';
import type { Clock } from '../../shared/base/clock.ts';
import type { CommentaryMode } from '../../shared/contract/commentary.ts';
import type { ProtocolMode } from '../../shared/contract/agent/lateral-leak.ts';
import type { SteeringMessage } from '../../shared/contract/control.ts';
import type { RunError } from '../../shared/base/errors.ts';
import type { EventBody, FinishReason, Incomplete, PendingItem, SuspendReason } from '../../shared/contract/event.ts';
import { journalVersion, type JournalEntry } from '../../shared/contract/journal/journal.ts';
import type { MediaPart, MediaRequest } from '../../shared/contract/media.ts';
import type { Redactor } from '../../shared/base/redact.ts';
import type { Permit, PlannedAttempt } from '../llm/chain-call.ts';
import type { FallbackChain } from '../llm/fallback-chain.ts';
import type { LlmProvider, LlmRequest, MediaOffer } from '../llm/provider.ts';
import type { PlannedChild, PlannedRun } from '../tools/tool.ts';
import type { Ask } from '../../shared/contract/journal/turn-state.ts';
import type { ToolExecutor } from '../tools/execute/execute.ts';
import type { ModelPreferences } from './choose-model.ts';
import type { CompactionPolicy } from './compaction/policy.ts';
import type { CallFailure } from './next-move.ts';
import type { OutputRule } from './output.ts';
import type { PrepareStep } from './prepare-step.ts';
import type { JournalFold, TurnState } from '../../shared/contract/journal/fold.ts';

/** What becomes of the texts of models. Absent: nothing. */
export interface TextRule {
  /** Of those beside tool calls, where they leave the run. */
  readonly commentary?: Exclude<CommentaryMode, 'pass'> | undefined;
  /** Of control characters. */
  readonly protocol?: Exclude<ProtocolMode, 'off'> | undefined;
}

/** What a turn is asked to do. The same for every worker that continues it. */
export interface TurnSpec extends OutputRule, TextRule {
  /** Authored text; '' for none. */
  readonly system: string;
  /** Authored text for a system message of its own, from the first tool result on: the one before it stays as it is. */
  readonly dataPreamble?: string | undefined;
  /** The first model of the chain, and where the choice came from. */
  readonly model: string;
  readonly modelSource: string;
  readonly maxOutputTokens?: number | undefined;
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly stop?: readonly string[] | undefined;
  readonly reasoningEffort?: string | undefined;
  /** `strip`: what a model thought is never sent to one again. Default `keep`: within one provider it is. */
  readonly reasoningRetention?: 'keep' | 'strip' | undefined;
  /** What the agent and its tools wish for, beside `model`. */
  readonly preferences?: ModelPreferences | undefined;
  readonly limits: Limits;
  /** At a limit one last call, without tools, answers with what there is. */
  readonly closingAnswer?: boolean | undefined;
  /** Absent: runs may go in circles. */
  readonly loopGuard?: LoopGuard | undefined;
  /** Who is asked about a run that goes in circles. Absent: no person can be. */
  readonly people?: { readonly ttlMs: number; readonly approvers: number } | undefined;
  /** BCP 47: the language of what this system itself says to the model. Default: English. */
  readonly locale?: string | undefined;
  readonly toolFailure: CallFailure;
  readonly subagentFailure: CallFailure;
  /** Tools that exist but are not granted here: a call of one ends the turn with `tool_denied`. */
  readonly deniedTools?: readonly string[] | undefined;
  /** What becomes of the turn when no model answers. Default `fail`. */
  readonly llmFailure?: 'fail' | 'degrade' | undefined;
  /** Where no model may be called because of an open breaker: wait for its cooldown instead of failing. */
  readonly waitsForBreaker?: boolean | undefined;
  /** The bytes of a file of the conversation, for the provider that sends them. Absent: there are no files. */
  readonly readFile?: LlmRequest['readFile'];
  /** For the provider, beside what the request says by itself. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
}

/** The models of a run. */
export type ModelChain = Pick<FallbackChain, 'run'>;

/** What the operator's policy says about a model call. */
export type ModelCallVerdict = { readonly ruleId?: string | undefined } & (
  | { readonly action: 'allow' }
  | { readonly action: 'deny'; readonly reason: string }
);

/** A wait that must not hold a worker, thrown from inside a step and caught by the turn. */
export class TurnSuspension extends Error {
  readonly wait: SuspendedWait;

  constructor(wait: SuspendedWait) {
    super(`the run waits: ${wait.reason}`);
    this.name = 'TurnSuspension';
    this.wait = wait;
  }
}

/** What a suspended turn waits for. */
export interface SuspendedWait {
  readonly reason: SuspendReason;
  readonly pending: readonly PendingItem[];
  /** What people are asked about calls of the step. */
  readonly asks?: readonly Ask[];
  /** Runs that do calls of the step, to be started once the suspension is durable. */
  readonly children?: readonly PlannedChild[];
  /** Journalled in the same write, before the wait. */
  readonly entries?: readonly JournalEntry[];
  /** Published in the same write. */
  readonly events?: readonly EventBody[];
  /** Of an orchestration: all its children that run now, and how many events it has emitted by then. */
  readonly orchestration?: {
    readonly children: readonly PlannedRun[];
    readonly emitted: number;
    readonly group?: WaitingGroup;
  };
  /** Goes on by itself at this time, in milliseconds since the epoch. */
  readonly resumeAtMs?: number;
  /** Looks again after this many milliseconds, should whatever ends the wait get lost. Absent: only a person or money ends it. */
  readonly recheckMs?: number;
  /** Called once the suspension is durable, to join a wait queue. True: it can go on at once. */
  readonly joinWaitQueue?: () => Promise<boolean>;
}

/** Goes on when all of its runs have ended, or the `first` one has completed, and not whenever one has ended. */
export interface WaitingGroup {
  /** They begin one by one as others end. */
  readonly later: readonly PlannedRun[];
  readonly first: boolean;
}

/** Why a turn that could go on stops between two steps. */
export type StopReason = 'drain' | 'hand_over';

/** A model that makes media in place of an answer, and what is wanted of it. */
export interface MediaMaking {
  readonly provider: LlmProvider;
  readonly model: string;
  readonly offer: MediaOffer;
  readonly wanted: MediaRequest;
  /** What its agent gives at most. */
  readonly most?: { readonly count?: number | undefined; readonly seconds?: number | undefined };
  /** Keeps bytes and answers their SHA-256 in hex. */
  keep(bytes: Uint8Array, mediaType: string): Promise<string>;
}

/** Runs work that may kill the process under watch, so that a crash can be attributed to this run. */
export interface SuspectWork {
  /** Its calls wait until no other run is watched, so they must not be announced before. */
  readonly calls: boolean;
  run<T>(kind: 'model' | 'calls', work: () => Promise<T>): Promise<T>;
}

/** What a turn works with. It knows no run id, no queue and no Redis. */
export interface TurnDeps {
  readonly chain: ModelChain;
  readonly tools: ToolExecutor;
  /** There when the first model of the turn makes media: the turn is then one call of it, without chain and tools. */
  readonly media?: MediaMaking | undefined;
  /** Aborted, with the error of the limit, when no more than the closing call has time. */
  readonly landing?: AbortSignal | undefined;
  /** An account has a cap: money is held for the closing call. */
  readonly isCapped?: boolean | undefined;
  readonly clock: Clock;
  readonly redactor: Redactor;
  /** Takes one fact, in order. Called for every delta: it must not block or throw. */
  emit(body: EventBody): void;
  /**
   * Durable when it resolves, with what the turn does from now on where that changes. What was emitted just before belongs to
   * it. A rejection ends the turn with its error.
   */
  record(entries: readonly JournalEntry[], activity?: 'idle' | 'calls'): Promise<void>;
  /** There for a turn that may be what its last worker died of. */
  readonly suspect?: SuspectWork | undefined;
  /** Names a step's model call: the same for each retry, model and worker. */
  requestId(step: number): string;
  /** Once before each step's model call: a verdict of `deny` keeps it from being made. */
  readonly callPolicy?: ((step: number, state: TurnState) => Promise<ModelCallVerdict>) | undefined;
  /** Before each step's model call: what this one has to do. */
  readonly prepareStep?: PrepareStep | undefined;
  /** There when older messages may give way to a summary. */
  readonly compaction?: CompactionPolicy | undefined;
  /** Before each attempt. Throws `TurnSuspension` where the turn has to wait without a worker. */
  readonly admit?: ((planned: PlannedAttempt, signal: AbortSignal) => Promise<Permit>) | undefined;
  /** What the user has said beside what is `known`, by id. Asked before each step and before the end. */
  readonly readInbox?: ((known: ReadonlyMap<string, string>) => Promise<readonly SteeringMessage[]>) | undefined;
  /** Have people decided about calls of this run in a way that its journal does not know yet? */
  readonly decisionsCame?: (() => Promise<boolean>) | undefined;
  /** Is the model known to fail, so that it is not called for now? */
  isDown?(provider: string, model: string): boolean;
  /**
   * `drain`: stop once the current step is complete. `hand_over`: stop as soon as nothing would be interrupted; another
   * worker goes on.
   */
  stopRequested?(): StopReason | undefined;
}

/**
 * How a turn ended. Each is an expected end; `state` is what it ended with.
 *
 * - completed: the model gave its final answer. `degraded`: a tool or every model failed instead, or a person denied a call, and `text` says so
 * - failed: `engaged` says whether a provider was ever called, `partialText` is what subscribers saw last
 * - cancelled: wins over every other end; `partialText` as above
 * - stopped: nothing is wrong; the turn can go on from its journal
 * - handed_off: the agent `to` goes on with a turn of its own
 * - suspended: it waits, without a worker, for what `wait` says
 */
export type TurnOutcome = { readonly state: TurnState } & (
  | {
      readonly status: 'completed';
      readonly text: string;
      readonly finishReason: FinishReason;
      readonly structured?: unknown;
      /** What a program gives beside its text. */
      readonly output?: unknown;
      /** It could not begin, because something has to be known first. */
      readonly blocked?: true;
      /** In place of a text. */
      readonly media?: readonly MediaPart[];
      readonly emptyResponse: boolean;
      /** It is what a turn that reached a limit could say. */
      readonly incomplete?: Incomplete;
      readonly degraded: boolean;
    }
  | { readonly status: 'failed'; readonly error: RunError; readonly engaged: boolean; readonly partialText: string }
  | { readonly status: 'cancelled'; readonly partialText: string }
  | { readonly status: 'stopped'; readonly reason: StopReason }
  | { readonly status: 'handed_off'; readonly to: string }
  | { readonly status: 'suspended'; readonly wait: SuspendedWait }
);

/** A turn while it runs. */
export interface Turn {
  readonly spec: TurnSpec;
  readonly deps: TurnDeps;
  readonly signal: AbortSignal;
  readonly growing: JournalFold;
  /** The text that the current step has shown so far. */
  shownText: string;
  /** Before this step no summary is tried by itself: the last one failed. */
  restsUntilStep: number;
  /** The record says that calls of its step run here. */
  inCalls: boolean;
}

type NewEntry<E = JournalEntry> = E extends JournalEntry ? Omit<E, 'v'> : never;

/** Adds an entry to the state of the turn, and makes it durable with what was emitted just before. */
export async function recordEntry({ deps, growing }: Turn, given: NewEntry): Promise<void> {
  const entry = { v: journalVersion, ...given } as JournalEntry;
  growing.add(entry);
  await deps.record([entry]);
}
