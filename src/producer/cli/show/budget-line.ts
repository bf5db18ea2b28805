import { formatUsd, type BudgetView } from '../../../shared/contract/money.ts';
import { count } from './paint.ts';

const ends = { fail: 'fails a run', pause_for_approval: 'pauses a run', warn: 'only warns' } as const;

/** The state of an account in one line. */
export function budgetLine(view: BudgetView): string {
  const { scope, id, window, windowStart, capMicrocents, spentMicrocents, reservedMicrocents, waiting } = view;
  const cap = capMicrocents === undefined ? 'spent, no cap' : `of ${formatUsd(capMicrocents)} spent`;
  return [
    `${scope} ${id}${window === 'total' ? '' : ` (${window} ${windowStart})`}: ${formatUsd(spentMicrocents)} ${cap}`,
    reservedMicrocents > 0 ? `${formatUsd(reservedMicrocents)} reserved for calls under way` : '',
    waiting > 0 ? `${count(waiting)} waiting for it` : '',
    capMicrocents === undefined ? '' : `passing it ${ends[view.onExceed]}`,
  ]
    .filter((part) => part !== '')
    .join(', ');
}
