import type { Clock } from '../../../shared/base/clock.ts';

/** What one server may do to a worker. Sizes in bytes or characters, times in milliseconds. */

/** Of one message: a result, a page of the tool list, a notification. */
export const maxMessageBytes = 10 * 1024 * 1024;
/** Levels of JSON. The parser itself would take a million of them, and block every run meanwhile. */
export const maxMessageDepth = 64;

export const maxTools = 512;
export const maxListPages = 64;
/** Servers that offer an agent more tools than this have them looked up with `tool_search`. */
export const maxEagerTools = 10;

export const maxToolDescriptionChars = 4_000;
/** Of a text inside a schema. */
export const maxSchemaTextChars = 1_000;
export const maxSchemaBytes = 64 * 1024;
export const maxSchemaDepth = 32;

/** Messages that are no answers, and bytes of any kind, in one window. */
export const floodWindowMs = 10_000;
export const maxUnaskedMessages = 10_000;
export const maxWindowBytes = 128 * 1024 * 1024;

/** Connections that are made anew because the last one was lost, in one window. */
export const reconnectWindowMs = 60_000;
export const maxReconnects = 5;
/** Times that a list of tools is read again, in the same window. */
export const maxListReads = 60;

/** Progress of one call that becomes events. */
export const minProgressGapMs = 100;
export const maxProgressNotes = 1_000;

/** Counts what happens in a window of time, and shows when it is too much. */
export class FloodGate {
  readonly #max: number;
  readonly #windowMs: number;
  readonly #clock: Pick<Clock, 'monotonic'>;
  #since = -Infinity;
  #count = 0;

  constructor(max: number, windowMs: number, clock: Pick<Clock, 'monotonic'>) {
    this.#max = max;
    this.#windowMs = windowMs;
    this.#clock = clock;
  }

  /** Counts, and answers whether it is still within bounds. */
  allows(count = 1): boolean {
    const now = this.#clock.monotonic();
    if (now - this.#since >= this.#windowMs) [this.#since, this.#count] = [now, 0];
    this.#count += count;
    return this.#count <= this.#max;
  }
}
