import { assertNever, RunError } from '../../base/errors.ts';
import { denialBy, withDenials } from '../agent/lateral-leak.ts';
import type { ChildEnd } from '../control.ts';
import type { Attempt, JournalEntry, JournalEntryOf } from './journal.ts';
import { defined } from '../../base/collections.ts';
import { jsonOr, jsonText } from '../../base/json.ts';
import { clip } from '../../base/text.ts';
import { editedValues } from './edited-values.ts';
import { originsOfAll } from '../flow-label.ts';
import { textOf, toolCallsOf, type Message, type ToolMessage } from '../message.ts';
import { zeroUsage, addAttempt, addRunUsage, emptyRunUsage } from '../money.ts';
import type { ThreadSession } from '../thread/thread.ts';
import { keptAfter, type TurnHandoff, type TurnMessages } from '../thread/turn-log.ts';
import {
  type InnerCall,
  noLoop,
  type StepCall,
  OrchestrationLog,
  type TurnState,
  type UnknownCall,
} from './turn-state.ts';
import { Conversation, type ConversationState, type Summarised } from './conversation.ts';
import { crossing, filterFrom } from '../handoff/handoff-filters.ts';

export type { MediaJob, TurnState } from './turn-state.ts';

/**
 * The state after a whole journal or any beginning of one. `initial` is the conversation before the first answer, the
 * user's message included; `session` is what a provider knows of it. Throws `run_state_malformed` for entries that cannot follow each other.
 */
export function foldJournal(
  initial: readonly Message[],
  entries: Iterable<JournalEntry>,
  session?: ThreadSession,
): TurnState {
  const growing = new JournalFold({ initial, ...(session && knownOf(session)) });
  for (const entry of entries) growing.add(entry);
  return growing.state;
}

function knownOf({ sessionToken, checkpointToken, ...serving }: ThreadSession): Partial<TurnState> {
  return { serving, sessionToken, checkpointToken };
}

/** A state that another worker left, ready to grow: calls that it had begun are in doubt from now on. */
export function continueFrom(left: TurnState): JournalFold {
  return new JournalFold({
    ...left,
    calls: left.calls.map((call) => (call.status === 'tool_intent' ? { ...call, status: 'interrupted' } : call)),
  });
}

/**
 * The messages of the turn, by its journal alone. Results of a step that is not whole are in the
 * order of its calls. A journal that a later version has written is read as far as this one can follow it.
 */
export function turnOfJournal(entries: Iterable<JournalEntry>): TurnMessages {
  const fold = new JournalFold({ initial: [] });
  try {
    for (const entry of entries) if (!isOfConversation(entry)) fold.add(ofTurn(entry));
  } catch (error) {
    if (!(error instanceof RunError) || error.code !== 'run_state_malformed') throw error;
  }
  const { earlier, own, handoffs, steered } = fold.state;
  return { messages: [...earlier, ...own, ...resultsSoFar(fold.state)], handoffs, steered: new Set(steered.values()) };
}

/** A summary counts messages from before the turn, which a journal does not hold. */
function isOfConversation({ t }: JournalEntry): boolean {
  return t === 'compacted' || t === 'context_pinned';
}

/** For the same reason what crossed from one agent to another is not known. */
function ofTurn(entry: JournalEntry): JournalEntry {
  return entry.t === 'handed_off' ? { ...entry, messages: [] } : entry;
}

/** Does the current step wait for results of calls? Then no model call can be under way. */
export function hasOpenCalls(state: TurnState): boolean {
  return state.openCalls > 0;
}

/** Results of a step whose other calls have none yet. They are not part of the conversation before it is whole. */
export function resultsSoFar({ openCalls, calls }: TurnState): readonly ToolMessage[] {
  return openCalls > 0 ? calls.flatMap(resultIn) : [];
}

