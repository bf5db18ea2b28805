import type { Clock } from '../../shared/base/clock.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { EventBody, PendingItem } from '../../shared/contract/event.ts';
import type { Log } from '../../shared/base/log.ts';
import { formatUsd } from '../../shared/contract/money.ts';
import type { HoldRequest, Ledger, Reservation, ReserveRequest, Settlement } from '../../shared/state/money/ledger.ts';
import type { AccountState, Accounts } from '../../shared/state/money/accounts.ts';
import { TurnSuspension } from '../turn/turn-ports.ts';

export interface BudgetGateOptions {
  readonly ports: { readonly ledger: Ledger };
  readonly clock: Clock;
  readonly log: Log;
  readonly accounts: Accounts;
  /** Distinguishes this owner's reservations from those of an earlier one. */
  readonly owner: string;
  /** Longest wait on a worker, in milliseconds. */
  readonly maxInlineWaitMs: number;
  readonly emit: (event: EventBody) => void;
  /** The name under which a model is counted. Absent: its own. */
  readonly modelName?: ((model: string) => string) | undefined;
  /** Gets money that moves, in microcents; for metrics. */
  readonly meter?: MoneyMeter | undefined;
  /** Runs that fit now. */
  readonly wake: (runIds: readonly string[]) => void;
}

export interface MoneyMeter {
  reserved(agentId: string, microcents: number): void;
  spent(agentId: string, microcents: number): void;
  /** A call that may have been billed for an unknown amount. */
  unconfirmed(agentId: string): void;
}

type Holding = Pick<HoldRequest, 'provider' | 'model' | 'amount' | 'force'>;

/** What is about to be paid for. `optional`: without money it is skipped, and the run does not wait. */
export interface Purchase extends Pick<
  ReserveRequest,
  'provider' | 'model' | 'wanted' | 'least' | 'force' | 'closing'
> {
  /** In words, for people. */
  readonly what: string;
  readonly optional?: boolean;
}

const settleTries = 4;
const firstRetryMs = 50;
const longestRetryMs = 500;

/** Reserves money of a run's accounts before it is spent, and counts what was paid. */
export class BudgetGate {
  readonly #options: BudgetGateOptions;
  #purchases = 0;

  constructor(options: BudgetGateOptions) {
    this.#options = options;
  }

  /** Without a cap nothing has to be reserved. */
  get isCapped(): boolean {
    return this.#options.ports.ledger.isCapped(this.#options.accounts);
  }

  /** Names come from callers and adapters; those that are not configured share one. */
  modelName(model: string): string {
    return this.#options.modelName?.(model) ?? model;
  }

  /** Names the next purchase. */
  nextId(): string {
    return `${this.#options.owner}:${++this.#purchases}`;
  }

  /** Answers how much is reserved. Throws `budget_exceeded` where the run must end, `TurnSuspension` where it must wait. */
  async reserve(id: string, { what, optional = false, ...wanted }: Purchase, signal: AbortSignal): Promise<number> {
    const { ports, accounts, meter, emit } = this.#options;
    const model = this.modelName(wanted.model);
    const ask = () => ports.ledger.reserve({ accounts, id, ...wanted, model, force: wanted.force && !optional });
    const reservation = await this.#untilNotBusy(ask, signal);
    if (reservation.kind !== 'reserved') throw this.#refusal(reservation, wanted.least, what, optional);
    meter?.reserved(accounts.agentId, reservation.amount);
    for (const { spentMicrocents, capMicrocents: limitMicrocents } of reservation.warnings) {
      const thresholdPct = Math.round((spentMicrocents * 100) / Math.max(1, limitMicrocents));
      emit({ type: 'budget.warning', spentMicrocents, limitMicrocents, thresholdPct });
    }
    return reservation.amount;
  }

