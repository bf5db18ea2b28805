import type { ChildEnd } from '../../shared/control.ts';
import { asRunError, assertNever, RunError } from '../../shared/errors.ts';
import type { EventBody, PendingItem } from '../../shared/event.ts';
import { runIdForChild } from '../../shared/ids.ts';
import type { PlannedRun } from '../tools/call.ts';
import { within } from '../tools/within.ts';
import type { StopReason, SuspendedWait } from '../turn/contract.ts';
import type { ProgramFact } from '../turn/program-facts.ts';
import { continueFrom, type GrowingState } from '../turn/state.ts';
import type { TurnOutcome } from '../turn/turn.ts';
import { longestMs } from './foreign-answer.ts';
import type { OpenRun } from './open.ts';
import type { AskedChild, ChildAnswer, Program, ProgramHost, ProgramResult, SpentOn } from './program.ts';

/** Whoever was told to stop has a worker that ends it, or none: then the next one does, when the lock is over. */
const lookAgainMs = 10_000;

interface Step {
  readonly key: string;
  readonly work: (signal: AbortSignal) => unknown;
  readonly spentOn: SpentOn | undefined;
  readonly answer: PromiseWithResolvers<unknown>;
}

interface Child {
  readonly asked: AskedChild;
  readonly answer: PromiseWithResolvers<ChildAnswer>;
}

interface Question {
  readonly question: string;
  readonly answer: PromiseWithResolvers<string>;
}

/**
 * Runs a program up to where it ends or waits for others. First it is answered everything that the journal knows, one answer
 * at a time, then its steps run here. Never rejects.
 */
export async function runProgram(
  program: Program,
  run: OpenRun,
  stopRequested: () => StopReason | undefined,
): Promise<TurnOutcome> {
  return await new ProgramRun(run, stopRequested).outcome(program);
}

class ProgramRun implements ProgramHost {
  readonly signal: AbortSignal;
  readonly #run: OpenRun;
  readonly #stopRequested: () => StopReason | undefined;
  readonly #growing: GrowingState;
  readonly #facts: Iterator<ProgramFact>;
  readonly #keys = new Set<string>();
  readonly #children = new Map<string, Child>();
  readonly #questions = new Map<string, Question>();
  /** Asked for and not answered by the journal; `#working` are those of them that run. */
  readonly #steps = new Map<string, Step>();
  readonly #working = new Set<string>();
  readonly #done: (() => Promise<void>)[] = [];
  #whenDone = Promise.withResolvers<void>();
  #emitted = 0;
  #nowMs: number;
  #end: { readonly result: ProgramResult } | { readonly error: RunError } | undefined;

  constructor(run: OpenRun, stopRequested: () => StopReason | undefined) {
    this.#run = run;
    this.#stopRequested = stopRequested;
    this.signal = run.signal;
    this.#growing = continueFrom(run.state);
    this.#facts = [...run.state.program.facts].values();
    this.#nowMs = Date.parse(run.record.startedAt ?? run.record.createdAt);
  }

  now(): number {
    return this.#nowMs;
  }