function resultIn({ id, name, result }: StepCall): ToolMessage[] {
  if (!result) return [];
  const { content, errorKind, sensitivity, trust, sanitized, flow } = result;
  const isError = errorKind === undefined ? undefined : true;
  const labels = { sensitivity, trust, sanitized, flow };
  return [defined({ role: 'tool', toolCallId: id, toolName: name, content, isError, ...labels })];
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** A state with lists that grow in place. */
interface GrowingState extends Mutable<TurnState> {
  attempts: Attempt[];
  unknownCalls: UnknownCall[];
  promoted: string[];
  asked: Set<string>;
  edits: string[];
  childEnds: Map<string, ChildEnd>;
  steered: Map<string, string>;
  orchestration: OrchestrationLog;
  calls: StepCall[];
}

/** Builds a state entry by entry. The copies that it makes do not depend on how long the turn already is. */
export class JournalFold {
  readonly #conversation: Conversation;
  readonly #state: GrowingState;
  #corrected: boolean;

  constructor(from: Pick<TurnState, 'initial'> & Partial<TurnState>) {
    this.#conversation = new Conversation(from);
    this.#corrected = (from.calls ?? []).some((call) => call.result?.correctable);
    this.#state = {
      step: 0,
      openCalls: 0,
      answer: undefined,
      repairs: 0,
      repairing: false,
      usage: emptyRunUsage,
      costMicrocents: 0,
      counters: { llmCalls: 0, toolCalls: 0, toolErrors: 0, toolSteps: 0, corrections: 0 },
      loop: noLoop,
      holdsMoney: false,
      closing: undefined,
      serving: undefined,
      sessionToken: undefined,
      checkpointToken: undefined,
      suspensions: 0,
      awaitsMoney: false,
      budgetDecision: undefined,
      mediaJob: undefined,
      media: [],
      retries: 0,
      retryAtMs: undefined,
      attemptsBeforeRetry: 0,
      finished: false,
      agentId: undefined,
      prompt: undefined,
      handoffs: [],
      compaction: undefined,
      denials: [],
      knownDenials: [],
      ...from,
      messages: this.#conversation.messages,
      own: this.#conversation.own,
      earlier: this.#conversation.earlier,
      begun: this.#conversation.begun,
      summarised: this.#conversation.summarised,
      hasResults: this.#conversation.hasResults,
      attempts: [...(from.attempts ?? [])],
      unknownCalls: [...(from.unknownCalls ?? [])],
      promoted: [...(from.promoted ?? [])],
      asked: new Set(from.asked),
      edits: [...(from.edits ?? [])],
      childEnds: new Map(from.childEnds),
      steered: new Map(from.steered),
      orchestration: new OrchestrationLog(from.orchestration),
      calls: [...(from.calls ?? [])],
    };
  }

  /** A live view: it changes with every entry that is added. */
  get state(): TurnState {
    return this.#state;
  }

  add(entry: JournalEntry): void {
    switch (entry.t) {
      case 'agent_started':
        this.#state.prompt ??= entry.prompt;
        return;
      case 'model_response':
        return this.#responded(entry);
      case 'attempted':
        this.#state.mediaJob = undefined;
        return this.#paid(entry.attempts);
      case 'session_lost':
        this.#state.sessionToken = undefined;
        this.#state.checkpointToken = undefined;
        return;
      case 'tool_intent':
        return this.#toolIntent(entry);
      case 'tool_result':
        return this.#toolResult(entry);
      case 'inner_tool_intent':
        return this.#innerCall(entry, { fingerprint: entry.fingerprint });
      case 'inner_tool_result': {
        const begun = this.#callOf(entry, entry.index).inner?.get(entry.number);
        if (!begun) throw malformed(entry);
        const { outcome, trust, sensitivity, flow } = entry;
        if (entry.unknown) this.#state.unknownCalls.push({ fingerprint: begun.fingerprint });
        return this.#innerCall(entry, { ...begun, outcome, ...defined({ trust, sensitivity, flow }) });
      }
      case 'handed_off':
        return this.#handedOff(entry);
      case 'loop_guarded':
        return this.#loopGuarded(entry);
      case 'loop_cleared':
        this.#state.loop = { ...noLoop, freshFrom: entry.step, asks: this.#state.loop.asks };
        return;
      case 'closing_failed':
        this.#state.closing = undefined;
        return;
      case 'closing_held':
        this.#state.holdsMoney = true;
        return;
      case 'closing':
        return this.#closing(entry);
      case 'steered':
        return this.#steer(entry);
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
      case 'compacted':
        return this.#compacted(entry);
      case 'context_pinned': {
        const { compaction } = this.#state;
        if (!compaction?.hooksDue || compaction.step !== entry.step) throw malformed(entry);
        this.#state.compaction = { ...compaction, hooksDue: false, pinned: entry.texts };
        return;
      }
      case 'orchestration_step':
        this.#state.orchestration.addStep(entry);
        this.#state.budgetDecision = undefined;
        return this.#spent(entry.spent);
      case 'orchestration_emitted':
        this.#state.orchestration.addEmitted(entry);
        return this.#spent(entry.spent);
      case 'closed':
        this.#state.finished = true;
        return;
      default:
        assertNever(entry);
    }
  }

  #responded(entry: JournalEntryOf<'model_response'>): void {
    if (entry.step !== this.#state.step + 1 || this.#state.openCalls > 0) throw malformed(entry);
    this.#paid(entry.attempts);
    this.#push(entry.message);
    const asked = toolCallsOf(entry.message);
    this.#corrected = false;
    const { counters, serving } = this.#state;
    const isSame = serving?.provider === entry.provider && serving.model === entry.model;
    Object.assign(this.#state, {
      step: entry.step,
      calls: asked.map(({ id, name, args }, index) => {
        return { index, id, name, args, status: 'todo', source: entry.sources?.[index] ?? null };
      }),
      openCalls: asked.length,
      repairing: false,
      closing: this.#state.closing && { ...this.#state.closing, isAnswered: true },
      answer: { text: textOf(entry.message), finishReason: entry.finishReason, usage: entry.usage },
      counters: {
        ...counters,
        llmCalls: counters.llmCalls + 1,
        toolCalls: counters.toolCalls + asked.length,
        toolSteps: counters.toolSteps + (asked.length > 0 ? 1 : 0),
      },
      serving: { provider: entry.provider, model: entry.model },
      // An answer without tokens leaves those before it in force; another model's answer leaves their session behind.
      sessionToken: entry.sessionToken ?? (isSame ? this.#state.sessionToken : undefined),
      checkpointToken: entry.checkpointToken ?? (isSame ? this.#state.checkpointToken : undefined),
      budgetDecision: undefined,
      knownDenials: this.#state.denials,
    } satisfies Partial<TurnState>);
  }

  #spent(spent: JournalEntryOf<'orchestration_step'>['spent']): void {
    if (!spent) return;
    this.#state.awaitsMoney = false;
    this.#state.costMicrocents += spent.costMicrocents;
    this.#state.usage = addRunUsage(this.#state.usage, spent.usage);
  }

  #suspended(entry: JournalEntryOf<'suspended'>): void {
    const { seq, reason, asks = [] } = entry;
    this.#state.orchestration.addChildren(entry);
    this.#state.suspensions = seq;
    this.#state.awaitsMoney = reason === 'budget';
    if (reason === 'media') this.#polledLater();
    for (const { index, id, kind, requestedAt, expiresAt, flow, pin } of asks) {
      const { decision: _, ...call } = this.#state.calls[index] ?? missingCall(index);
      if (kind === 'child') {
        const child = { id, requestedAtMs: Date.parse(requestedAt) };
        this.#state.calls[index] = { ...(this.#state.calls[index] as StepCall), status: 'todo', child };
        continue;
      }
      this.#state.asked.add(id);
      this.#state.calls[index] = {
        ...call,
        // What was asked is asked before anything happens, or because what has happened is not known.
        status: kind === 'unknown_outcome' ? 'interrupted' : 'todo',
        ask: { id, kind, index, requestedAtMs: Date.parse(requestedAt), expiresAtMs: Date.parse(expiresAt), flow, pin },
      };
    }
    if (asks.length === 0) return;
    // Ends whose turn came without another result left with this entry.
    for (const index of this.#state.calls.keys()) this.#endPublished(index);
  }

  #decided({ at, budget, decisions = [] }: JournalEntryOf<'decided'>): void {
    if (budget) {
      this.#state.budgetDecision = budget;
      this.#state.awaitsMoney = false;
    }
    for (const decision of decisions) {
      if (decision.kind === 'child') {
        this.#childEnded(decision);
        this.#state.orchestration.addChildEnd(decision, at);
        continue;
      }
      const { loop } = this.#state;
      if (loop.ask?.id === decision.id) {
        this.#state.loop = { ...loop, ask: { ...loop.ask, decision } };
        continue;
      }
      const index = this.#state.calls.findIndex(({ ask }) => ask?.id === decision.id);
      const call = this.#state.calls[index];
      if (!call) this.#state.orchestration.addDecision(decision, at);
      if (call?.status === 'tool_result' || !call) continue;
      this.#state.calls[index] = { ...call, decision };
      if (decision.kind === 'approval' && decision.updatedArgs) this.#edit(index, call.id, decision.updatedArgs);
    }
  }

  /** The parent pays. */
  #childEnded(end: ChildEnd): void {
    const index = this.#state.calls.findIndex(({ child }) => child?.id === end.id);
    const call = this.#state.calls[index];
    if (call?.child) this.#state.calls[index] = { ...call, child: { ...call.child, end } };
    this.#state.childEnds.set(end.id, end);
    this.#state.denials = withDenials(this.#state.denials, end.leaks?.denials ?? []);
    this.#state.costMicrocents += end.costMicrocents;
    if (end.usage) this.#state.usage = addRunUsage(this.#state.usage, end.usage);
  }

  /** The model sees the call as it was made. What a provider remembers by itself differs from now on. */
  #edit(index: number, id: string, updatedArgs: Record<string, unknown>): void {
    const args = jsonText(updatedArgs);
    const call = this.#state.calls[index] as StepCall;
    this.#state.edits.push(...editedValues(updatedArgs, jsonOr(call.args, {})));
    this.#state.calls[index] = { ...call, args };
    this.#conversation.editCall(index, id, args);
    this.#state.sessionToken = undefined;
    this.#state.checkpointToken = undefined;
  }

  #innerCall({ index, number, ...entry }: JournalEntryOf<'inner_tool_intent' | 'inner_tool_result'>, inner: InnerCall) {
    const call = this.#callOf(entry, index);
    this.#state.calls[index] = { ...call, inner: new Map([...(call.inner ?? []), [number, inner]]) };
  }

  /** An answer that came before stays; the model answers once more. */
  #steer({ messages }: JournalEntryOf<'steered'>): void {
    for (const { id, text } of messages) {
      if (this.#state.steered.has(id)) continue;
      this.#state.steered.set(id, text);
      this.#conversation.push({ role: 'user', content: text });
      this.#state.repairing = this.#state.answer !== undefined && this.#state.calls.length === 0;
    }
  }

  #loopGuarded({ step, pattern, action, subject, count, text, withdrawn = [], ask }: JournalEntryOf<'loop_guarded'>) {
    const { loop } = this.#state;
    this.#state.loop = {
      ...loop,
      rungs: new Map([...loop.rungs, [subject, { action, step }]]),
      withdrawn: [...new Set([...loop.withdrawn, ...withdrawn])],
      ask: ask && {
        pattern,
        subject,
        count,
        id: ask.id,
        requestedAtMs: Date.parse(ask.requestedAt),
        expiresAtMs: Date.parse(ask.expiresAt),
      },
      asks: loop.asks + (ask ? 1 : 0),
    };
    if (text !== undefined) this.#push({ role: 'user', content: text });
  }

  #repair(entry: JournalEntryOf<'repair'>): void {
    const { step, answer, repairs } = this.#state;
    if (entry.step !== step || !answer || this.#state.calls.length > 0) throw malformed(entry);
    // The problem may quote the answer.
    const { begun, earlier, own } = this.#conversation;
    const flow = originsOfAll([...begun, ...earlier, ...own]);
    this.#push({ role: 'user', content: repairRequest(entry.problem), ...(flow && { flow }) });
    this.#state.repairing = true;
    this.#state.repairs = repairs + 1;
  }

  /** The other agent sees what the filter lets through, and nothing of what a provider remembers. */
  #handedOff(entry: JournalEntryOf<'handed_off'>): void {
    const { to, filter, messages } = entry;
    const { loop } = this.#state;
    const handoffs = [...this.#state.handoffs, handoffIn(entry, this.#conversation)];
    this.#conversation.crossOver(messages ?? crossing(filterFrom(filter), this.#conversation.messages));
    Object.assign(this.#state, {
      calls: [],
      promoted: [],
      // The tools are others now; that agents hand to each other stays known.
      loop: {
        ...loop,
        withdrawn: [],
        rungs: new Map([...loop.rungs].filter(([subject]) => subject.startsWith('handoff:'))),
      },
      agentId: to,
      prompt: undefined,
      initial: this.#conversation.initial,
      summarised: undefined,
      hasResults: this.#conversation.hasResults,
      handoffs,
      serving: undefined,
      sessionToken: undefined,
      checkpointToken: undefined,
      answer: undefined,
    } satisfies Partial<TurnState>);
  }

  #toolIntent(entry: JournalEntryOf<'tool_intent'>): void {
    for (const index of entry.indexes) {
      const call = this.#callOf(entry, index);
      if (call.status !== 'todo') continue;
      const startedAtMs = entry.at === undefined ? call.startedAtMs : Date.parse(entry.at);
      this.#state.calls[index] = { ...call, startedAtMs, status: 'tool_intent' };
    }
  }

  /** Calls that agents do have results already, which say that none came. */
  #closing({ reason, error }: JournalEntryOf<'closing'>): void {
    const left = this.#state.calls.flatMap(({ child }) => (child && !child.end ? [child.id] : []));
    this.#state.closing = { reason, error, left, isAnswered: false };
  }

  #toolResult(entry: JournalEntryOf<'tool_result'>): void {
    const call = this.#callOf(entry, entry.index);
    // The first result stands: the model may have seen it.
    if (call.status === 'tool_result') return;
    const { content, sensitivity, errorKind, correctable, trust, sanitized, flow, promoted = [], handoff } = entry;
    const result = { content, sensitivity, errorKind, correctable, trust, sanitized, flow, handoff };
    this.#state.calls[entry.index] = { ...call, status: 'tool_result', result };
    for (const index of entry.ends ?? [entry.index]) this.#endPublished(index);
    for (const name of promoted) if (!this.#state.promoted.includes(name)) this.#state.promoted.push(name);
    this.#denied(entry);
    if (errorKind === 'outcome_unknown') this.#state.unknownCalls.push({ name: call.name, args: call.args });
    if (errorKind !== undefined) this.#count('toolErrors');
    if (correctable && !this.#corrected) {
      this.#corrected = true;
      this.#count('corrections');
    }
    this.#state.openCalls--;
    if (this.#state.openCalls === 0) this.#closeStep();
  }

  #count(counter: 'toolErrors' | 'corrections'): void {
    const { counters } = this.#state;
    this.#state.counters = { ...counters, [counter]: counters[counter] + 1 };
  }

  #denied({ errorKind, toolName, denied = [] }: JournalEntryOf<'tool_result'>): void {
    const { denials, agentId = '' } = this.#state;
    const kind = denialBy(errorKind);
    const own = kind ? [{ agentId, kind, toolName: clip(toolName, maxNameChars) }] : [];
    this.#state.denials = withDenials(denials, [
      ...denied.map((one) => ({ ...one, agentId: one.agentId || agentId })),
      ...own,
    ]);
  }

  #endPublished(index: number): void {
    const call = this.#state.calls[index];
    if (call?.status === 'tool_result' && !call.endPublished)
      this.#state.calls[index] = { ...call, endPublished: true };
  }

  #closeStep(): void {
    for (const result of this.#state.calls.flatMap(resultIn)) this.#push(result);
  }

  #push(message: Message): void {
    this.#conversation.push(message);
    this.#state.hasResults = this.#conversation.hasResults;
  }

  /** What a provider remembers by itself is the conversation before. */
  #compacted(entry: JournalEntryOf<'compacted'>): void {
    if (entry.step !== this.#state.step + 1 || this.#state.openCalls > 0) throw malformed(entry);
    this.#conversation.compact(entry);
    this.#paid(entry.attempts);
    const { step, source, beforeTokens, afterTokens, summaryTokens, durationMs, hooksDue = false } = entry;
    const compaction = { step, source, beforeTokens, afterTokens, summaryTokens, durationMs, hooksDue, pinned: [] };
    Object.assign(this.#state, {
      summarised: this.#conversation.summarised,
      compaction,
      sessionToken: undefined,
      checkpointToken: undefined,
    } satisfies Partial<TurnState>);
  }

  #paid(attempts: readonly Attempt[]): void {
    this.#state.awaitsMoney = false;
    for (const attempt of attempts) {
      this.#state.attempts.push(attempt);
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
      // The results of the step were the last messages.
      this.#conversation.drop(this.#state.calls.length);
      for (const index of calls) {
        const { result: _, endPublished: _endPublished, ...call } = this.#state.calls[index] as StepCall;
        this.#state.calls[index] = { ...call, status: 'todo' };
      }
      this.#state.openCalls = calls.length;
    }
    this.#state.mediaJob = undefined;
    this.#state.retries = number;
    this.#state.retryAtMs = Date.parse(resumeAt);
    this.#state.attemptsBeforeRetry = this.#state.attempts.length;
  }

  #callOf(entry: Pick<Numbered, 'step' | 't'>, index: number): StepCall {
    const call = this.#state.calls[index];
    if (entry.step !== this.#state.step || !call) throw malformed(entry);
    return call;
  }
}

/** What the thread of the run keeps of it. */
function handoffIn(
  { step, from, to, filter, digest }: JournalEntryOf<'handed_off'>,
  { initial, own, earlier, summarised }: ConversationState,
): TurnHandoff {
  const kept = keptAfter(summarised?.replaced ?? 0, initial, own);
  return {
    after: earlier.length + own.length,
    step,
    fromAgentId: from,
    toAgentId: to,
    descriptor: filter,
    summary: summarised && summaryIn(summarised, kept),
    digest,
  };
}

function summaryIn({ text, sensitivity, flow }: Summarised, kept: number): TurnHandoff['summary'] {
  return { text, kept, sensitivity, flow };
}

/** The longest name of a tool that a denial has. */
const maxNameChars = 256;

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

/** What a model reads about an answer that was refused. */
function repairRequest(problem: string): string {
  return `Your answer was refused: ${problem}. Answer again, with nothing but JSON of the shape that was asked for.`;
}
