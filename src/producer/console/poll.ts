import { asApiError, type ApiError } from './api.ts';

const firstRetryMs = 1_000;
const lastRetryMs = 15_000;

/** Doubles from a second to fifteen. */
export function retryPause(failures: number): number {
  return Math.min(lastRetryMs, firstRetryMs * 2 ** failures);
}

/** What a poll has to know of the page that it is on. */
export interface PollPage {
  isHidden(): boolean;
  onShown(act: () => void, leave: AbortSignal): void;
  /** Acts after this time, unless what it answers is called before. */
  later(ms: number, act: () => void): () => void;
}

const thisPage: PollPage = {
  isHidden: () => document.hidden,
  onShown: (act, leave) =>
    document.addEventListener('visibilitychange', () => !document.hidden && act(), { signal: leave }),
  later: (ms, act) => {
    const timer = setTimeout(act, ms);
    return () => clearTimeout(timer);
  },
};

export interface PollOptions {
  readonly work: () => Promise<unknown>;
  readonly onError: (error: ApiError) => void;
  /** From the end of one turn to the next. Undefined: once, and again after what may pass. */
  readonly everyMs: number | undefined;
  /** The same while the page is hidden. Absent: it asks nothing then, and at once when it is shown again. */
  readonly hiddenMs?: number;
  readonly leave: AbortSignal;
  readonly page?: PollPage | undefined;
}

/**
 * Work that is done again and again until its signal aborts: one turn at a time, however many ask for one, and with growing pauses
 * after errors that may pass. An error that does not pass ends it, until it is asked for.
 */
export class Poll {
  readonly #options: PollOptions;
  readonly #page: PollPage;
  /** The turn that is under way, and the one that was asked for behind it. */
  #turn: Promise<void> | undefined;
  #behind: Promise<void> | undefined;
  #cancelTimer = (): void => {};
  /** A turn came due while the page was hidden. */
  #isDue = false;
  #failures = 0;

  constructor(options: PollOptions) {
    const { page = thisPage, leave } = options;
    this.#options = options;
    this.#page = page;
    page.onShown(() => this.#onShown(), leave);
    leave.addEventListener('abort', () => this.#cancelTimer());
  }

  /** Does a turn that begins from now on: behind the one that is under way, which may not know yet what has changed. Never rejects. */
  now(): Promise<void> {
    if (this.#turn === undefined) return this.#begin();
    this.#behind ??= this.#turn.then(() => this.#begin());
    return this.#behind;
  }

  #begin(): Promise<void> {
    if (this.#options.leave.aborted) return Promise.resolve();
    this.#cancelTimer();
    this.#isDue = false;
    this.#behind = undefined;
    this.#turn = this.#attempt().then((pauseMs) => {
      // The one behind begins next, and there is nothing in between that could begin another.
      this.#turn = this.#behind;
      if (this.#turn === undefined && pauseMs !== undefined)
        this.#cancelTimer = this.#page.later(pauseMs, () => this.#onDue());
    });
    return this.#turn;
  }

  /** Answers how long to wait for the next. */
  async #attempt(): Promise<number | undefined> {
    const { work, onError, leave, everyMs, hiddenMs } = this.#options;
    try {
      await work();
      this.#failures = 0;
      if (leave.aborted) return undefined;
      return hiddenMs !== undefined && this.#page.isHidden() ? hiddenMs : everyMs;
    } catch (error) {
      if (leave.aborted) return undefined;
      const known = asApiError(error);
      onError(known);
      return known.retryable ? retryPause(this.#failures++) : undefined;
    }
  }

  #onDue(): void {
    this.#isDue = this.#options.hiddenMs === undefined && this.#page.isHidden();
    if (!this.#isDue) void this.now();
  }

  #onShown(): void {
    const isPeriodic = this.#options.everyMs !== undefined;
    if (this.#turn === undefined && (this.#isDue || isPeriodic)) void this.now();
  }
}
