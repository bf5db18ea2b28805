import { defined } from '../../shared/base/defined.ts';
import type { CancelRequest, DecisionInput } from '../../shared/contract/control.ts';
import type { DialectEvent } from '../../shared/dialects/dialect.ts';
import type { RunEvent } from '../../shared/contract/event.ts';
import type { RunOutcomeView, RunStatus, RunView } from '../../shared/contract/run.ts';
import type { DecideOptions, DecisionAnswer } from './decide.ts';
import type { DialectEventsOptions, EventsOptions, ResultOptions } from './options.ts';
import { approval, denial, type ApproveCalls, type DenyCalls } from './verdicts.ts';

/** What a handle passes on to the client that made it. */
interface RunOperations {
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
    runId: string,
    status?: RunStatus,
    attached = false,
    warnings: readonly string[] = [],
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
