import { jsonOr, isRecord } from '../../base/json.ts';
import type { Redactor } from '../../base/redact.ts';
import { assertNever } from '../../base/errors.ts';
import { defined } from '../../base/collections.ts';
import type { CallDecision, ChildEnd } from '../control.ts';
import type { JournalEntry, JournalEntryOf } from '../journal/journal.ts';
import { textOf, toolCallsOf, type AssistantMessage } from '../message.ts';
import type { CallView, OrchestrationStepView, ShownMessage, StepView } from './run-steps.ts';
import { shownArgs, shownEnd } from './shown.ts';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
export type InnerDraft = Mutable<CallView['inner'][number]>;
export type CallDraft = Mutable<Omit<CallView, 'inner'>> & { inner: InnerDraft[] };
export type StepDraft = Mutable<Omit<StepView, 'calls'>> & { calls: CallDraft[] };

/** What a script did with a side effect: its events have the rest. */
export interface InnerEntry {
  readonly toolName: string;
  readonly args: unknown;
  readonly outcome?: string;
  readonly sensitivity?: JournalEntryOf<'inner_tool_result'>['sensitivity'];
}

type Asks = NonNullable<JournalEntryOf<'suspended'>['asks']>;

/** The steps of a run as its journal has them. What a journal does not know, times above all, its events add. */
export class StepDrafts {
  readonly steps: StepDraft[] = [];
  readonly orchestration: OrchestrationStepView[] = [];
  /** How children have ended, by their id; and the calls that they do. */
  readonly childEnds = new Map<string, ChildEnd>();
  readonly childCalls = new Map<string, string | undefined>();
  /** What people were asked about the calls: the ids of the questions are not always those of the calls. */
  readonly asked = new Map<string, CallDraft>();
  readonly inner = new Map<CallDraft, Map<number, InnerEntry>>();
  prompt: string | undefined;
  readonly #redactor: Redactor;
  #agent: string;
  #added: ShownMessage[] = [];
  #handoff: StepDraft['handoff'];
  #closing: StepDraft['closing'];

  constructor(agent: string, redactor: Redactor) {
    this.#agent = agent;
    this.#redactor = redactor;
  }

