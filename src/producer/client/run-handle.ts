import { defined } from '../../shared/base/collections.ts';
import type { CancelRequest, DecisionInput } from '../../shared/contract/control.ts';
import type { DialectEvent } from '../../shared/dialects/dialect.ts';
import type { RunEvent, PendingView } from '../../shared/contract/event.ts';
import { isTerminalStatus } from '../../shared/contract/plain/ends.ts';
import type { RunOutcomeView, RunStatus, RunView } from '../../shared/contract/run.ts';
import { alreadyEnded } from './accept/already-ended.ts';
import type { DecideOptions, DecisionAnswer } from './decide.ts';
import type { Accepted } from './enqueue.ts';
import type { DialectEventsOptions, EventsOptions, ResultOptions } from './options.ts';
import { isAboutCall, pendingNameOf } from '../../shared/contract/plain/pending.ts';
import { RunError } from '../../shared/base/run-error.ts';

/** What a handle passes on to the client that made it. */
export interface RunOperations {
  events(runId: string, options?: EventsOptions): AsyncIterable<RunEvent>;
  events(runId: string, options: DialectEventsOptions): AsyncIterable<DialectEvent>;
  result(runId: string, options?: ResultOptions): Promise<RunOutcomeView>;
  cancel(runId: string, request?: Partial<CancelRequest>): Promise<RunView>;
  get(runId: string): Promise<RunView>;
  decide(runId: string, decision: DecisionInput, options?: DecideOptions): Promise<DecisionAnswer>;
}

/** One run of one client. Needs no closing. */
export class RunHandle {
  readonly runId: string;
  /** The state when `enqueue` answered; undefined on a handle made by `Millrace.run`. */
  readonly status: RunStatus | undefined;
  /** The execution id was known already, and this is its run. */
  readonly attached: boolean;
  /** What the caller should know about a run that was accepted: that no live worker serves its queue. */
  readonly warnings: readonly string[];
  readonly #operations: RunOperations;

  constructor(
    operations: RunOperations,
    { runId, status, attached = false, warnings = [] }: Pick<Accepted, 'runId'> & Partial<Accepted>,
  ) {
    this.#operations = operations;
    this.runId = runId;
    this.status = status;
    this.attached = attached;
    this.warnings = warnings;
  }

  /** See {@link Millrace.events}. */
  events(options?: EventsOptions & { readonly dialect?: undefined }): AsyncIterable<RunEvent>;
  events(options: DialectEventsOptions): AsyncIterable<DialectEvent>;
  events(options: EventsOptions | DialectEventsOptions = {}): AsyncIterable<RunEvent | DialectEvent> {
    return this.#operations.events(this.runId, options);
  }

  /** See {@link Millrace.result}. A failed run does not throw: `status` and `error` say so. */
  result(options?: ResultOptions): Promise<RunOutcomeView> {
    return this.#operations.result(this.runId, options);
  }

  /** See {@link Millrace.cancel}. */
  cancel(request?: Partial<CancelRequest>): Promise<RunView> {
    return this.#operations.cancel(this.runId, request);
  }

  /**
   * Grants calls: those named, or everything that the run waits for when none is (money included, for one step). Throws as
   * {@link Millrace.decide}, and `approval_not_pending` when there is nothing to grant.
   *
   * @example
   * await run.approve({ calls: 'call_1', updatedArgs: { amount: 50 }, by: 'kim' });
   */
  async approve({ by, idempotencyKey, ...asked }: ApproveCalls & DecideOptions = {}): Promise<DecisionAnswer> {
    const options = defined({ by, idempotencyKey });
    return this.#operations.decide(this.runId, approval(await this.get(), asked), options);
  }

  /**
   * Denies calls: those named, or everything that the run waits for when none is (for money that ends the run). The model is
   * informed, with the reason, unless the agent says that a denial fails the run. Throws as {@link approve}.
   */
  async deny({ by, idempotencyKey, ...asked }: DenyCalls & DecideOptions = {}): Promise<DecisionAnswer> {
    const options = defined({ by, idempotencyKey });
    return this.#operations.decide(this.runId, denial(await this.get(), asked), options);
  }

  /**
   * Answers a question of the model, or gives the result of a call that was carried out elsewhere. Throws as
   * {@link Millrace.decide}.
   */
  answer(toolCallId: string, answer: string, options?: DecideOptions): Promise<DecisionAnswer> {
    return this.#operations.decide(this.runId, { answers: [{ toolCallId, answer }] }, options);
  }

