import type { EventOf } from '../../shared/event.ts';
import type { JournalEntryOf } from '../../shared/journal.ts';
import type { PaidAttempt } from '../../shared/ledger.ts';
import { addRunUsage } from '../llm/cost.ts';
import type { Spent } from './program.ts';

type Spending = NonNullable<JournalEntryOf<'stepped'>['spent']>;

/** As the journal keeps it. */
export function spendingOf({ costMicrocents, usage, parts }: Spent): Spending {
  return { costMicrocents, usage, ...(parts.some(({ priced }) => !priced) && { unpriced: true }) };
}

export function addSpending(a: Spending, b: Spending): Spending {
  return {
    costMicrocents: a.costMicrocents + b.costMicrocents,
    usage: addRunUsage(a.usage, b.usage),
    ...((a.unpriced || b.unpriced) && { unpriced: true }),
  };
}

type CostEvent = Pick<EventOf<'cost.updated'>, 'type' | 'model' | 'inputTokens' | 'outputTokens' | 'costMicrocents'> &
  Pick<EventOf<'cost.updated'>, 'cachedTokens' | 'cacheWriteTokens' | 'priced' | 'usageReported'>;

/** As the log tells it, apart from what it adds up to. */
export function costEvent({ model, usage, costMicrocents, priced }: PaidAttempt): CostEvent {
  const { input: inputTokens, output: outputTokens, cached: cachedTokens, cacheWrite: cacheWriteTokens } = usage;
  return {
    type: 'cost.updated',
    model,
    inputTokens,
    outputTokens,
    ...(cachedTokens > 0 && { cachedTokens }),
    ...(cacheWriteTokens > 0 && { cacheWriteTokens }),
    costMicrocents,
    priced,
    usageReported: true,
  };
}
