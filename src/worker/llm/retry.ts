export type Backoff = 'exponential' | 'linear';

const baseMs = 250;
const backoffCapMs = 8_000;

/** The longest wait that a provider may ask for. */
const retryAfterCapMs = 60_000;

/**
 * Milliseconds to wait before the retry with this index (from 0). The provider's own wish counts when it is longer.
 * Up to a fifth, at most 500 ms, is added at random and never taken away: a provider that asked for a second gets it.
 */
export function retryDelayMs(
  index: number,
  backoff: Backoff,
  askedMs: number | undefined,
  random: () => number,
): number {
  const grown = backoff === 'linear' ? baseMs * (index + 1) : baseMs * 2 ** Math.min(index, 30);
  const wait = Math.max(Math.min(grown, backoffCapMs), Math.min(askedMs ?? 0, retryAfterCapMs));
  return Math.round(wait + random() * Math.min(wait * 0.2, 500));
}

/**
 * The wait that the headers ask for, in milliseconds, at most 60,000: `retry-after-ms`, else `retry-after` in seconds or
 * as an HTTP date. A date in the past is 0; what cannot be read is undefined.
 */
export function retryAfterMs(headers: Headers, nowMs: number): number | undefined {
  const wait = asNumber(headers.get('retry-after-ms')) ?? seconds(headers.get('retry-after'), nowMs);
  return wait === undefined ? undefined : Math.min(wait, retryAfterCapMs);
}

function seconds(text: string | null, nowMs: number): number | undefined {
  const count = asNumber(text);
  if (count !== undefined) return count * 1_000;
  // Date.parse reads almost anything as a date ("-5", "soon 7"): only a weekday in front makes it an HTTP date.
  if (text === null || !/^[A-Z][a-z]{2,8},? /.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}

function asNumber(text: string | null): number | undefined {
  return text !== null && /^\s*\d+(\.\d+)?\s*$/.test(text) ? Number(text) : undefined;
}
