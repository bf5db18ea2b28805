import { assertNever, RunError } from '../../shared/errors.ts';
import type { ChildEnd } from '../../shared/control.ts';
import type { FinishReason } from '../../shared/event.ts';
import type { Attempt, JournalEntry, JournalEntryOf } from '../../shared/journal.ts';
import { textOf, toolCallsOf, type Message } from '../../shared/message.ts';
import type { MediaPart } from '../../shared/media.ts';
import { zeroUsage, type RunUsage, type Usage } from '../../shared/money.ts';
import { addAttempt, addRunUsage, emptyRunUsage } from '../llm/cost.ts';
import type { InnerCall, StepCall } from '../tools/call.ts';
import { filterFrom } from './handoff-filters.ts';
import { repairRequest } from './output.ts';

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
  /** Steps in which the model made at least one mistake that it may mend. */
  readonly corrections: number;
}

/**
 * Where a turn stands. Everything the loop decides, it decides from this, so that a turn that another worker continues
 * goes on exactly like one that was never interrupted.
 */
export interface TurnState {
  /** The conversation. Results of the current step are added, in call order, once it has all of them. */
  readonly messages: readonly Message[];
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
  /** Who goes on after the last handoff, and how many there were. */
  readonly agentId: string | undefined;
  readonly handoffs: number;
  /** How the runs that worked for this one have ended. */
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
  /** How often the turn has waited without a worker, and for how many milliseconds. */
  readonly suspensions: number;
  readonly suspendedMs: number;
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
  /** The journal says that the turn is over. */
  readonly finished: boolean;
}

/** What a provider remembers of a conversation from an earlier turn. */
export interface KnownSession {
  readonly provider: string;
  readonly model: string;
  readonly sessionToken?: string | undefined;
  readonly checkpointToken?: string | undefined;
}

/**
 * The state after a whole journal or any beginning of one. `initial` is the conversation before the first answer, the
 * user's message included; `session` is what a provider knows of it. Throws `run_state_malformed` for entries that cannot follow each other.
 */
export function foldJournal(
  initial: readonly Message[],
  entries: Iterable<JournalEntry>,
  session?: KnownSession,
): TurnState {
  const growing = new GrowingState(initial, undefined, session);
  for (const entry of entries) growing.add(entry);
  return growing.state;
}

/** A state that another worker left, ready to grow: calls that it had begun are in doubt from now on. */
export function continueFrom(left: TurnState): GrowingState {
  return new GrowingState(left.messages, {
    ...left,
    calls: left.calls.map((call) => (call.status === 'calling' ? { ...call, status: 'interrupted' } : call)),
  });
}

