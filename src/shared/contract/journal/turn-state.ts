import type { Denial } from '../agent/lateral-leak.ts';
import type { ChildEnd, CallDecision } from '../control.ts';
import type { FinishReason } from '../event.ts';
import type { Attempt, JournalEntryOf } from './journal.ts';
import type { MediaPart } from '../media.ts';
import type { Message } from '../message.ts';
import type { RunUsage, Usage } from '../money.ts';
import type { TurnHandoff } from '../thread/turn-log.ts';
import type { ConversationState } from './conversation.ts';

/** What the model gets for a call: a tool's output, or an error text with its kind. */
export interface CallResult extends Readonly<
  Pick<
    JournalEntryOf<'tool_result'>,
    'content' | 'sensitivity' | 'errorKind' | 'correctable' | 'trust' | 'sanitized' | 'flow' | 'handoff'
  >
> {
  /** Deferred tools that the model may call from the next step on. */
  readonly promoted?: readonly string[] | undefined;
  /** Names of the patterns of instructions that were found in it. */
  readonly findings?: readonly string[] | undefined;
  /** Names where all of it can be read. */
  readonly handle?: string | undefined;
}

/**
 * How far a call of the current step is.
 *
 * - todo: nothing has happened, or only a call that may be repeated freely
 * - tool_intent: the intent is recorded, this worker runs it now
 * - interrupted: another worker recorded the intent and no result; whether it took effect is not known
 * - tool_result: the result is recorded and never changes
 */
type CallStatus = 'todo' | 'tool_intent' | 'interrupted' | 'tool_result';

/** What people were asked about the call with this index. `id` is unique within the run. */
export interface Ask {
  readonly id: string;
  readonly kind: 'approval' | 'user_input' | 'unknown_outcome';
  readonly index: number;
  readonly requestedAtMs: number;
  /** Undecided until then counts as denied. */
  readonly expiresAtMs: number;
  /** They were shown what the data-flow policy had found. */
  readonly flow?: true | undefined;
  /** Digest of what the server of the tool says about it, where the person decides about that, too. */
  readonly pin?: string | undefined;
}

/** What a person decided about a call. */
export type PersonDecision = Exclude<CallDecision, ChildEnd>;

/** The run that does a call, and how it ended. */
interface ChildCall {
  readonly id: string;
  readonly requestedAtMs: number;
  readonly end?: ChildEnd;
}

/** A call with a side effect that a script made. Its outcome is JSON text with its labels; without one it is not known. */
export interface InnerCall extends Readonly<
  Pick<JournalEntryOf<'inner_tool_result'>, 'trust' | 'sensitivity' | 'flow'>
> {
  readonly fingerprint: string;
  readonly outcome?: string;
}

/** A call whose outcome is not known; of one that a script made the journal has the fingerprint. */
export type UnknownCall = Pick<StepCall, 'name' | 'args'> | Pick<InnerCall, 'fingerprint'>;

/** One tool call of the current step. `args` is the model's own text, or what a person has put in its place. */
export interface StepCall {
  /** Position among the calls of its step, from 0: with the step it makes the idempotency key. */
  readonly index: number;
  readonly id: string;
  readonly name: string;
  readonly args: string;
  readonly status: CallStatus;
  /**
   * What this name meant for the model: `mcp:<server>/<tool>`, or null for code of the worker. Names of servers' tools may
   * change while a run waits. Absent: any tool of this name.
   */
  readonly source?: string | null;
  /** Set when the status is `tool_result`. */
  readonly result?: CallResult | undefined;
  /** When its intent was recorded. */
  readonly startedAtMs?: number | undefined;
  /** The last thing that people were asked about it, and what they decided. */
  readonly ask?: Ask;
  readonly decision?: PersonDecision;
  /** Another run does it. */
  readonly child?: ChildCall;
  /** Those of a script, by their number from 1. */
  readonly inner?: ReadonlyMap<number, InnerCall>;
  /** Its end was published. Ends are published in the order of the calls, so one may have to wait for others. */
  readonly endPublished?: true;
}

export interface MediaJob extends Readonly<Pick<JournalEntryOf<'submitted'>, 'provider' | 'model' | 'jobId'>> {
  readonly submittedAtMs: number;
  readonly polls: number;
}

export interface TurnCounters {
  readonly llmCalls: number;
  readonly toolCalls: number;
  /** Results that are errors. */
  readonly toolErrors: number;
  /** Steps whose model asked for tools. */
  readonly toolSteps: number;
  /** Steps in which the model made at least one mistake that it may repair. */
  readonly corrections: number;
}

/** What the loop guard has done so far. */
export interface LoopState {
  /** The last rung about each subject, and the step after which it was taken. */
  readonly rungs: ReadonlyMap<string, { readonly action: LoopEntry['action']; readonly step: number }>;
  /** Tools that the model may not call for the rest of the turn. */
  readonly withdrawn: readonly string[];
  /** Nothing up to this step counts any more: a person let the run go on. */
  readonly freshFrom: number;
  /** What a person is asked, until the run goes on. */
  readonly ask: LoopAsk | undefined;
  /** How often a person was asked. */
  readonly asks: number;
}

type LoopEntry = JournalEntryOf<'loop_guarded'>;

export interface LoopAsk extends Readonly<Pick<LoopEntry, 'pattern' | 'subject' | 'count'>> {
  readonly id: string;
  readonly requestedAtMs: number;
  readonly expiresAtMs: number;
  readonly decision?: PersonDecision;
}

