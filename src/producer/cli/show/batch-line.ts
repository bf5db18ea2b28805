import { formatUsd } from '../../../shared/contract/money.ts';
import type { BatchProgress } from '../../batch/batch-options.ts';
import { count, duration } from './paint.ts';

const barWidth = 20;

/** The state of a batch in one line; `elapsedMs` is the time since this try of it began. */
export function batchLine(progress: BatchProgress, elapsedMs: number): string {
  const { total, earlier, finished, failed, running, waiting, waitingForMoney, costMicrocents } = progress;
  const filled = total === 0 ? barWidth : Math.floor((finished / total) * barWidth);
  const perSecond = ratePerSecond(progress, elapsedMs);
  const left = total - finished;
  return [
    `${'█'.repeat(filled)}${'░'.repeat(barWidth - filled)} ${count(finished)}/${count(total)}`,
    `${count(failed)} failed`,
    `${count(running)} running`,
    waiting > 0
      ? `${count(waiting)} waiting${waitingForMoney > 0 ? ` (${count(waitingForMoney)} for money)` : ''}`
      : '',
    formatUsd(costMicrocents),
    `${perSecond.toFixed(1)}/s`,
    left > 0 && perSecond > 0 ? `ETA ${duration((left / perSecond) * 1_000)}` : '',
    earlier > 0 ? `${count(earlier)} from before` : '',
  ]
    .filter((part) => part !== '')
    .join('  ');
}

/** Lines finished by this try of the batch, per second. */
export function ratePerSecond({ finished, earlier }: BatchProgress, elapsedMs: number): number {
  return elapsedMs > 0 ? ((finished - earlier) * 1_000) / elapsedMs : 0;
}