/** Does the current step wait for results of calls? Then no model call can be under way. */
export function hasOpenCalls(state: TurnState): boolean {
  return state.openCalls > 0;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Builds a state entry by entry. The copies that it makes do not depend on how long the turn already is. */
export class GrowingState {
  readonly #messages: Message[];
  readonly #attempts: Attempt[];
  readonly #unknown: Pick<StepCall, 'name' | 'args'>[];
  readonly #promoted: string[];
  readonly #asked: Set<string>;
  readonly #childEnds: Map<string, ChildEnd>;
  readonly #state: Mutable<TurnState>;
  #calls: StepCall[];
  #corrected: boolean;
  #suspendedAt: number | undefined;

  constructor(messages: readonly Message[], from?: TurnState, session?: KnownSession) {
    this.#messages = [...messages];
    this.#attempts = [...(from?.attempts ?? [])];
    this.#unknown = [...(from?.unknownCalls ?? [])];
    this.#promoted = [...(from?.promoted ?? [])];
    this.#asked = new Set(from?.asked);
    this.#childEnds = new Map(from?.childEnds);
    this.#calls = [...(from?.calls ?? [])];
    this.#corrected = this.#calls.some((call) => call.result?.correctable);
    this.#state = {
      step: 0,
      openCalls: 0,
      answer: undefined,
      repairs: 0,
      repairing: false,
      usage: emptyRunUsage,
      costMicrocents: 0,
      counters: { llmCalls: 0, toolCalls: 0, toolSteps: 0, corrections: 0 },
      serving: session && { provider: session.provider, model: session.model },
      sessionToken: session?.sessionToken,
      checkpointToken: session?.checkpointToken,
      suspensions: 0,
      suspendedMs: 0,
      budgetDecision: undefined,
      mediaJob: undefined,
      media: [],
      retries: 0,
      retryAtMs: undefined,
      attemptsBeforeRetry: 0,
      finished: false,
      agentId: undefined,
      handoffs: 0,
      ...from,
      messages: this.#messages,
      attempts: this.#attempts,
      unknownCalls: this.#unknown,
      promoted: this.#promoted,
      asked: this.#asked,
      childEnds: this.#childEnds,
      calls: this.#calls,
    };
  }

  /** A live view: it changes with every entry that is added. */
  get state(): TurnState {
    return this.#state;
  }

  add(entry: JournalEntry): void {
    switch (entry.t) {
      case 'opened':
        return;
      case 'answered':
        return this.#answered(entry);
      case 'attempted':
        this.#state.mediaJob = undefined;
        return this.#paid(entry.attempts);
      case 'calling':
        return this.#calling(entry);
      case 'called':
        return this.#called(entry);
      case 'inner_calling':
        return this.#innerCall(entry, { fingerprint: entry.fingerprint });
      case 'inner_called': {
        const begun = this.#callOf(entry, entry.index).inner?.get(entry.number);
        if (!begun) throw malformed(entry);
        return this.#innerCall(entry, { ...begun, outcome: entry.outcome });
      }
      case 'handed_off':
        return this.#handedOff(entry);
      case 'repair':
        return this.#repair(entry);
      case 'suspended':
        return this.#suspended(entry);
      case 'decided':
        return this.#decided(entry);
      case 'submitted':
        return this.#submitted(entry);
      case 'generated':
        return this.#generated(entry);
      case 'retrying':
        return this.#retrying(entry);
      case 'closed':
        this.#state.finished = true;
        return;
      default:
        assertNever(entry);
    }
  }

  #answered(entry: JournalEntryOf<'answered'>): void {
    if (entry.step !== this.#state.step + 1 || this.#state.openCalls > 0) throw malformed(entry);
    this.#paid(entry.attempts);
    this.#messages.push(entry.message);
    const asked = toolCallsOf(entry.message);
    this.#calls = asked.map(({ id, name, args }, index) => ({ index, id, name, args, status: 'todo' }));
    this.#corrected = false;
    const { counters, serving } = this.#state;
    const isSame = serving?.provider === entry.provider && serving.model === entry.model;
    Object.assign(this.#state, {
      step: entry.step,
      calls: this.#calls,
      openCalls: asked.length,
      repairing: false,
      answer: { text: textOf(entry.message), finishReason: entry.finishReason, usage: entry.usage },
      counters: {
        llmCalls: counters.llmCalls + 1,
        toolCalls: counters.toolCalls + asked.length,
        toolSteps: counters.toolSteps + (asked.length > 0 ? 1 : 0),
        corrections: counters.corrections,
      },
      serving: { provider: entry.provider, model: entry.model },
      // An answer without tokens leaves those before it in force; another model's answer leaves their session behind.
      sessionToken: entry.sessionToken ?? (isSame ? this.#state.sessionToken : undefined),
      checkpointToken: entry.checkpointToken ?? (isSame ? this.#state.checkpointToken : undefined),
      budgetDecision: undefined,
    } satisfies Partial<TurnState>);
  }

  #suspended({ at, seq, reason, asks = [] }: JournalEntryOf<'suspended'>): void {
    this.#suspendedAt = Date.parse(at);
    this.#state.suspensions = seq;
    if (reason === 'media') this.#polledLater();
    for (const { index, id, kind, requestedAt, expiresAt } of asks) {
      const { decision: _, ...call } = this.#calls[index] ?? missingCall(index);
      if (kind === 'child') {
        const child = { id, requestedAtMs: Date.parse(requestedAt) };
        this.#calls[index] = { ...(this.#calls[index] as StepCall), status: 'todo', child };
        continue;
      }
      this.#asked.add(id);
      this.#calls[index] = {
        ...call,
        // What was asked is asked before anything happens, or because nobody knows what has happened.
        status: kind === 'unknown_outcome' ? 'interrupted' : 'todo',
        ask: { id, kind, index, requestedAtMs: Date.parse(requestedAt), expiresAtMs: Date.parse(expiresAt) },
      };
    }
    if (asks.length === 0) return;
    for (const [index, call] of this.#calls.entries()) {
      if (call.status === 'called') this.#calls[index] = { ...call, told: true };
    }
  }

  #decided({ at, budget, decisions = [] }: JournalEntryOf<'decided'>): void {
    if (this.#suspendedAt !== undefined) this.#state.suspendedMs += Math.max(0, Date.parse(at) - this.#suspendedAt);
    this.#suspendedAt = undefined;
    if (budget) this.#state.budgetDecision = budget;
    for (const decision of decisions) {
      if (decision.kind === 'child') {
        this.#childEnded(decision);
        continue;
      }
      const index = this.#calls.findIndex(({ ask }) => ask?.id === decision.id);
      const call = this.#calls[index];
      if (call?.status === 'called' || !call) continue;
      this.#calls[index] = { ...call, decision };
      if (decision.kind === 'approval' && decision.updatedArgs) this.#edit(index, call.id, decision.updatedArgs);
    }
  }

  /** Whoever asked pays. */
  #childEnded(end: ChildEnd): void {
    const index = this.#calls.findIndex(({ child }) => child?.id === end.id);
    const call = this.#calls[index];
    if (call?.child) this.#calls[index] = { ...call, child: { ...call.child, end } };
    this.#childEnds.set(end.id, end);
    this.#state.costMicrocents += end.costMicrocents;
    if (end.usage) this.#state.usage = addRunUsage(this.#state.usage, end.usage);
  }

  /** The model sees the call as it was made. What a provider remembers by itself differs from now on. */
  #edit(index: number, id: string, updatedArgs: Record<string, unknown>): void {
    const args = JSON.stringify(updatedArgs);
    this.#calls[index] = { ...(this.#calls[index] as StepCall), args };
    const at = this.#messages.findLastIndex((message) => message.role === 'assistant');
    const message = this.#messages[at];
    if (message?.role !== 'assistant') return;
    let place = -1;
    const parts = message.parts.map((part) => {
      if (part.type === 'tool_call') place++;
      return part.type === 'tool_call' && place === index && part.id === id ? { ...part, args } : part;
    });
    this.#messages[at] = { ...message, parts };
    this.#state.sessionToken = undefined;
    this.#state.checkpointToken = undefined;
  }

  #innerCall({ index, number, ...entry }: JournalEntryOf<'inner_calling' | 'inner_called'>, inner: InnerCall): void {
    const call = this.#callOf(entry, index);
    this.#calls[index] = { ...call, inner: new Map([...(call.inner ?? []), [number, inner]]) };
  }

  #repair(entry: JournalEntryOf<'repair'>): void {
    const { step, answer, repairs } = this.#state;
    if (entry.step !== step || !answer || this.#calls.length > 0) throw malformed(entry);
    this.#messages.push({ role: 'user', content: repairRequest(entry.problem) });
    this.#state.repairing = true;
    this.#state.repairs = repairs + 1;
  }

  /** The other agent sees what the filter lets through, and nothing of what a provider remembers. */
  #handedOff({ to, filter, messages }: JournalEntryOf<'handed_off'>): void {
    const crossed = messages ?? filterFrom(filter).apply(this.#messages);
    this.#messages.splice(0, this.#messages.length, ...crossed);
    this.#calls = [];
    this.#promoted.length = 0;
    Object.assign(this.#state, {
      calls: this.#calls,
      agentId: to,
      handoffs: this.#state.handoffs + 1,
      serving: undefined,
      sessionToken: undefined,
      checkpointToken: undefined,
      answer: undefined,
    } satisfies Partial<TurnState>);
  }

  #calling(entry: JournalEntryOf<'calling'>): void {
    for (const index of entry.indexes) {
      const call = this.#callOf(entry, index);
      if (call.status !== 'todo') continue;
      const begun = entry.at === undefined ? {} : { startedAtMs: Date.parse(entry.at) };
      this.#calls[index] = { ...call, ...begun, status: 'calling' };
    }
  }

  #called(entry: JournalEntryOf<'called'>): void {
    const call = this.#callOf(entry, entry.index);
    // The first result stands: the model may have seen it.
    if (call.status === 'called') return;
    const { content, sensitivity, errorKind, correctable, trust, promoted = [], handoff } = entry;
    const result = { content, sensitivity, errorKind, correctable, trust, handoff };
    this.#calls[entry.index] = { ...call, status: 'called', result };
    for (const name of promoted) if (!this.#promoted.includes(name)) this.#promoted.push(name);
    if (errorKind === 'outcome_unknown') this.#unknown.push({ name: call.name, args: call.args });
    if (correctable && !this.#corrected) {
      this.#corrected = true;
      const { counters } = this.#state;
      this.#state.counters = { ...counters, corrections: counters.corrections + 1 };
    }
    this.#state.openCalls--;
    if (this.#state.openCalls === 0) this.#closeStep();
  }

  #closeStep(): void {
    for (const { id, name, result } of this.#calls) {
      if (!result) continue;
      this.#messages.push({
        role: 'tool',
        toolCallId: id,
        toolName: name,
        content: result.content,
        ...(result.errorKind && { isError: true }),
        ...(result.sensitivity && { sensitivity: result.sensitivity }),
        ...(result.trust && { trust: result.trust }),
      });
    }
  }

  #paid(attempts: readonly Attempt[]): void {
    for (const attempt of attempts) {
      this.#attempts.push(attempt);
      this.#state.usage = addAttempt(this.#state.usage, attempt);
      this.#state.costMicrocents += attempt.costMicrocents;
    }
  }

  #submitted({ attempts, provider, model, jobId, at }: JournalEntryOf<'submitted'>): void {
    this.#paid(attempts);
    this.#state.mediaJob = { provider, model, jobId, submittedAtMs: Date.parse(at), polls: 0 };
    this.#state.budgetDecision = undefined;
  }

  #polledLater(): void {
    const { mediaJob } = this.#state;
    if (mediaJob) this.#state.mediaJob = { ...mediaJob, polls: mediaJob.polls + 1 };
  }

  /** An answer without words: the conversation ends with it. */
  #generated({ step, attempts, provider, model, media }: JournalEntryOf<'generated'>): void {
    this.#paid(attempts);
    const { counters } = this.#state;
    Object.assign(this.#state, {
      step,
      answer: { text: '', finishReason: 'stop', usage: zeroUsage },
      counters: { ...counters, llmCalls: counters.llmCalls + 1 },
      serving: { provider, model },
      mediaJob: undefined,
      media,
      budgetDecision: undefined,
    } satisfies Partial<TurnState>);
  }

  /** A media job that failed is given anew. */
  #retrying({ number, resumeAt, calls }: JournalEntryOf<'retrying'>): void {
    if (calls.length > 0 && this.#state.openCalls === 0) {
      // The results of the step were the last that was said.
      this.#messages.splice(this.#messages.length - this.#calls.length);
      for (const index of calls) {
        const { result: _, ...call } = this.#calls[index] as StepCall;
        this.#calls[index] = { ...call, status: 'todo' };
      }
      this.#state.openCalls = calls.length;
    }
    this.#state.mediaJob = undefined;
    this.#state.retries = number;
    this.#state.retryAtMs = Date.parse(resumeAt);
    this.#state.attemptsBeforeRetry = this.#attempts.length;
  }

  #callOf(entry: Pick<Numbered, 'step' | 't'>, index: number): StepCall {
    const call = this.#calls[index];
    if (entry.step !== this.#state.step || !call) throw malformed(entry);
    return call;
  }
}

type Numbered = Extract<JournalEntry, { step: number }>;

function missingCall(index: number): never {
  throw new RunError('run_state_malformed', `the journal asks about call ${index}, which its step does not have`);
}

function malformed(entry: Pick<Numbered, 'step' | 't'>): RunError {
  return new RunError(
    'run_state_malformed',
    `the journal has an entry ${entry.t} of step ${entry.step} where none can be`,
  );
}