  /** The step with this number, which begins now where it is not known yet. */
  step(stepNumber: number): StepDraft {
    const known = this.steps.find((step) => step.stepNumber === stepNumber);
    const step = known ?? this.#begin(stepNumber);
    if (step === this.steps.at(-1)) step.request.added.push(...this.#added.splice(0));
    return step;
  }

  /**
   * The call that an event names while this step is under way. Some providers number the calls of each answer anew, and the id of a
   * question to people is not always that of its call.
   */
  callOf(toolCallId: string, during = Infinity): CallDraft | undefined {
    const [last, ...earlier] = this.steps.filter(({ stepNumber }) => stepNumber <= during).toReversed();
    const own = last?.calls.find((one) => one.toolCallId === toolCallId) ?? this.asked.get(toolCallId);
    if (own) return own;
    return earlier.flatMap(({ calls }) => calls).find((one) => one.toolCallId === toolCallId);
  }

  handedOff(from: string, to: string): void {
    this.#agent = to;
    this.#handoff = { from, to };
  }

  #begin(stepNumber: number): StepDraft {
    const before = this.steps.at(-1);
    const results = (before?.calls ?? []).filter(({ result, error }) => result ?? error);
    const step: StepDraft = {
      stepNumber,
      agent: this.#agent,
      request: { added: results.map(({ toolCallId, toolName, error }) => resultOf(toolCallId, toolName, error)) },
      attempts: [],
      fallbacks: [],
      calls: [],
      costMicrocents: 0,
    };
    if (this.#handoff) step.handoff = this.#handoff;
    if (this.#closing) step.closing = this.#closing;
    this.#handoff = undefined;
    this.#closing = undefined;
    this.steps.push(step);
    this.steps.sort((a, b) => a.stepNumber - b.stepNumber);
    return step;
  }

  add(entry: JournalEntry): void {
    switch (entry.t) {
      case 'agent_started':
        this.prompt ??= entry.prompt;
        return;
      case 'model_response':
        return this.#responded(entry);
      case 'attempted':
      case 'submitted':
      case 'generated':
        return this.#attempted(entry);
      case 'tool_intent':
        for (const index of entry.indexes) {
          const call = this.#callAt(entry.step, index);
          if (call && entry.at !== undefined) call.startedAt ??= entry.at;
        }
        return;
      case 'tool_result':
        return this.#toolResult(entry);
      case 'inner_tool_intent':
      case 'inner_tool_result':
        return this.#innerCall(entry);
      case 'handed_off':
        return this.handedOff(entry.from, entry.to);
      case 'loop_guarded':
        return this.#say(entry.text, 'loop_guard');
      case 'steered':
        for (const { text } of entry.messages) this.#say(text, 'steered');
        return;
      case 'repair':
        return this.#say(entry.problem, 'repair');
      case 'context_pinned':
        for (const text of entry.texts) this.#say(text, 'pinned');
        return;
      case 'closing':
        this.#closing = { reason: entry.reason };
        return;
      case 'suspended':
        for (const child of entry.children ?? []) this.childCalls.set(child, undefined);
        return this.#suspended(entry.asks ?? []);
      case 'decided':
        for (const decision of entry.decisions ?? []) this.#decided(decision);
        return;
      case 'retrying':
        return this.#retried(entry.calls);
      case 'compacted':
        return this.#compacted(entry);
      case 'orchestration_step':
        return this.#orchestrated(entry);
      case 'session_lost':
      case 'loop_cleared':
      case 'closing_held':
      case 'closing_failed':
      case 'orchestration_emitted':
      case 'closed':
        return;
      default:
        assertNever(entry);
    }
  }

  #say(text: string | undefined, kind: Extract<ShownMessage, { role: 'user' }>['kind']): void {
    if (text === undefined) return;
    this.#added.push(defined({ role: 'user', content: this.#redactor.text(text), kind }));
  }

  #responded(entry: JournalEntryOf<'model_response'>): void {
    const { message, finishReason, usage, attempts, provider, model } = entry;
    const step = this.step(entry.step);
    const reasoning = reasoningOf(message);
    const text = this.#redactor.text(textOf(message));
    const answer = defined({ text, reasoning: reasoning && this.#redactor.text(reasoning), finishReason });
    const calls = toolCallsOf(message).map(({ id, name, args }, index): CallDraft => ({
      toolCallId: id,
      toolName: name,
      index,
      ...shownArgs(args, this.#redactor),
      policy: [],
      flow: [],
      inner: [],
    }));
    Object.assign(step, { answer, usage, provider, model, calls } satisfies Partial<StepDraft>);
    this.#paid(step, attempts);
  }

  #attempted(entry: JournalEntryOf<'attempted' | 'submitted' | 'generated'>): void {
    const step = this.step(entry.step);
    this.#paid(step, entry.attempts);
    if (entry.t === 'attempted') return;
    step.model = entry.model;
    step.provider = entry.provider;
    if (entry.t === 'submitted') step.mediaJob = { jobId: entry.jobId, submittedAt: entry.at };
    else step.answer = { text: '', finishReason: 'stop', media: entry.media };
  }

  #paid(step: StepDraft, attempts: StepDraft['attempts']): void {
    step.attempts.push(...attempts);
    for (const { costMicrocents } of attempts) step.costMicrocents += costMicrocents;
  }

  #toolResult(entry: JournalEntryOf<'tool_result'>): void {
    const call = this.#callAt(entry.step, entry.index);
    if (call && !call.result && !call.error) Object.assign(call, shownEnd(entry, this.#redactor));
  }

  #innerCall(entry: JournalEntryOf<'inner_tool_intent' | 'inner_tool_result'>): void {
    const call = this.#callAt(entry.step, entry.index);
    if (!call) return;
    const inner = this.inner.get(call) ?? new Map<number, InnerEntry>();
    this.inner.set(call, inner);
    if (entry.t === 'inner_tool_intent') inner.set(entry.number, calledIn(entry.fingerprint));
    const begun = inner.get(entry.number);
    if (entry.t === 'inner_tool_result' && begun) {
      const { outcome, sensitivity } = entry;
      inner.set(entry.number, { ...begun, ...defined({ outcome, sensitivity }) });
    }
  }

  #suspended(asks: Asks): void {
    const step = this.steps.at(-1);
    for (const { index, id, kind } of asks) {
      const call = step?.calls[index];
      if (kind === 'child') {
        this.childCalls.set(id, call?.toolCallId);
        if (call) call.childRunId = id;
      } else if (call) this.asked.set(id, call);
    }
  }

