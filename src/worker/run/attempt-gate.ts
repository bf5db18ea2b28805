import type { BreakerPolicy } from '../../shared/agent.ts';
import type { Clock } from '../../shared/clock.ts';
import { RunError } from '../../shared/errors.ts';
import type { EventBody, PendingItem } from '../../shared/event.ts';
import type { Log } from '../../shared/log.ts';
import { formatUsd, zeroUsage } from '../../shared/money.ts';
import { costOfCall, maxOutputTokensOf, promptTokensOf, type CallCost } from '../llm/estimate.ts';
import type { AttemptEnd, Permit, PlannedAttempt } from '../llm/chain-call.ts';
import { mayBeBilled, type LlmError } from '../llm/errors.ts';
import type {
  AccountState,
  Admission,
  Grant,
  GrantOutcome,
  GrantRequest,
  Ports,
  Purse,
  Reservation,
} from '../ports.ts';
import { TurnSuspension } from '../turn/contract.ts';

export interface GateOptions {
  readonly ports: Pick<Ports, 'breakers' | 'governor' | 'ledger'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly purse: Purse;
  /** Tells this holder's reservations from those of an earlier one. */
  readonly owner: string;
  readonly weight: number;
  readonly breaker: Pick<BreakerPolicy, 'failureThreshold' | 'cooldownMs'>;
  /** Longest wait that holds a worker, in milliseconds. */
  readonly patienceMs: number;
  readonly denyUnpriced: boolean;
  /** A person allowed this step to pass the caps. */
  approved(step: number): boolean;
  readonly emit: (event: EventBody) => void;
  /** Told of money that moves, in microcents; for metrics. */
  readonly meter?: MoneyMeter;
  /** Runs that fit now. */
  readonly wake: (runIds: readonly string[]) => void;
}

export interface MoneyMeter {
  reserved(agentId: string, microcents: number): void;
  spent(agentId: string, microcents: number): void;
  /** A call that may have been billed without saying for how much. */
  presumed(agentId: string): void;
}

/** A run that is kept out of a line looks again after this, in case its wake-up got lost. */
const recheckMs = 600_000;
const settleTries = 4;
const firstRetryMs = 50;
const longestRetryMs = 500;

/**
 * The gate before every attempt of a run: is the model known to be down, does the fleet's share of the provider's limits
 * allow a call, is there money for it. In this order, because money that is held while a run waits for its turn is
 * missing elsewhere. What was taken is given back by the permit's `settle`, or here when a later question is answered no.
 */
export class AttemptGate {
  readonly #options: GateOptions;
  readonly #warned = new Set<string>();
  #attempt = 0;

  constructor(options: GateOptions) {
    this.#options = options;
  }

