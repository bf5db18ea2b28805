import { RunError } from '../../shared/base/errors.ts';
import type { PaidAttempt } from '../../shared/state/money/costs.ts';
import { addUsage, zeroUsage, type RunUsage, addRunUsage } from '../../shared/contract/money.ts';
import type { TurnState } from '../../shared/contract/journal/fold.ts';
import { BudgetGate, type BudgetGateOptions } from './budget-gate.ts';
import type { EventOf } from '../../shared/contract/event.ts';
import type { JournalEntryOf } from '../../shared/contract/journal/journal.ts';
import { costTokens, type CostTokens } from '../turn/listen.ts';

/** What a step pays by itself. */
export interface StepCosts {
  /** Who is paid, as the ledger names it: without white space, and one name for calls that cost alike. */
  readonly payee: { readonly provider: string; readonly model: string };
  /** The most that it may cost, in microcents, as far as that is known. */
  readonly mostMicrocents: number;
  /** What was paid, by its answer; without one, what is known to be paid by now. */
  spent(answer?: unknown): StepSpent;
}

export interface StepSpent {
  readonly costMicrocents: number;
  readonly usage: RunUsage;
  /** What it is the sum of. */
  readonly parts: readonly PaidAttempt[];
  /** It was left behind, and may have been billed for more. */
  readonly isCutOff: boolean;
}

export interface StepGateOptions extends BudgetGateOptions {
  /** A step without a known price is refused. */
  readonly denyUnpriced: boolean;
}

/** A step may begin. `settle` is to be called once, when it has ended: without an answer with what was paid by then. */
export interface StepPermit {
  settle(spent: StepSpent): Promise<void>;
}

/** Throws `budget_exceeded` or `budget_unpriced` where the run must end, `TurnSuspension` where it must wait. */
export type StepGate = (
  costs: StepCosts,
  state: Pick<TurnState, 'orchestration' | 'budgetDecision'>,
  signal: AbortSignal,
) => Promise<StepPermit>;

/**
 * The budget gate before each step of an orchestration that pays by itself, such as a judge or an action of a task: the same
 * accounts as before a model call. What such a step costs is only known afterwards. So the gate reserves its stated maximum, or
 * the smallest amount, and beyond that the largest overrun that the ledger has seen for its payee; it counts what the step cost
 * more, and refuses the next one.
 */
export function stepGate(options: StepGateOptions): StepGate {
  const gate = new BudgetGate(options);
  return async ({ payee, mostMicrocents }, { orchestration, budgetDecision }, signal) => {
    const id = gate.nextId();
    const permit: StepPermit = { settle: (spent) => settle(gate, id, payee, spent) };
    if (!gate.isCapped) return permit;
    if (budgetDecision === 'reject') throw new RunError('budget_exceeded', 'more money for the run was refused');
    if (options.denyUnpriced && orchestration.unpriced)
      throw new RunError('budget_unpriced', 'a step had a cost without a known price, and the budget denies that');
    const wanted = Math.max(1, mostMicrocents);
    const force = budgetDecision === 'approve';
    await gate.reserve(id, { ...payee, what: `call of ${payee.model}`, wanted, least: wanted, force }, signal);
    return permit;
  };
}

async function settle(gate: BudgetGate, id: string, payee: StepCosts['payee'], spent: StepSpent): Promise<void> {
  const { parts, costMicrocents, isCutOff: unconfirmed } = spent;
  const usage = parts.reduce((sum, part) => addUsage(sum, part.usage), zeroUsage);
  const priced = parts.every((part) => part.priced);
  try {
    if (parts.length > 0 || (unconfirmed && gate.isCapped))
      await gate.settle({ id, ...payee, usage, costMicrocents, priced, unconfirmed, parts });
    else if (gate.isCapped) await gate.release(id);
  } catch (cause) {
    gate.lost(cause);
  }
}

type Spending = NonNullable<JournalEntryOf<'orchestration_step'>['spent']>;

/** As the journal keeps it. */
export function spendingOf({ costMicrocents, usage, parts }: StepSpent): Spending {
  return { costMicrocents, usage, unpriced: parts.some(({ priced }) => !priced) ? true : undefined };
}

export function addSpending(a: Spending, b: Spending): Spending {
  return {
    costMicrocents: a.costMicrocents + b.costMicrocents,
    usage: addRunUsage(a.usage, b.usage),
    unpriced: a.unpriced ?? b.unpriced,
  };
}

type CostEvent = Pick<EventOf<'cost.updated'>, 'type' | 'model' | 'costMicrocents' | 'priced' | 'usageReported'> &
  CostTokens;

/** As the log has it, apart from the sum so far. */
export function costEvent({ model, usage, costMicrocents, priced }: PaidAttempt): CostEvent {
  return { type: 'cost.updated', model, ...costTokens(usage), costMicrocents, priced, usageReported: true };
}
