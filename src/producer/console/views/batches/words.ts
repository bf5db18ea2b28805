import type { BatchView } from '../../../../shared/contract/batch.ts';
import { formatCount } from '../../ui/money.tsx';

type Status = BatchView['status'];
type Tone = 'good' | 'bad' | 'busy' | 'wait' | 'quiet';

export const batchTone: Readonly<Record<Status, Tone>> = {
  validating: 'busy',
  quoting: 'busy',
  quoted: 'wait',
  in_progress: 'busy',
  paused: 'wait',
  finalizing: 'busy',
  cancelling: 'busy',
  completed: 'good',
  failed: 'bad',
  expired: 'bad',
  cancelled: 'quiet',
};

const ended: ReadonlySet<Status> = new Set(['completed', 'failed', 'expired', 'cancelled']);

export function hasEnded({ status }: Pick<BatchView, 'status'>): boolean {
  return ended.has(status);
}

/** What can be done with a batch as it is. */
export function actsFor(
  batch: Pick<BatchView, 'status' | 'request_counts'>,
): readonly ('pause' | 'resume' | 'cancel' | 'redrive')[] {
  const failed = batch.request_counts.failed > 0 ? (['redrive'] as const) : [];
  switch (batch.status) {
    case 'validating':
      return ['cancel'];
    case 'quoting':
      return ['pause', 'cancel'];
    case 'in_progress':
      return ['pause', 'cancel', ...failed];
    case 'quoted':
      return ['resume', 'cancel'];
    case 'paused':
      return ['resume', 'cancel', ...failed];
    case 'completed':
    case 'failed':
    case 'expired':
    case 'cancelled':
      return failed;
    case 'finalizing':
    case 'cancelling':
      return [];
    default:
      throw new Error(`no such status: ${String(batch.status satisfies never)}`);
  }
}

const reasons: Readonly<Record<NonNullable<BatchView['reason']>, string>> = {
  asked: 'It was paused by hand.',
  max_failures: 'Too many lines failed: look at the errors, then resume it.',
  quote: 'Its sample is done: look at the quote, then resume or cancel it.',
  over_max_cost: 'It would likely cost more than was allowed: resume it all the same, or cancel it.',
};

export function reasonOf({ reason }: Pick<BatchView, 'reason'>): string | undefined {
  return reason && reasons[reason];
}

/** Parts of a batch, in percent of all lines. Zero lines are no part of anything. */
export function sharesOf({ request_counts: { total, completed, failed } }: Pick<BatchView, 'request_counts'>) {
  const share = (count: number) => (total === 0 ? 0 : Math.min(100, (count / total) * 100));
  return { completed: share(completed), failed: share(failed) };
}

/** `1 waits for a person`, `2 wait for people`: what no time ends. Undefined where something goes on by itself. */
export function onlyWaits(batch: Pick<BatchView, 'request_counts' | 'open'>): string | undefined {
  const { total, waitingForPeople, waitingForMoney } = batch.open;
  if (total === 0 || total > waitingForPeople + waitingForMoney || notBegun(batch) > 0) return undefined;
  return [
    ...(waitingForPeople > 0 ? [waitingText(waitingForPeople, 'people')] : []),
    ...(waitingForMoney > 0 ? [waitingText(waitingForMoney, 'money')] : []),
  ].join(', ');
}

export function waitingText(count: number, what: 'people' | 'money'): string {
  const whom = what === 'people' && count === 1 ? 'a person' : what;
  return `${formatCount(count)} ${count === 1 ? 'waits' : 'wait'} for ${whom}`;
}

export function notBegun({
  request_counts: { total, completed, failed },
  open,
}: Pick<BatchView, 'request_counts' | 'open'>) {
  return total - completed - failed - open.total;
}

/** What all lines are likely to cost, from those that are done; undefined while too few are. */
export function expectedMicrocents({
  cost,
  request_counts: { total, completed, failed },
}: Pick<BatchView, 'cost' | 'request_counts'>): number | undefined {
  const done = completed + failed;
  if (done < 3 || done >= total) return undefined;
  return Math.round((cost.microcents / done) * total);
}
