import { orLate } from '../../shared/base/deadline.ts';
import type { ServerResponse } from 'node:http';

/** An answer that waits for a run. Disposing it ends the watch over it. */
export interface WaitingAnswer extends Disposable {
  /** Aborts when the client is gone or this process drains. */
  readonly signal: AbortSignal;
}

/**
 * The answers that are not finished yet. When the process drains, those that wait for a run (event streams, waits for a
 * result) are ended, in a way that the client can resume elsewhere; the others finish.
 */
export class OpenAnswers {
  readonly #open = new Set<ServerResponse>();
  readonly #waiting = new Set<AbortController>();
  #draining = false;
  #onLastClosed: (() => void) | undefined;

  /** Set by `drain`; from then on the producer takes no new work. */
  get draining(): boolean {
    return this.#draining;
  }

  add(response: ServerResponse): void {
    this.#open.add(response);
    response.once('close', () => {
      this.#open.delete(response);
      if (this.#open.size === 0) this.#onLastClosed?.();
    });
  }

  wait(response: ServerResponse): WaitingAnswer {
    const controller = new AbortController();
    const onClose = () => controller.abort();
    response.once('close', onClose);
    if (response.destroyed || this.#draining) controller.abort();
    this.#waiting.add(controller);
    return {
      signal: controller.signal,
      [Symbol.dispose]: () => {
        response.off('close', onClose);
        this.#waiting.delete(controller);
      },
    };
  }

  /** Resolves when every answer is finished, or after `limitMs`. */
  async drain(limitMs: number): Promise<void> {
    this.#draining = true;
    for (const controller of this.#waiting) controller.abort();
    if (this.#open.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onLastClosed = resolve;
    await orLate(limitMs, promise, () => {});
  }
}
