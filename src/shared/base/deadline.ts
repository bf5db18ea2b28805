import type { Clock } from './clock.ts';

/** How long code that was told to stop may still answer, in milliseconds. Afterwards it is abandoned. */
export const graceMs = 50;

/** How a piece of foreign code ended. `timeout` and `aborted`: it did not answer, or answered to the stop with an error. */
export type Settled =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'threw'; readonly error: unknown }
  | { readonly kind: 'timeout' }
  | { readonly kind: 'aborted' };

/**
 * Runs foreign code with a deadline. Its signal aborts on the deadline and with `outer`; then it has a short grace in
 * which a value still counts, because an effect that is known to have happened is worth more than a clean stop. Code
 * that ignores its signal is left behind. Never rejects, and leaves no timer and no listener.
 */
export async function within(
  timeoutMs: number,
  work: (signal: AbortSignal) => unknown,
  clock: Clock,
  outer: AbortSignal,
): Promise<Settled> {
  if (outer.aborted) return { kind: 'aborted' };
  const inner = new AbortController();
  const over = new AbortController();
  const halt = Promise.withResolvers<'timeout' | 'aborted'>();
  const onAbort = () => halt.resolve('aborted');
  outer.addEventListener('abort', onAbort, { once: true });
  clock.sleep(timeoutMs, over.signal).then(
    () => halt.resolve('timeout'),
    () => {},
  );
  try {
    const answer = settle(work, inner.signal);
    const first = await Promise.race([answer, halt.promise]);
    if (typeof first === 'object') return first;
    inner.abort(
      first === 'aborted' ? outer.reason : new DOMException(`no answer within ${timeoutMs} ms`, 'TimeoutError'),
    );
    const grace = clock.sleep(graceMs, over.signal).catch(() => {});
    const late = await Promise.race([answer, grace]);
    return late?.kind === 'value' ? late : { kind: first };
  } finally {
    over.abort();
    outer.removeEventListener('abort', onAbort);
  }
}

async function settle(work: (signal: AbortSignal) => unknown, signal: AbortSignal): Promise<Settled> {
  try {
    return { kind: 'value', value: await work(signal) };
  } catch (error) {
    return { kind: 'threw', error };
  }
}