  /** Holds this much for the closing call. Throws as `reserve` does. */
  async hold({ provider, model: name, amount, force }: Holding, signal: AbortSignal): Promise<void> {
    const { ports, accounts } = this.#options;
    const ask = () => ports.ledger.hold({ accounts, provider, model: this.modelName(name), amount, force });
    const answer = await this.#untilNotBusy(ask, signal);
    if (answer.kind !== 'reserved') throw this.#refusal(answer, amount, 'closing answer', false);
  }

  /** Counts what was paid. A store that is away for a moment is asked again; then it throws `queue_unavailable`. */
  async settle(paid: Omit<Settlement, 'accounts'>): Promise<void> {
    const { ports, accounts, meter, wake } = this.#options;
    meter?.spent(accounts.agentId, paid.costMicrocents);
    if (paid.unconfirmed) meter?.unconfirmed(accounts.agentId);
    const model = this.modelName(paid.model);
    const parts = paid.parts?.map((part) => ({ ...part, model: this.modelName(part.model) }));
    wake(await this.#retried(() => ports.ledger.settle({ accounts, ...paid, model, parts })));
  }

  /** Releases a reservation that nothing was paid with. Throws as `settle` does. */
  async release(id: string): Promise<void> {
    const { ports, accounts, wake } = this.#options;
    wake(await this.#retried(() => ports.ledger.release(accounts, id)));
  }

  /** What was bought is there and paid for: a store that is away must not take it back. The next claim sorts it out. */
  lost(cause: unknown): void {
    this.#options.log.warn({ err: cause }, 'an attempt was not settled');
  }

  /** Calls of others that are under way may turn out cheaper than their reservations: that is worth a short wait. */
  async #untilNotBusy(ask: () => Promise<Reservation>, signal: AbortSignal): Promise<Reservation> {
    const { clock, maxInlineWaitMs } = this.#options;
    const until = clock.monotonic() + maxInlineWaitMs;
    for (let waitMs = firstRetryMs; ; waitMs = Math.min(waitMs * 2, longestRetryMs)) {
      const answer = await ask();
      if (answer.kind !== 'busy' || clock.monotonic() + waitMs > until) return answer;
      await clock.sleep(waitMs, signal);
    }
  }

  #refusal(answer: Exclude<Reservation, { kind: 'reserved' }>, needed: number, what: string, optional: boolean): Error {
    const { account } = answer;
    if (optional || (answer.kind === 'exceeded' && answer.onExceed === 'fail')) {
      return new RunError('budget_exceeded', `the next ${what} could pass the cap of ${figures(account, needed)}`, {
        details: { scope: account.scope, id: account.id },
      });
    }
    const { ports, accounts, emit, clock } = this.#options;
    const { scope, id, spentMicrocents, capMicrocents: limitMicrocents } = account;
    const gateId = `${scope}:${id}`;
    emit({ type: 'budget.paused', spentMicrocents, limitMicrocents, gateId, scope, accountId: id });
    const item: PendingItem = {
      kind: 'budget',
      id: gateId,
      requestedAt: new Date(clock.now()).toISOString(),
      reason: `no money left in ${figures(account, needed)}`,
      args: { neededMicrocents: needed },
    };
    return new TurnSuspension({
      reason: 'budget',
      pending: [item],
      joinWaitQueue: () => ports.ledger.await(accounts, { scope, id }, needed),
    });
  }

  /** A reservation that stays open is missing to others for long. */
  async #retried<T>(settle: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await settle();
      } catch (error) {
        if (tries >= settleTries) throw error;
        await this.#options.clock.sleep(100 * 2 ** tries);
      }
    }
  }
}

function figures({ scope, id, spentMicrocents, reservedMicrocents, capMicrocents }: AccountState, needed: number) {
  const reserved = reservedMicrocents > 0 ? `, ${formatUsd(reservedMicrocents)} reserved for calls under way` : '';
  const name = scope === 'run' ? 'the run' : `${scope} ${id}`;
  return `${name}: ${formatUsd(spentMicrocents)} spent${reserved}, ${formatUsd(needed)} needed, cap ${formatUsd(capMicrocents)}`;
}