export const noLoop: LoopState = { rungs: new Map(), withdrawn: [], freshFrom: 0, ask: undefined, asks: 0 };

type CompactionFacts = 'step' | 'source' | 'beforeTokens' | 'afterTokens' | 'summaryTokens' | 'durationMs';

export interface Compaction extends Readonly<Pick<JournalEntryOf<'compacted'>, CompactionFacts>> {
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
  /** The model's last one, as far as the loop needs it. */
  readonly answer: { readonly text: string; readonly finishReason: FinishReason; readonly usage: Usage } | undefined;
  readonly usage: RunUsage;
  readonly costMicrocents: number;
  readonly attempts: readonly Attempt[];
  readonly counters: TurnCounters;
  readonly loop: LoopState;
  /** It may hold money for a closing call. */
  readonly holdsMoney: boolean;
  /** The limit that it has reached, once its closing call was begun. */
  readonly closing:
    | (Pick<JournalEntryOf<'closing'>, 'reason' | 'error'> & {
        /** Children whose answers it did not wait for. */
        readonly left: readonly string[];
        readonly isAnswered: boolean;
      })
    | undefined;
  /** Deferred tools that the model has found, in that order. */
  readonly promoted: readonly string[];
  /** What people were asked in this run, by id. */
  readonly asked: ReadonlySet<string>;
  /** Who goes on after the last handoff. */
  readonly agentId: string | undefined;
  /** What this agent began with, where another worker might build another prompt. */
  readonly prompt: string | undefined;
  readonly handoffs: readonly TurnHandoff[];
  /** Values that people have put into the arguments of calls, as texts. */
  readonly edits: readonly string[];
  /** What the user wrote while the run worked, by id. */
  readonly steered: ReadonlyMap<string, string>;
  /** How the children of this run have ended. */
  readonly childEnds: ReadonlyMap<string, ChildEnd>;
  /** What was denied to the agents of this run, and to its children. */
  readonly denials: readonly Denial[];
  /** The part of it that the model could know of when it made the calls of its last step. */
  readonly knownDenials: readonly Denial[];
  /** Calls whose outcome is not known, of all steps. */
  readonly unknownCalls: readonly UnknownCall[];
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

/** One answer that an orchestration got. A replay gives it the same answers in the same order. */
export type OrchestrationFact = {
  readonly atMs: number;
  /** What was paid by then for steps that came to no answer. */
  readonly lostMicrocents: number;
  /** How long the run had been on workers by then, as far as the journal says. */
  readonly workedMs: number;
} & (
  | { readonly kind: 'step'; readonly key: string; readonly value: unknown }
  | { readonly kind: 'child'; readonly end: ChildEnd }
  | { readonly kind: 'decision'; readonly decision: PersonDecision }
);
type NewFact<F = OrchestrationFact> = F extends unknown ? Omit<F, 'lostMicrocents' | 'workedMs'> : never;

/** What an orchestration has done so far. */
interface OrchestrationFacts {
  readonly facts: readonly OrchestrationFact[];
  /** When each of its children was to begin, in milliseconds since the epoch. */
  readonly children: ReadonlyMap<string, number>;
  /** How many of its events are in the log. */
  readonly emitted: number;
  readonly lostMicrocents: number;
  readonly workedMs: number;
  /** Something was paid whose price is not known. */
  readonly unpriced: boolean;
}

/** Collects these facts from a journal. */
export class OrchestrationLog implements OrchestrationFacts {
  readonly facts: OrchestrationFact[] = [];
  readonly children = new Map<string, number>();
  emitted = 0;
  lostMicrocents = 0;
  workedMs = 0;
  unpriced = false;

  constructor(from?: OrchestrationFacts) {
    if (from) Object.assign(this, from, { facts: [...from.facts], children: new Map(from.children) });
  }

  addStep({ key, value, at, emitted, spent, workedMs }: JournalEntryOf<'orchestration_step'>): void {
    this.workedMs = workedMs ?? this.workedMs;
    this.#add({ kind: 'step', key, value, atMs: Date.parse(at) });
    this.emitted = emitted;
    this.unpriced ||= spent?.unpriced ?? false;
  }

  addEmitted({ emitted, spent }: JournalEntryOf<'orchestration_emitted'>): void {
    this.emitted = emitted;
    this.lostMicrocents += spent?.costMicrocents ?? 0;
    this.unpriced ||= spent?.unpriced ?? false;
  }

  addChildren({ at, children = [], emitted }: JournalEntryOf<'suspended'>): void {
    for (const id of children) if (!this.children.has(id)) this.children.set(id, Date.parse(at));
    this.emitted = emitted ?? this.emitted;
  }

  addChildEnd(end: ChildEnd, at: string): void {
    if (this.children.has(end.id)) this.#add({ kind: 'child', end, atMs: Date.parse(at) });
    if (end.next !== undefined && !this.children.has(end.next)) this.children.set(end.next, Date.parse(end.at));
  }

  addDecision(decision: PersonDecision, at: string): void {
    this.#add({ kind: 'decision', decision, atMs: Date.parse(at) });
  }

  #add(fact: NewFact): void {
    this.facts.push({ ...fact, lostMicrocents: this.lostMicrocents, workedMs: this.workedMs });
  }
}
