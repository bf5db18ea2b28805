import { asRunError } from '../../../shared/base/errors.ts';
import type { Talk } from './talk.ts';

interface Interrupted {
  readonly talk: Talk;
  readonly note: (text: string) => void;
  /** A user types, and may go on after an answer was stopped. */
  readonly isTerminal: boolean;
}

/** What Ctrl-C does: once it stops the answer under way, twice it ends the conversation. A typed line begins the count anew. */
export class Interrupts {
  readonly #reading = new AbortController();
  readonly #leaving = new AbortController();
  #count = 0;

  /** Aborts when no more lines are to be taken. */
  get reading(): AbortSignal {
    return this.#reading.signal;
  }

  /** Aborts when the conversation is to end at once. */
  get leaving(): AbortSignal {
    return this.#leaving.signal;
  }

  forget(): void {
    this.#count = 0;
  }

  leave(): void {
    this.#reading.abort();
    this.#leaving.abort();
  }

  press({ talk, note, isTerminal }: Interrupted): void {
    this.#count++;
    const stopped = talk.current;
    if (this.#count > 1 || (stopped === undefined && !isTerminal)) return this.leave();
    if (stopped === undefined) return note('Ctrl-C again, or /quit, leaves.');
    note('cancelling; Ctrl-C again leaves');
    talk.cancel().catch((error: unknown) => note(asRunError(error).message));
    if (isTerminal) return;
    this.#reading.abort();
    void talk.until(() => talk.current !== stopped, this.leaving).then(() => this.leave());
  }
}