  emit(event: EventBody): void {
    // What a program makes of being stopped is no fact: whoever goes on with it is not stopped, and says something else.
    if (this.signal.aborted) return;
    this.#emitted++;
    if (this.#emitted > this.#growing.state.program.told) this.#run.writer.hold(event);
  }

  async step(key: string, work: (signal: AbortSignal) => unknown, spentOn?: SpentOn): Promise<unknown> {
    this.#use(key);
    const answer = Promise.withResolvers<unknown>();
    this.#steps.set(key, { key, work, spentOn, answer });
    return await answer.promise;
  }

  async child(key: string, asked: AskedChild): Promise<ChildAnswer> {
    this.#use(key);
    const runId = runIdForChild(this.#run.record.runId, key);
    const never = { kind: 'never', runId } as const;
    if (asked.signal?.aborted) return never;
    const answer = Promise.withResolvers<ChildAnswer>();
    this.#children.set(runId, { asked, answer });
    const onAbort = () => {
      // Who was asked is stopped at the next wait, and answers.
      if (this.#askedAt(runId) !== undefined) return;
      this.#children.delete(runId);
      answer.resolve(never);
    };
    asked.signal?.addEventListener('abort', onAbort, { once: true });
    return await answer.promise;
  }

  async ask(key: string, question: string): Promise<string> {
    this.#use(key);
    const answer = Promise.withResolvers<string>();
    this.#questions.set(key, { question, answer });
    return await answer.promise;
  }

  async outcome(program: Program): Promise<TurnOutcome> {
    program(this).then(
      (result) => (this.#end = { result }),
      (error: unknown) => (this.#end = { error: asRunError(error) }),
    );
    try {
      for (;;) {
        const outcome = await this.#next();
        if (!outcome) continue;
        if (outcome.status !== 'completed' && outcome.status !== 'suspended') await this.#tellRest();
        return outcome;
      }
    } catch (thrown) {
      return this.#failed(asRunError(thrown));
    }
  }

  #use(key: string): void {
    if (this.#keys.has(key)) throw new RunError('internal', `the program uses the key ${key} twice`);
    this.#keys.add(key);
  }

  /** One answer for the program, or what has become of it. */
  async #next(): Promise<TurnOutcome | undefined> {
    await allMicrotasks();
    const { state } = this.#growing;
    const done = this.#done.shift();
    if (done) {
      await done();
      return undefined;
    }
    if (this.signal.aborted && this.#working.size === 0) return this.#interrupted();
    const { value: fact } = this.#facts.next() as IteratorResult<ProgramFact, undefined>;
    if (fact) return this.#answer(fact);
    const end = this.#end;
    if (end && !this.signal.aborted) return 'error' in end ? this.#failed(end.error) : this.#completed(end.result);
    const todo = this.signal.aborted ? [] : [...this.#steps.values()].filter(({ key }) => !this.#working.has(key));
    if (todo.length > 0) {
      const reason = this.#stopRequested();
      if (reason) return { status: 'stopped', reason, state };
      await this.#tellRest();
      for (const step of todo) this.#begin(step);
    }
    if (this.#working.size === 0) return await this.#wait();
    await this.#whenDone.promise;
    this.#whenDone = Promise.withResolvers();
    return undefined;
  }

  #answer(fact: ProgramFact): undefined {
    this.#nowMs = fact.atMs;
    switch (fact.kind) {
      case 'step':
        return taken(this.#steps, fact.key).answer.resolve(fact.value) as undefined;
      case 'child': {
        const { end } = fact;
        const { asked, answer } = taken(this.#children, end.id);
        return answer.resolve({ kind: 'ended', runId: end.id, end, isLate: this.#isLate(asked, end) }) as undefined;
      }
      case 'said': {
        const { decision } = fact;
        const text =
          decision.kind === 'answer' ? decision.answer : `There is no answer: ${decision.reason ?? 'it was refused'}`;
        return taken(this.#questions, decision.id).answer.resolve(text) as undefined;
      }
      default:
        return assertNever(fact);
    }
  }

  #begin({ key, work, spentOn, answer }: Step): void {
    this.#working.add(key);
    const finish = (done: () => Promise<void>) => {
      this.#working.delete(key);
      this.#steps.delete(key);
      this.#done.push(done);
      this.#whenDone.resolve();
    };
    void within(longestMs, work, this.#run.clock, this.signal).then((settled) => {
      switch (settled.kind) {
        case 'value':
          return finish(async () => answer.resolve(await this.#keep(key, settled.value, spentOn)));
        case 'threw':
          return finish(async () => answer.reject(settled.error));
        case 'timeout':
        case 'aborted':
          return finish(async () =>
            answer.reject(new RunError('cancelled', 'the run was stopped', { cause: this.signal.reason })),
          );
        default:
          return assertNever(settled);
      }
    });
  }

  /** From here on nobody does it again. */
  async #keep(key: string, answered: unknown, spentOn: SpentOn | undefined): Promise<unknown> {
    const value: unknown = JSON.parse(JSON.stringify(answered ?? null));
    const nowMs = this.#run.clock.now();
    const at = new Date(nowMs).toISOString();
    const entry = {
      v: 1,
      t: 'stepped',
      key,
      value,
      at,
      told: this.#emitted,
      ...(spentOn && { spent: spentOn(value) }),
    } as const;
    this.#growing.add(entry);
    await this.#run.writer.commit({ entries: [entry] });
    this.#nowMs = nowMs;
    return value;
  }

  /** What the program has said so far goes into the log, and the journal knows that it did. */
  async #tellRest(): Promise<void> {
    const told = this.#emitted;
    if (told <= this.#growing.state.program.told || this.#run.signals.lost) return;
    const entry = { v: 1, t: 'told', told } as const;
    this.#growing.add(entry);
    await this.#run.writer.commit({ entries: [entry] });
  }

  async #wait(): Promise<TurnOutcome> {
    if (this.#children.size + this.#questions.size === 0)
      return this.#failed(new RunError('internal', 'the program waits for nothing that could come'));
    const { clock, record, waits, children } = this.#run;
    const nowMs = clock.now();
    const stopping = [...this.#children].filter(([id, child]) => this.#mustStop(id, child, nowMs)).map(([id]) => id);
    if (stopping.length > 0)
      await children.stop(stopping, { drain: false, onPendingApprovals: 'deny', reason: 'its answer is not needed' });
    const due = [...this.#children.entries()].flatMap(([id, { asked }]) =>
      asked.durationMs === undefined || stopping.includes(id) ? [] : [(this.#askedAt(id) ?? nowMs) + asked.durationMs],
    );
    const looks = stopping.length > 0 ? [...due, nowMs + lookAgainMs] : due;
    const wait: SuspendedWait = {
      reason: this.#questions.size > 0 ? 'user_input' : 'child',
      pending: this.#pending(nowMs),
      program: { children: this.#planned(), told: this.#emitted },
      ...(looks.length > 0 && { resumeAtMs: Math.min(...looks) }),
      // Some may have ended while the run was at work.
      standInLine: () => waits.hasDecisions(record.runId),
    };
    return { status: 'suspended', wait, state: this.#growing.state };
  }

  #pending(nowMs: number): PendingItem[] {
    const iso = (ms: number) => new Date(ms).toISOString();
    return [
      ...[...this.#questions].map(([id, { question: reason }]) => ({
        kind: 'user_input' as const,
        id,
        reason,
        requestedAt: iso(nowMs),
      })),
      ...[...this.#children].map(([id, { asked }]) => ({
        kind: 'child' as const,
        id,
        args: { agentId: asked.agentId },
        requestedAt: iso(this.#askedAt(id) ?? nowMs),
      })),
    ];
  }

  #planned(): PlannedRun[] {
    return [...this.#children].map(
      ([
        id,
        {
          asked: { agentId, input },
        },
      ]) => ({
        id,
        spec: { agentId, input, expose: 'all' },
      }),
    );
  }

  #askedAt(runId: string): number | undefined {
    return this.#growing.state.program.children.get(runId);
  }

  #mustStop(id: string, { asked }: Child, nowMs: number): boolean {
    const askedAt = this.#askedAt(id);
    if (askedAt === undefined) return false;
    return asked.signal?.aborted === true || askedAt + (asked.durationMs ?? Number.POSITIVE_INFINITY) <= nowMs;
  }

  /** Decided by what the journal knows, so that it is decided alike every time. */
  #isLate({ durationMs = Number.POSITIVE_INFINITY }: AskedChild, { id, status, at }: ChildEnd): boolean {
    return status === 'cancelled' && Date.parse(at) >= (this.#askedAt(id) ?? 0) + durationMs;
  }

  #completed({ text, output, blocked }: ProgramResult): TurnOutcome {
    return {
      status: 'completed',
      text,
      finishReason: 'stop',
      ...(output !== undefined && { output }),
      ...(blocked && { blocked }),
      emptyResponse: text === '',
      degraded: false,
      state: this.#growing.state,
    };
  }

  #failed(error: RunError): TurnOutcome {
    return { status: 'failed', error, engaged: true, partialText: '', state: this.#growing.state };
  }

  #interrupted(): TurnOutcome {
    const { reason } = this.signal;
    if (reason instanceof RunError && reason.code !== 'cancelled') return this.#failed(reason);
    return { status: 'cancelled', state: this.#growing.state };
  }
}

/** What the program does with an answer that it has is done when this resolves. */
async function allMicrotasks(): Promise<void> {
  await new Promise((resolve) => void setImmediate(resolve));
}

function taken<T>(all: Map<string, T>, key: string): T {
  const one = all.get(key);
  all.delete(key);
  if (one) return one;
  throw new RunError(
    'run_state_malformed',
    `the program does not ask for ${key} any more, which it was answered before`,
  );
}
