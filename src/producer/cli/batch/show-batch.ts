import { assertNever } from '../../../shared/base/errors.ts';
import type { BatchQuote, BatchView } from '../../../shared/contract/batch.ts';
import { formatUsd, usdToMicrocents } from '../../../shared/contract/money.ts';
import { count, countOf, duration } from '../../../shared/base/words.ts';

const barWidth = 20;

/** The state of a batch in one line. */
export function batchLine(batch: BatchView): string {
  const { request_counts: counts, open, cost, status, eta, quote } = batch;
  const { total, failed } = counts;
  const finished = counts.completed + failed;
  const filled = total === 0 ? 0 : Math.floor((finished / total) * barWidth);
  const waits = [
    open.waitingForMoney > 0 ? `${count(open.waitingForMoney)} for money` : '',
    open.waitingForPeople > 0 ? `${count(open.waitingForPeople)} for people` : '',
  ].filter(Boolean);
  const perSecond = eta && eta.seconds > 0 ? (total - finished) / eta.seconds : 0;
  return [
    `${'█'.repeat(filled)}${'░'.repeat(barWidth - filled)} ${count(finished)}/${count(total)}`,
    `${count(failed)} failed`,
    `${count(open.total)} open${waits.length > 0 ? ` (waiting: ${waits.join(', ')})` : ''}`,
    formatUsd(cost.microcents),
    perSecond > 0 ? `${perSecond.toFixed(1)}/s` : '',
    eta && finished < total ? `ETA ${duration(eta.seconds * 1_000)}` : '',
    quote ? `quote ${usdRange(quote)}` : '',
    status === 'in_progress' ? '' : statusText(status),
  ]
    .filter((part) => part !== '')
    .join('  ');
}

function statusText(status: BatchView['status']): string {
  return status.replace('_', ' ');
}

function usdRange({ costUsd: { low, high } }: BatchQuote): string {
  return `${formatUsd(usdToMicrocents(low))} to ${formatUsd(usdToMicrocents(high))}`;
}

/** A quote as a sentence. */
export function quoteText(quote: BatchQuote): string {
  const { lines, sampled, seconds } = quote;
  const time = `${duration(seconds.low * 1_000)} to ${duration(seconds.high * 1_000)}`;
  return `${count(sampled)} of ${countOf(lines, 'line')} ran as a sample. All of them are likely to cost ${usdRange(quote)} and to take ${time}.`;
}

/** The middle of the range, in the way in which it was made: as far from its ends by factor. */
export function expectedUsd({ costUsd: { low, high } }: BatchQuote): number {
  return Math.sqrt(low * high);
}

/** What a batch is like for the summary of a command. */
export type BatchEnd =
  | 'finished'
  | 'cancelled'
  | 'expired'
  | 'failed'
  | 'quoted'
  | 'paused'
  | 'interrupted'
  | 'detached';

/** How a batch has ended, or why nothing goes on by itself. Undefined: it works. */
export function endOf({ status }: BatchView): BatchEnd | undefined {
  switch (status) {
    case 'completed':
      return 'finished';
    case 'cancelled':
    case 'expired':
    case 'failed':
    case 'quoted':
    case 'paused':
      return status;
    case 'validating':
    case 'quoting':
    case 'in_progress':
    case 'finalizing':
    case 'cancelling':
      return undefined;
    default:
      return assertNever(status);
  }
}
