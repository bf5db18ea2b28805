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

/** Counts what happens in a window of time: the function that counts answers whether it is still within bounds. */
export function floodGate(max: number, windowMs: number, clock: Pick<Clock, 'monotonic'>): (count?: number) => boolean {
  let [since, sum] = [-Infinity, 0];
  return (count = 1) => {
    const now = clock.monotonic();
    if (now - since >= windowMs) [since, sum] = [now, 0];
    sum += count;
    return sum <= max;
  };
}
