import type { EventOf } from '../../shared/contract/event.ts';
import type { JournalEntryOf } from '../../shared/contract/journal/journal.ts';
import type { PaidAttempt } from '../../shared/state/money/costs.ts';
import { addRunUsage } from '../../shared/contract/money.ts';
import { costTokens, type CostTokens } from '../turn/cost-event.ts';
import type { StepSpent } from './step-gate.ts';

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