  /** Fails a run that waits for money with `budget_exceeded`. See {@link Millrace.decide}. */
  reject(reason?: string, options?: DecideOptions): Promise<DecisionAnswer> {
    const decision = { budget: 'reject', reason } as const;
    return this.#operations.decide(this.runId, decision, options);
  }

  /** Adds dollars to the account that a run waits for. See {@link Millrace.decide}. */
  topUp(usd: number, options?: DecideOptions): Promise<DecisionAnswer> {
    return this.#operations.decide(this.runId, { budget: { topUpUsd: usd } }, options);
  }

  /** See {@link Millrace.get}. */
  get(): Promise<RunView> {
    return this.#operations.get(this.runId);
  }
}

export interface ApproveCalls {
  /** Absent: everything that the run waits for and that can be granted. */
  readonly calls?: string | readonly string[];
  /** The call runs with these arguments in place of the model's. Needs exactly one call. */
  readonly updatedArgs?: Readonly<Record<string, unknown>>;
  readonly reason?: string;
}

export interface DenyCalls {
  /** Absent: everything that the run waits for. */
  readonly calls?: string | readonly string[];
  readonly reason?: string;
}

type Waiting = Pick<RunView, 'runId' | 'status' | 'pending'>;

/**
 * The decision that grants calls of a run, or all that it waits for: calls, and money for one step. Throws
 * `approval_not_pending` when there is nothing to grant, `already_terminal`, and `validation` for arguments without one call
 * that they are for.
 */
export function approval(run: Waiting, { calls, updatedArgs, reason }: ApproveCalls): DecisionInput {
  const ids = listed(calls) ?? open(run, ({ kind }) => kind === 'approval' || kind === 'unknown_outcome');
  const money = calls === undefined && updatedArgs === undefined && waitsForMoney(run);
  if (ids.length === 0 && !money) throw nothing(run, 'be approved');
  if (updatedArgs && ids.length !== 1) {
    throw new RunError(
      'validation',
      `arguments need exactly one call: run ${run.runId} waits for ${ids.join(' and ')}; name the one that they are for`,
    );
  }
  const approvals = ids.map((toolCallId) => ({
    toolCallId,
    granted: true,
    updatedArgs: updatedArgs ? { ...updatedArgs } : undefined,
  }));
  return decision(approvals, money ? 'approve' : undefined, reason);
}

/** The decision that denies calls of a run, or all that it waits for; of money, that ends it. Throws as {@link approval}. */
export function denial(run: Waiting, { calls, reason }: DenyCalls): DecisionInput {
  const ids = listed(calls) ?? open(run, () => true);
  const money = calls === undefined && waitsForMoney(run);
  if (ids.length === 0 && !money) throw nothing(run, 'be denied');
  const approvals = ids.map((toolCallId) => ({ toolCallId, granted: false }));
  return decision(approvals, money ? 'reject' : undefined, reason);
}

/** The call that an answer is for when none is named: the only one that takes an answer. Throws `validation`. */
export function questionOf(run: Waiting): string {
  const ids = open(run, ({ kind, mode }) => kind === 'user_input' || kind === 'unknown_outcome' || mode === 'deferred');
  const [id] = ids;
  if (id === undefined) throw nothing(run, 'be answered');
  if (ids.length === 1) return id;
  throw new RunError(
    'validation',
    `run ${run.runId} waits for answers to ${ids.join(' and ')}: name the one that this is for`,
  );
}

function decision(
  approvals: readonly { readonly toolCallId: string; readonly granted: boolean }[],
  budget: 'approve' | 'reject' | undefined,
  reason: string | undefined,
): DecisionInput {
  return { approvals: approvals.length > 0 ? [...approvals] : undefined, budget, reason };
}

function listed(calls: string | readonly string[] | undefined): readonly string[] | undefined {
  return typeof calls === 'string' ? [calls] : calls;
}

function open({ pending }: Waiting, suits: (item: PendingView) => boolean): string[] {
  return pending.filter((item) => isAboutCall(item) && suits(item)).map(pendingNameOf);
}

function waitsForMoney({ status, pending }: Waiting): boolean {
  return status === 'suspended' && pending.some(({ kind }) => kind === 'budget');
}

function nothing({ runId, status, pending }: Waiting, be: string): RunError {
  if (isTerminalStatus(status)) return alreadyEnded(runId);
  const asked = pending.filter(({ kind }) => kind === 'user_input').map(pendingNameOf);
  const hint = asked.length > 0 && be === 'be approved' ? `; it asks a question (${asked.join(', ')}): answer it` : '';
  return new RunError('approval_not_pending', `run ${runId} waits for nothing that can ${be}${hint}`);
}
