import { RunError } from '../../../shared/base/errors.ts';

/**
 * Hands events to one reader, in order. It holds a bounded number: a producer may wait for room while there is a reader, and
 * without a reader the oldest are dropped. A reader that comes too late for some gets `replay_truncated`.
 */
export class EventFeed<Event> implements AsyncIterable<Event> {
  readonly #capacity: number;
  #events: Event[] = [];
  #dropped = false;
  #reader: 'none' | 'reading' | 'gone' = 'none';
  #end: { readonly error?: unknown } | undefined;
  #changed = Promise.withResolvers<void>();

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  push(event: Event): void {
    if (this.#end || this.#reader === 'gone') return;
    this.#events.push(event);
    if (this.#events.length > this.#capacity) {
      this.#events.shift();
      this.#dropped = true;
    }
    this.#notify();
  }

  /** Nothing comes after. With an error, the reader gets it after the events that there were. */
  end(error?: { readonly error: unknown }): void {
    this.#end ??= error ?? {};
    this.#notify();
  }

  /** Resolves when nothing would be dropped by a push, or there is no reader. */
  async room(): Promise<void> {
    while (this.#reader === 'reading' && this.#events.length >= this.#capacity) await this.#changed.promise;
  }

  /** Resolves after the end, when a reader that there is has come to it or has left. */
  async drained(): Promise<void> {
    while (!this.#end || this.#reader === 'reading') await this.#changed.promise;
  }

  /** Throws `concurrent_run` for a second reader. */
  [Symbol.asyncIterator](): AsyncIterator<Event> {
    if (this.#reader !== 'none') throw new RunError('concurrent_run', 'these events have a reader already');
    this.#reader = 'reading';
    return this.#read();
  }

  async *#read(): AsyncGenerator<Event> {
    try {
      for (;;) {
        if (this.#dropped)
          throw new RunError('replay_truncated', 'the first events were dropped before they were read');
        if (this.#events.length > 0) {
          const event = this.#events.shift() as Event;
          this.#notify();
          yield event;
        } else if (this.#end) {
          if ('error' in this.#end) throw this.#end.error;
          return;
        } else await this.#changed.promise;
      }
    } finally {
      this.#reader = 'gone';
      this.#events = [];
      this.#notify();
    }
  }

  #notify(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
