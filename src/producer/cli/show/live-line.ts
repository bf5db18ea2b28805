import type { WriteStream } from 'node:tty';
import { dim } from './paint.ts';

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