  #decided(decision: CallDecision): void {
    if (decision.kind === 'child') {
      this.childEnds.set(decision.id, decision);
      // The run that begins next in its place may do a call, too: what asked for both says which.
      for (const id of [decision.id, decision.next])
        if (id !== undefined && !this.childCalls.has(id)) this.childCalls.set(id, undefined);
      return;
    }
    const call = this.asked.get(decision.id);
    if (!call) return;
    const { by, at } = decision;
    if (decision.kind === 'answer') {
      call.decision = { granted: true, by, at, answered: true };
      return;
    }
    const { granted, reason, updatedArgs } = decision;
    call.decision = defined({ granted, by, at, reason, edited: updatedArgs && (true as const) });
    if (!updatedArgs) return;
    call.modelArgs = call.args;
    delete call.argsMasked;
    Object.assign(call, shownArgs(updatedArgs, this.#redactor));
  }

  /** Its last results are void: the calls are made again. */
  #retried(indexes: readonly number[]): void {
    for (const index of indexes) {
      const call = this.steps.at(-1)?.calls[index];
      if (!call) continue;
      delete call.result;
      delete call.error;
      delete call.endedAt;
    }
  }

  #compacted(entry: JournalEntryOf<'compacted'>): void {
    const { source, beforeTokens, afterTokens, summaryTokens, durationMs, attempts } = entry;
    const step = this.step(entry.step);
    const costMicrocents = attempts.reduce((sum, attempt) => sum + attempt.costMicrocents, 0);
    const summary = entry.sensitivity === 'secret' ? '' : this.#redactor.text(entry.summary);
    step.compaction = { source, summary, beforeTokens, afterTokens, summaryTokens, durationMs, costMicrocents };
    this.#paid(step, attempts);
  }

  #orchestrated({ key, at, value, spent }: JournalEntryOf<'orchestration_step'>): void {
    const shown = this.#redactor.value(value);
    const { costMicrocents = 0, usage } = spent ?? {};
    this.orchestration.push(defined({ key, at, value: shown, costMicrocents, usage }) as OrchestrationStepView);
  }

  #callAt(stepNumber: number, index: number): CallDraft | undefined {
    return this.steps.find((step) => step.stepNumber === stepNumber)?.calls[index];
  }
}

function resultOf(toolCallId: string, toolName: string, error: unknown): ShownMessage {
  return defined({ role: 'tool', toolCallId, toolName, isError: error === undefined ? undefined : true });
}

function reasoningOf({ parts }: AssistantMessage): string | undefined {
  const text = parts.map((part) => (part.type === 'reasoning' ? part.text : '')).join('');
  return text === '' ? undefined : text;
}

/** The call that a fingerprint of it stands for: the name of the tool, and its arguments with sorted fields. */
function calledIn(fingerprint: string): InnerEntry {
  const end = fingerprint.indexOf('\n');
  return { toolName: fingerprint.slice(0, end), args: unsorted(jsonOr(fingerprint.slice(end + 1))) };
}

function unsorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unsorted);
  if (!isRecord(value) || !Array.isArray(value['fields'])) return value;
  const fields: readonly [string, unknown][] = value['fields'];
  return Object.fromEntries(fields.map(([name, item]) => [name, unsorted(item)]));
}
