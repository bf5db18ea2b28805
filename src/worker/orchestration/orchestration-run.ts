import type { Clock } from '../../shared/base/clock.ts';
import { endedByDenial, withDenials, type Denial } from '../../shared/contract/agent/lateral-leak.ts';
import type { ChildEnd } from '../../shared/contract/control.ts';
import { asRunError, assertNever, RunError } from '../../shared/base/errors.ts';
import type { EventBody, PendingItem } from '../../shared/contract/event.ts';
import { runIdForChild } from '../../shared/base/ids.ts';
import type { JournalEntry } from '../../shared/contract/journal/journal.ts';
import type { Redactor } from '../../shared/base/redact.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import type { Children } from '../../shared/state/run/children/children.ts';
import type { Waits } from '../../shared/state/run/waits/waits.ts';
import type { PersonDecision, OrchestrationFact } from '../../shared/contract/journal/turn-state.ts';
import type { CrossingWatch } from '../tools/execute/batch.ts';
import { leakEvent } from '../tools/leak-event.ts';
import type { RunEnd } from '../tools/tool-error.ts';
import { within } from '../../shared/base/deadline.ts';
import { TurnSuspension, type StopReason, type SuspendedWait } from '../turn/turn-ports.ts';
import { continueFrom, type JournalFold, type TurnState } from '../../shared/contract/journal/fold.ts';
import type { TurnOutcome } from '../turn/turn.ts';
import { AnswerLabels } from './answer-labels.ts';
import { askedChildren, notAsked, type AskedChildren } from './asked-children.ts';
import { ChildPermits, isPermit, type AskedItem, type PermitHost, type ChildRules } from './child-permits.ts';
import {
  longestMs,
  type AskedChild,
  type ChildAnswer,
  type Orchestration,
  type OrchestrationHost,
  type OrchestrationResult,
} from './orchestration.ts';
import {
  type StepSpent,
  type StepCosts,
  type StepGate,
  type StepPermit,
  addSpending,
  costEvent,
  spendingOf,
} from '../admission/step-gate.ts';

/** A child that was asked to stop is ended by its worker, or, once a lost lock has expired, by the next one. */
const lookAgainMs = 10_000;

interface Step {
  readonly key: string;
  readonly work: (signal: AbortSignal) => unknown;
  readonly costs: StepCosts | undefined;
  readonly answer: PromiseWithResolvers<unknown>;
  /** It does not begin before this. */
  readonly dueMs?: number;
}

/** What follows a step that has ended, when it is its turn. */
type AfterStep = () => Promise<void> | void;

/** The run of an orchestration, as far as the orchestration needs it. */
export interface OrchestratedRun {
  readonly record: RunRecord;
  readonly state: TurnState;
  readonly writer: {
    /** Keeps an event back until the next commit. */
    emitWithCommit(event: EventBody): void;
    commit(write: { readonly entries: readonly JournalEntry[] }): Promise<void>;
  };
  /** `lost`: the run has another owner by now. */
  readonly signals: { readonly lost: boolean; readonly signal: AbortSignal };
  readonly workedMs: () => number;
}

interface OrchestrationPorts {
  readonly clock: Clock;
  readonly redactor: Redactor;
  readonly waits: Pick<Waits, 'hasDecisions'>;
  readonly children: Pick<Children, 'stop'>;
}

export interface OrchestrationDeps {
  /** Before each step that costs something. */
  readonly gate: StepGate;
  readonly rules: ChildRules | undefined;
  /** Absent: nothing that crosses to children is looked at. */
  readonly crossings?: CrossingWatch | undefined;
  stopRequested(): StopReason | undefined;
}

/**
 * Runs an orchestration up to where it ends or waits for others. First it gets everything that the journal knows, one answer
 * at a time, then its steps run here. Never rejects.
 */
export async function runOrchestration(
  orchestration: Orchestration,
  run: OrchestratedRun,
  ports: OrchestrationPorts,
  deps: OrchestrationDeps,
): Promise<TurnOutcome> {
  return await new OrchestrationRun(run, ports, deps).outcome(orchestration);
}

class OrchestrationRun implements OrchestrationHost, PermitHost {
  readonly signal: AbortSignal;
  readonly #run: OrchestratedRun;
  readonly #ports: OrchestrationPorts;
  readonly #deps: OrchestrationDeps;
  readonly #growing: JournalFold;
  readonly #facts: Iterator<OrchestrationFact>;
  readonly #keys = new Set<string>();
  /** Steps that the journal has an answer to. */
  readonly #known: ReadonlySet<string>;
  readonly #children: AskedChildren;
  readonly #permits: ChildPermits;
  readonly #questions = new Map<string, { item: AskedItem; answer: PromiseWithResolvers<PersonDecision> }>();
  /** Asked for and without an answer in the journal; `#working` are those of them that run. */
  readonly #steps = new Map<string, Step>();
  readonly #working = new Set<string>();
  readonly #after: AfterStep[] = [];
  #whenDone = Promise.withResolvers<void>();
  /** There is no money for a step. */
  #parked: SuspendedWait | undefined;
  /** Paid for steps that have no answer. */
  readonly #lost: StepSpent[] = [];
  readonly #answers: AnswerLabels;
  /** What was denied to the children that have ended: the same at this point in each replay. */
  #denials: readonly Denial[] = [];
  #emitted = 0;
  #nowMs: number;
  #workedMs = 0;
  #lostMicrocents = 0;
  #end: { readonly result: OrchestrationResult } | { readonly error: RunError } | undefined;