  /**
   * Throws `budget_exceeded` or `budget_unpriced` where the run must end, and `TurnSuspension` where it must wait without
   * a worker.
   */
  async admit(planned: PlannedAttempt, signal: AbortSignal): Promise<Permit> {
    const { ports, patienceMs, breaker } = this.#options;
    const target = `${planned.provider.id}/${planned.request.model}`;
    const admission = await ports.breakers.admit(target, patienceMs, signal);
    if (admission.kind === 'open')
      return { kind: 'skip', reason: 'circuit_open', retryAfterMs: admission.retryAfterMs };
    const report = (outcome: 'success' | 'failure' | 'neutral') =>
      ports.breakers.report(target, outcome, admission, breaker);
    try {
      const grant = await this.#takeTurn(planned, signal);
      try {
        const paid = await this.#takeMoney(planned, signal);
        return {
          kind: 'go',
          ...(paid.maxOutputTokens !== undefined && { maxOutputTokens: paid.maxOutputTokens }),
          settle: (end) => this.#settle(planned, paid.id, grant, admission, report, end),
        };
      } catch (error) {
        await ports.governor.settle(grant, { unused: true }).catch((cause: unknown) => this.#lost(cause));
        throw error;
      }
    } catch (error) {
      await report('neutral').catch((cause: unknown) => this.#lost(cause));
      throw error;
    }
  }

  async #takeTurn({ provider, request }: PlannedAttempt, signal: AbortSignal): Promise<Grant> {
    const { ports, patienceMs, purse, weight, clock } = this.#options;
    const wanted: GrantRequest = {
      limiter: `${provider.credential ?? provider.id}:${request.model}`,
      limits: provider.limitsOf?.(request.model) ?? {},
      runId: purse.runId,
      tenant: purse.tenant,
      weight,
      promptTokens: promptTokensOf(request),
      maxOutputTokens: maxOutputTokensOf(request),
    };
    const answer = await ports.governor.acquire(wanted, patienceMs, signal);
    if (answer.kind === 'granted') return answer.grant;
    const item: PendingItem = {
      kind: 'provider_limit',
      id: `${provider.id}:${request.model}`,
      requestedAt: new Date(clock.now()).toISOString(),
      reason: `the provider's limits leave no room for about ${Math.ceil(answer.expectedMs / 1000)} s`,
    };
    throw new TurnSuspension({
      reason: 'provider_limit',
      pending: [item],
      recheckMs,
      standInLine: async () => {
        await ports.governor.park(wanted);
        return false;
      },
    });
  }

  async #takeMoney(
    { step, provider, price, fixedMicrocents, request, optional = false }: PlannedAttempt,
    signal: AbortSignal,
  ): Promise<{ readonly id: string; readonly maxOutputTokens?: number }> {
    const { ports, purse, owner, denyUnpriced } = this.#options;
    const id = `${owner}:${++this.#attempt}`;
    if (!ports.ledger.isCapped(purse)) return { id };
    if (!price && fixedMicrocents === undefined && denyUnpriced) {
      throw new RunError('budget_unpriced', `no price is known for model ${request.model}, and the budget denies that`);
    }
    const cost: CallCost | undefined = price && costOfCall(request, price);
    const most = fixedMicrocents ?? cost?.most ?? 0;
    const least = fixedMicrocents ?? cost?.least ?? 0;
    const ask = () =>
      ports.ledger.reserve({
        purse,
        id,
        provider: provider.id,
        model: request.model,
        wanted: most,
        least,
        force: !optional && this.#options.approved(step),
      });
    const reservation = await this.#patiently(ask, signal);
    if (reservation.kind !== 'reserved') throw this.#refusal(reservation, least, optional);
    this.#options.meter?.reserved(purse.agentId, reservation.amount);
    for (const account of reservation.warnings) this.#warn(account);
    // What the ledger adds for models that turned out dearer than estimated does not make the answer longer.
    return cost && reservation.amount < most
      ? { id, maxOutputTokens: Math.max(1, cost.outputTokensFor(reservation.amount)) }
      : { id };
  }

