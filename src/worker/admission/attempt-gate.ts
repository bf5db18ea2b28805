import type { Ledger } from '../../shared/state/money/ledger.ts';
import type { BreakerPolicy } from '../../shared/contract/agent/agent.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { PendingItem } from '../../shared/contract/event.ts';
import { zeroUsage } from '../../shared/contract/money.ts';
import { closingCostOf, costOfCall, maxOutputTokensOf, promptTokensOf, type CallCost } from '../llm/cost.ts';
import type { AttemptEnd, Permit, PlannedAttempt } from '../llm/chain-call.ts';
import { mayBeBilled, type LlmError } from '../llm/errors.ts';
import type { Admission, Breakers, CallHealth } from '../../shared/state/limits/breakers.ts';
import type { RateLimiter, Grant, GrantOutcome, GrantRequest } from '../../shared/state/limits/rate/rate-limiter.ts';
import { TurnSuspension } from '../turn/turn-ports.ts';
import { BudgetGate, type BudgetGateOptions } from './budget-gate.ts';

export interface GateOptions extends BudgetGateOptions {
  readonly ports: { readonly breakers: Breakers; readonly rateLimiter: RateLimiter; readonly ledger: Ledger };
  readonly weight: number;
  readonly breaker: Pick<BreakerPolicy, 'failureThreshold' | 'cooldownMs'>;
  readonly denyUnpriced: boolean;
  /** A person allowed this step to pass the caps. */
  approved(step: number): boolean;
}

/** What an attempt holds until it is settled; `id` names its reservation. */
interface Taken {
  readonly id: string;
  readonly grant: Grant;
  readonly admission: Admission;
  readonly report: (outcome: CallHealth) => Promise<void>;
}

/** A run in a wait queue looks again after this, in case its wake-up got lost. */
const recheckMs = 600_000;

/**
 * The gate before every attempt of a run; limits, rules of the agent and compaction come before it, in `next-move.ts` and
 * `model-step.ts`. It asks: is the model known to be down, does the fleet's share of the provider's limits
 * allow a call, is there money for it. In this order, because money that is reserved while a run waits for its turn is
 * missing elsewhere. The permit's `settle` releases what was taken; so does this gate when a later question is answered no.
 */
export class AttemptGate {
  readonly #options: GateOptions;
  readonly #budgetGate: BudgetGate;

  constructor(options: GateOptions) {
    this.#options = options;
    this.#budgetGate = new BudgetGate(options);
  }

  /** Throws `budget_exceeded` or `budget_unpriced` where the run must end, `TurnSuspension` where it must wait. */
  async admit(planned: PlannedAttempt, signal: AbortSignal): Promise<Permit> {
    const { ports, maxInlineWaitMs, breaker } = this.#options;
    const target = `${planned.provider.id}/${this.#budgetGate.modelName(planned.request.model)}`;
    const admission = await ports.breakers.admit(target, maxInlineWaitMs, signal);
    if (admission.kind === 'open')
      return { kind: 'skip', reason: 'circuit_open', retryAfterMs: admission.retryAfterMs };
    const report: Taken['report'] = (outcome) => ports.breakers.report(target, outcome, admission, breaker);
    try {
      const grant = await this.#takeTurn(planned, signal);
      try {
        const paid = await this.#reserveMoney(planned, signal);
        return {
          kind: 'go',
          maxOutputTokens: paid.maxOutputTokens,
          settle: (end) => this.#settle(planned, { id: paid.id, grant, admission, report }, end),
        };
      } catch (error) {
        await ports.rateLimiter.settle(grant, { unused: true }).catch((cause: unknown) => this.#budgetGate.lost(cause));
        throw error;
      }
    } catch (error) {
      await report('neutral').catch((cause: unknown) => this.#budgetGate.lost(cause));
      throw error;
    }
  }

  async #takeTurn({ provider, request }: PlannedAttempt, signal: AbortSignal): Promise<Grant> {
    const { ports, maxInlineWaitMs, accounts, weight, clock } = this.#options;
    const wanted: GrantRequest = {
      limiter: `${provider.credential ?? provider.id}:${this.#budgetGate.modelName(request.model)}`,
      limits: provider.limitsOf?.(request.model) ?? {},
      runId: accounts.runId,
      tenant: accounts.tenant,
      weight,
      promptTokens: promptTokensOf(request),
      maxOutputTokens: maxOutputTokensOf(request),
    };
    const answer = await ports.rateLimiter.acquire(wanted, maxInlineWaitMs, signal);
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
      joinWaitQueue: async () => {
        await ports.rateLimiter.park(wanted);
        return false;
      },
    });
  }

  async #reserveMoney(
    { step, provider, price, fixedMicrocents, request, optional = false, closing }: PlannedAttempt,
    signal: AbortSignal,
  ): Promise<{ readonly id: string; readonly maxOutputTokens?: number }> {
    const id = this.#budgetGate.nextId();
    if (!this.#budgetGate.isCapped) return { id };
    if (!price && fixedMicrocents === undefined && this.#options.denyUnpriced) {
      throw new RunError('budget_unpriced', `no price is known for model ${request.model}, and the budget denies that`);
    }
    const cost: CallCost | undefined = price && costOfCall(request, price);
    const most = fixedMicrocents ?? cost?.most ?? 0;
    const least = fixedMicrocents ?? cost?.least ?? 0;
    const force = this.#options.approved(step);
    const payee = { provider: provider.id, model: request.model };
    if (closing === 'holds' && price)
      await this.#budgetGate.hold({ ...payee, amount: closingCostOf(request, price), force }, signal);
    const call = { ...payee, what: 'model call', wanted: most, least, closing: closing === 'takes' };
    const amount = await this.#budgetGate.reserve(id, { ...call, force, optional }, signal);
    // What the ledger adds for models that turned out dearer than estimated does not make the answer longer.
    return cost && amount < most ? { id, maxOutputTokens: Math.max(1, cost.outputTokensFor(amount)) } : { id };
  }

  async #settle({ provider, request, price, fixedMicrocents }: PlannedAttempt, taken: Taken, end: AttemptEnd) {
    const { id, grant, admission, report } = taken;
    const { usage = zeroUsage, costMicrocents, priced, error } = end;
    const isEstimated = price && fixedMicrocents === undefined && end.usage;
    const settlement = {
      id,
      provider: provider.id,
      model: request.model,
      usage,
      costMicrocents,
      expectedMicrocents: isEstimated ? costOfCall(request, price).costWith(end.usage.output) : undefined,
      priced,
      unconfirmed: error !== undefined && mayBeBilled(error),
    };
    const results = await Promise.allSettled([
      report(healthOf(error, admission)),
      this.#options.ports.rateLimiter.settle(grant, outcomeOf(end)),
      this.#budgetGate.settle(settlement),
    ]);
    for (const result of results) if (result.status === 'rejected') this.#budgetGate.lost(result.reason);
  }
}

/**
 * What an attempt shows about the health of its model. Refusals of this very request show nothing. A 429 is the
 * rate limiter's: it makes runs wait, where an open breaker would make them fail.
 */
function healthOf(error: LlmError | undefined, admission: Admission): CallHealth {
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
    usedTokens: usage && usage.input + usage.cached + usage.cacheWrite + usage.output,
    outputTokens: usage?.output,
    report: rateLimit,
    limited: error?.kind === 'rate_limit' ? { retryAfterMs: error.retryAfterMs } : undefined,
  };
}
