import type { WriteStream } from 'node:tty';
import { dim, count, duration } from './paint.ts';
import { formatUsd } from '../../../shared/contract/money.ts';
import type { BatchProgress } from '../../batch/run-batch.ts';

/** How often a stream that is no terminal gets a line. */
const plainEveryMs = 5_000;
const redrawEveryMs = 100;

/** One line that is redrawn in place on a terminal; elsewhere a plain line every few seconds. */
export class LiveLine implements Disposable {
  readonly #stream: WriteStream;
  #text = '';
  #shown = '';
  #shownAt = -Infinity;
  readonly #timer: NodeJS.Timeout;

  constructor(stream: WriteStream) {
    this.#stream = stream;
    this.#timer = setInterval(() => this.#draw(), redrawEveryMs);
  }

  set(text: string): void {
    this.#text = text;
  }

  /** A line that stays, above the live one. */
  note(text: string): void {
    this.#erase();
    this.#stream.write(`${text}\n`);
    this.#draw();
  }

  /** Shows the last state for good. */
  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#erase();
    if (this.#text !== this.#shown) this.#stream.write(`${this.#text}\n`);
    this.#text = '';
    this.#shown = '';
  }

  #erase(): void {
    if (this.#stream.isTTY && this.#shown !== '') this.#stream.write('\r\u001b[2K');
    if (this.#stream.isTTY) this.#shown = '';
  }

  #draw(): void {
    if (this.#text === this.#shown) return;
    const now = performance.now();
    if (!this.#stream.isTTY) {
      if (now - this.#shownAt < plainEveryMs) return;
      this.#stream.write(`${this.#text}\n`);
    } else {
      const fitting = this.#text.slice(0, Math.max(10, (this.#stream.columns || 80) - 1));
      this.#stream.write(`\r\u001b[2K${dim(this.#stream, fitting)}`);
    }
    this.#shown = this.#text;
    this.#shownAt = now;
  }
}

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