  /** Calls of others that are under way may turn out cheaper than what is held for them: that is worth a short wait. */
  async #patiently(ask: () => Promise<Reservation>, signal: AbortSignal): Promise<Reservation> {
    const { clock, patienceMs } = this.#options;
    const until = clock.monotonic() + patienceMs;
    for (let waitMs = firstRetryMs; ; waitMs = Math.min(waitMs * 2, longestRetryMs)) {
      const answer = await ask();
      if (answer.kind !== 'busy' || clock.monotonic() + waitMs > until) return answer;
      await clock.sleep(waitMs, signal);
    }
  }

  #refusal(answer: Exclude<Reservation, { kind: 'reserved' }>, needed: number, optional: boolean): Error {
    const { account } = answer;
    if (optional || (answer.kind === 'exceeded' && answer.onExceed === 'fail')) {
      return new RunError('budget_exceeded', `the next model call could pass the cap of ${figures(account, needed)}`, {
        details: { scope: account.scope, id: account.id },
      });
    }
    const { ports, purse, emit, clock } = this.#options;
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
      standInLine: () => ports.ledger.await(purse, { scope, id }, needed),
    });
  }

  #warn({ scope, id, spentMicrocents, capMicrocents: limitMicrocents }: AccountState): void {
    const name = `${scope}:${id}`;
    if (this.#warned.has(name)) return;
    this.#warned.add(name);
    const thresholdPct = Math.round((spentMicrocents * 100) / Math.max(1, limitMicrocents));
    this.#options.emit({ type: 'budget.warning', spentMicrocents, limitMicrocents, thresholdPct });
  }

  async #settle(
    { provider, request, price, fixedMicrocents }: PlannedAttempt,
    id: string,
    grant: Grant,
    admission: Admission,
    report: (outcome: 'success' | 'failure' | 'neutral') => Promise<void>,
    end: AttemptEnd,
  ): Promise<void> {
    const { ports, purse, wake, meter } = this.#options;
    const { usage = zeroUsage, costMicrocents, priced, error } = end;
    const settlement = {
      purse,
      id,
      provider: provider.id,
      model: request.model,
      usage,
      costMicrocents,
      ...(price &&
        fixedMicrocents === undefined &&
        end.usage && { expectedMicrocents: costOfCall(request, price).costWith(end.usage.output) }),
      priced,
      presumed: error !== undefined && mayBeBilled(error),
    };
    meter?.spent(purse.agentId, costMicrocents);
    if (settlement.presumed) meter?.presumed(purse.agentId);
    const paid = this.#insist(() => ports.ledger.settle(settlement)).then(wake);
    const results = await Promise.allSettled([
      report(healthOf(error, admission)),
      ports.governor.settle(grant, outcomeOf(end)),
      paid,
    ]);
    for (const result of results) if (result.status === 'rejected') this.#lost(result.reason);
  }

  /** Money that stays held is missing to others for long: a store that is away for a moment is asked again. */
  async #insist<T>(settle: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await settle();
      } catch (error) {
        if (tries >= settleTries) throw error;
        await this.#options.clock.sleep(100 * 2 ** tries);
      }
    }
  }

  /** The answer is there and paid for: a store that is away must not take it back. The next claim sorts it out. */
  #lost(cause: unknown): void {
    this.#options.log.warn({ err: cause, runId: this.#options.purse.runId }, 'an attempt was not settled');
  }
}

function figures(
  { scope, id, spentMicrocents, reservedMicrocents, capMicrocents }: AccountState,
  needed: number,
): string {
  const held = reservedMicrocents > 0 ? `, ${formatUsd(reservedMicrocents)} held for calls under way` : '';
  const name = scope === 'run' ? 'the run' : `${scope} ${id}`;
  return `${name}: ${formatUsd(spentMicrocents)} spent${held}, ${formatUsd(needed)} needed, cap ${formatUsd(capMicrocents)}`;
}

/**
 * What an attempt says about the health of its model. Refusals of this very request say nothing. A 429 is the
 * governor's: it makes runs wait, where an open breaker would make them fail.
 */
function healthOf(error: LlmError | undefined, admission: Admission): 'success' | 'failure' | 'neutral' {
  switch (error?.kind) {
    case undefined:
      return 'success';
    case 'overloaded':
    case 'timeout':
    case 'transport':
      return 'failure';
    case 'cancelled':
    case 'unknown':
      return 'neutral';
    default:
      // The model answered, if only to refuse: a probe has found out what it was sent for.
      return admission.kind === 'probe' ? 'success' : 'neutral';
  }
}

function outcomeOf({ usage, rateLimit, error }: AttemptEnd): GrantOutcome {
  return {
    ...(usage && {
      usedTokens: usage.input + usage.cached + usage.cacheWrite + usage.output,
      outputTokens: usage.output,
    }),
    ...(rateLimit && { report: rateLimit }),
    ...(error?.kind === 'rate_limit' && {
      limited: { ...(error.retryAfterMs !== undefined && { retryAfterMs: error.retryAfterMs }) },
    }),
  };
}
