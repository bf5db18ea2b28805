import type { ServerResponse } from 'node:http';

/** The place of one answer that stays open. Disposing it takes the answer off the list. */
export interface OpenAnswer extends Disposable {
  /** Aborts when the client is gone or this process leaves. */
  readonly signal: AbortSignal;
}

/**
 * Answers that may stay open for long: event streams and waits for a result. When the process leaves they are all told
 * to end, in a way that the client can resume elsewhere.
 */
export class OpenAnswers {
  readonly #open = new Set<AbortController>();
  #leaving = false;

  /** Set once `leave` was called; from then on no new work is taken. */
  get leaving(): boolean {
    return this.#leaving;
  }

  enter(response: ServerResponse): OpenAnswer {
    const controller = new AbortController();
    const onClose = () => controller.abort();
    response.once('close', onClose);
    if (response.destroyed || this.#leaving) controller.abort();
    this.#open.add(controller);
    return {
      signal: controller.signal,
      [Symbol.dispose]: () => {
        response.off('close', onClose);
        this.#open.delete(controller);
      },
    };
  }

  leave(): void {
    this.#leaving = true;
    for (const controller of this.#open) controller.abort();
  }
}