  constructor(run: OrchestratedRun, ports: OrchestrationPorts, deps: OrchestrationDeps) {
    this.#run = run;
    this.#ports = ports;
    this.#deps = deps;
    this.signal = run.signals.signal;
    this.#growing = continueFrom(run.state);
    const { facts } = run.state.orchestration;
    this.#facts = [...facts].values();
    this.#known = new Set(facts.flatMap((fact) => (fact.kind === 'step' ? [fact.key] : [])));
    this.#nowMs = Date.parse(run.record.startedAt ?? run.record.createdAt);
    this.#answers = new AnswerLabels(run.record);
    this.#permits = new ChildPermits(this, deps.rules, ports.redactor);
    this.#children = askedChildren((id) => this.#growing.state.orchestration.children.get(id));
  }

  now(): number {
    return this.#nowMs;
  }

  workedMs(): number {
    return this.#workedMs;
  }

  lostMicrocents(): number {
    return this.#lostMicrocents;
  }

  emit(event: EventBody): void {
    // What an orchestration emits once it is stopped is no fact: a replay of it is not stopped, and emits something else.
    if (this.signal.aborted) return;
    this.#emitted++;
    if (this.#emitted > this.#growing.state.orchestration.emitted) this.#run.writer.emitWithCommit(event);
  }

  async step(key: string, work: (signal: AbortSignal) => unknown, costs?: StepCosts): Promise<unknown> {
    this.#use(key);
    const answer = Promise.withResolvers<unknown>();
    this.#steps.set(key, { key, work, costs, answer });
    return await answer.promise;
  }

  async child(key: string, asked: AskedChild): Promise<ChildAnswer> {
    this.#use(key);
    const runId = runIdForChild(this.#run.record.runId, key);
    // By the answers up to here: more may come while people decide.
    const labelOf = this.#answers.labels();
    const permitted = await this.#permits.of(key, runId, asked);
    if (!('kind' in permitted)) {
      const crossing = this.#sent(permitted);
      return await this.#children.ask(runId, crossing, labelOf(crossing.input));
    }
    const isDenied = permitted.kind === 'ended' && endedByDenial(permitted.end.error?.code);
    if (isDenied) this.#denials = withDenials(this.#denials, [{ agentId: asked.agentId, kind: 'run' }]);
    return permitted;
  }

  async ask(key: string, reason: string): Promise<string> {
    this.#use(key);
    const decision = await this.question(key, { kind: 'user_input', reason });
    if (decision.kind === 'answer') return decision.answer;
    return `There is no answer: ${decision.reason ?? 'it was refused'}`;
  }

  async question(key: string, item: AskedItem): Promise<PersonDecision> {
    const answer = Promise.withResolvers<PersonDecision>();
    this.#questions.set(key, { item, answer });
    return await answer.promise;
  }

  async due(key: string, dueMs: number): Promise<unknown> {
    const answer = Promise.withResolvers<unknown>();
    this.#steps.set(key, { key, work: () => true, costs: undefined, answer, dueMs });
    return await answer.promise;
  }

  /** These are not waited for any more. */
  drop(question: string, due: string): void {
    this.#questions.delete(question);
    this.#steps.delete(due);
  }

  isKnown(key: string): boolean {
    return this.#known.has(key);
  }

  hasBegun(runId: string): boolean {
    return this.#growing.state.orchestration.children.has(runId);
  }

  end(end: RunEnd): void {
    this.#end ??= end.kind === 'failed' ? { error: end.error } : { result: { text: end.text, degraded: true } };
  }

  async outcome(orchestration: Orchestration): Promise<TurnOutcome> {
    orchestration(this).then(
      (result) => (this.#end ??= { result }),
      (error: unknown) => (this.#end ??= { error: asRunError(error) }),
    );
    try {
      for (;;) {
        const outcome = await this.#next();
        if (!outcome) continue;
        const isWhole = outcome.status === 'completed' && !outcome.degraded;
        if (!isWhole && outcome.status !== 'suspended') await this.#emitRest();
        return outcome;
      }
    } catch (thrown) {
      return this.#failed(asRunError(thrown));
    }
  }

  #use(key: string): void {
    if (this.#keys.has(key)) throw new RunError('internal', `the orchestration uses the key ${key} twice`);
    this.#keys.add(key);
  }

  /** One answer for the orchestration, or its outcome. */
  async #next(): Promise<TurnOutcome | undefined> {
    await allMicrotasks();
    const { state } = this.#growing;
    const after = this.#after.shift();
    if (after) {
      await after();
      return undefined;
    }
    if (this.signal.aborted && this.#working.size === 0) return this.#interrupted();
    const { value: fact } = this.#facts.next() as IteratorResult<OrchestrationFact, undefined>;
    if (fact) return this.#answer(fact);
    const end = this.#end;
    if (end && !this.signal.aborted) return 'error' in end ? this.#failed(end.error) : this.#completed(end.result);
    const isStopping = this.signal.aborted || this.#parked !== undefined;
    const nowMs = this.#ports.clock.now();
    const isDue = ({ key, dueMs = 0 }: Step) => !this.#working.has(key) && dueMs <= nowMs;
    const todo = isStopping ? [] : [...this.#steps.values()].filter(isDue);
    if (todo.length > 0) {
      const reason = this.#deps.stopRequested();
      if (reason) return { status: 'stopped', reason, state };
      await this.#emitRest();
      for (const step of todo) this.#begin(step);
    }
    if (this.#working.size === 0) return await this.#wait();
    await this.#whenDone.promise;
    this.#whenDone = Promise.withResolvers();
    return undefined;
  }

  #answer(fact: OrchestrationFact): undefined {
    this.#nowMs = fact.atMs;
    this.#workedMs = fact.workedMs;
    this.#lostMicrocents = fact.lostMicrocents;
    switch (fact.kind) {
      case 'step':
        return taken(this.#steps, fact.key).answer.resolve(fact.value) as undefined;
      case 'child':
        this.#answers.add(fact.end);
        return this.#children.answer(this.#received(fact.end)) as undefined;
      case 'decision': {
        const { decision } = fact;
        // A decision on a permission that is not waited for any more changes nothing.
        if (isPermit(decision.id) && !this.#questions.has(decision.id)) return undefined;
        return taken(this.#questions, decision.id).answer.resolve(decision) as undefined;
      }
      default:
        return assertNever(fact);
    }
  }

  /** What a child is asked, as it crosses. */
  #sent(asked: AskedChild): AskedChild {
    const { crossings } = this.#deps;
    if (!crossings) return asked;
    const { text, leak } = crossings.to(asked.agentId, asked.input, this.#denials);
    if (leak) this.emit(leakEvent(leak));
    return { ...asked, input: text };
  }

  /** What a child has answered, as it crosses back. */
  #received(end: ChildEnd): ChildEnd {
    const { crossings } = this.#deps;
    this.#denials = withDenials(this.#denials, end.leaks?.denials ?? []);
    if (!crossings) return end;
    const pass = (text: string) => {
      const { text: crossed, leak } = crossings.back(text, this.#denials);
      if (leak) this.emit(leakEvent(leak));
      return crossed;
    };
    return { ...end, text: pass(end.text), error: end.error && { ...end.error, message: pass(end.error.message) } };
  }

  #begin(step: Step): void {
    this.#working.add(step.key);
    void this.#perform(step)
      .catch((error: unknown): AfterStep => () => {
        throw error;
      })
      .then((after) => {
        this.#working.delete(step.key);
        this.#after.push(after);
        this.#whenDone.resolve();
      });
  }

  async #perform(step: Step): Promise<AfterStep> {
    const { key, work, costs, answer } = step;
    let permit: StepPermit | undefined;
    try {
      permit = costs && (await this.#deps.gate(costs, this.#growing.state, this.signal));
    } catch (thrown) {
      if (thrown instanceof TurnSuspension) return () => void (this.#parked ??= thrown.wait);
      return () => this.#refuse(step, asRunError(thrown));
    }
    let hasBegun = false;
    const begin = (signal: AbortSignal) => {
      hasBegun = true;
      return work(signal);
    };
    const settled = await within(longestMs, begin, this.#ports.clock, this.signal);
    if (settled.kind === 'value') {
      const value = this.#ports.redactor.json(settled.value ?? null);
      const spent = costs?.spent(value);
      if (spent) await permit?.settle(spent);
      this.#steps.delete(key);
      return async () => answer.resolve(await this.#keep(key, value, spent));
    }
    const spent = costs && { ...costs.spent(), ...(!hasBegun && { isCutOff: false }) };
    if (spent) await permit?.settle(spent);
    return () => {
      if (spent && spent.parts.length > 0) this.#lost.push(spent);
      const stopped = new RunError('cancelled', 'the run was stopped', { cause: this.signal.reason });
      this.#refuse(step, settled.kind === 'threw' ? settled.error : stopped);
    };
  }

  #refuse({ key, answer }: Step, error: unknown): void {
    this.#steps.delete(key);
    answer.reject(error);
  }

  /** From here on it is not done again. */
  async #keep(key: string, value: unknown, spent: StepSpent | undefined): Promise<unknown> {
    const nowMs = this.#ports.clock.now();
    const at = new Date(nowMs).toISOString();
    const emitted = this.#emitted;
    const workedMs = this.#run.workedMs();
    const paid = spent && { spent: spendingOf(spent) };
    const entry = { v: 1, t: 'orchestration_step', key, value, at, workedMs, emitted, ...paid } as const;
    this.#growing.add(entry);
    await this.#run.writer.commit({ entries: [entry] });
    this.#nowMs = nowMs;
    this.#workedMs = workedMs;
    this.#lostMicrocents = this.#growing.state.orchestration.lostMicrocents;
    return value;
  }

  /** Commits what the orchestration has emitted so far, and what it paid in vain. */
  async #emitRest(): Promise<void> {
    const { orchestration, costMicrocents } = this.#growing.state;
    const lost = this.#lost.splice(0);
    if ((this.#emitted <= orchestration.emitted && lost.length === 0) || this.#run.signals.lost) return;
    let cumulativeCostMicrocents = costMicrocents;
    for (const part of lost.flatMap(({ parts }) => parts)) {
      cumulativeCostMicrocents += part.costMicrocents;
      this.#run.writer.emitWithCommit({ ...costEvent(part), cumulativeCostMicrocents });
    }
    const emitted = Math.max(this.#emitted, orchestration.emitted);
    const spent = lost.length > 0 && { spent: lost.map(spendingOf).reduce(addSpending) };
    const entry = { v: 1, t: 'orchestration_emitted', emitted, ...spent } as const;
    this.#growing.add(entry);
    await this.#run.writer.commit({ entries: [entry] });
  }

  async #wait(): Promise<TurnOutcome> {
    const parked = this.#parked;
    if (!parked && this.#children.size() + this.#questions.size === 0)
      return this.#failed(new RunError('internal', 'the orchestration waits for nothing that could come'));
    const { clock, waits, children } = this.#ports;
    const { runId } = this.#run.record;
    const nowMs = clock.now();
    const unwanted = this.#children.unwanted();
    if (unwanted.length > 0)
      await children.stop(unwanted, { drain: false, onPendingApprovals: 'deny', reason: 'its answer is not needed' });
    const { pending, ...planned } = this.#children.wait(nowMs);
    const times = [...this.#steps.values()].flatMap(({ dueMs }) => dueMs ?? []);
    if (unwanted.length > 0) times.push(nowMs + lookAgainMs);
    const kinds = new Set([...this.#questions.values()].map(({ item }) => item.kind));
    const asks = kinds.has('approval') ? 'approval' : 'user_input';
    const wait: SuspendedWait = {
      reason: parked?.reason ?? (kinds.size > 0 ? asks : 'child'),
      pending: [...(parked?.pending ?? []), ...this.#asked(nowMs), ...pending],
      orchestration: { ...planned, emitted: this.#emitted },
      ...(times.length > 0 && { resumeAtMs: Math.min(...times) }),
      // Some may have ended while the run was running.
      joinWaitQueue: async () => (await waits.hasDecisions(runId)) || ((await parked?.joinWaitQueue?.()) ?? false),
    };
    return { status: 'suspended', wait, state: this.#growing.state };
  }

  #asked(nowMs: number): PendingItem[] {
    const requestedAt = new Date(nowMs).toISOString();
    return [...this.#questions].map(([id, { item }]) => ({ requestedAt, ...item, id }));
  }

  #completed({ text, output, blocked, degraded }: OrchestrationResult): TurnOutcome {
    return {
      status: 'completed',
      text,
      finishReason: degraded ? 'error' : 'stop',
      ...(output !== undefined && { output }),
      ...(blocked && { blocked }),
      emptyResponse: text === '',
      degraded: degraded === true,
      state: this.#growing.state,
    };
  }

  #failed(error: RunError): TurnOutcome {
    return { status: 'failed', error, engaged: true, partialText: '', state: this.#growing.state };
  }

  #interrupted(): TurnOutcome {
    const { reason } = this.signal;
    if (reason instanceof RunError && reason.code !== 'cancelled') return this.#failed(reason);
    return { status: 'cancelled', partialText: '', state: this.#growing.state };
  }
}

/** What the orchestration does with an answer that it has is done when this resolves. */
async function allMicrotasks(): Promise<void> {
  await new Promise((resolve) => void setImmediate(resolve));
}

function taken<T>(all: Map<string, T>, key: string): T {
  const one = all.get(key);
  all.delete(key);
  if (one) return one;
  throw notAsked(key);
}
