import { systemClock, type Clock } from './clock.ts';

interface Race {
  readonly clock?: Pick<Clock, 'sleep'>;
  readonly signal?: AbortSignal | undefined;
}

/** Without a reason an abort makes an error, with its stack, that no code would see here. */
const over = new Error('the wait is over');

/**
 * What the work answers or, once it took longer than `ms`, what `late` answers or throws; throws the reason of the signal as soon as
 * it aborts. Work that is late goes on by itself, and what comes of it then is no matter. Leaves no timer and no listener.
 */
export async function orLate<T, L>(
  ms: number,
  work: Promise<T>,
  late: () => L,
  { clock = systemClock, signal }: Race = {},
): Promise<T | Awaited<L>> {
  const ended = new AbortController();
  const onAbort = () => ended.abort(signal?.reason);
  if (signal?.aborted) onAbort();
  signal?.addEventListener('abort', onAbort, { once: true });
  const elapsed = clock.sleep(ms, ended.signal, 'limit').then(late);
  // When the work is first, the rejection of the ended sleep is of no interest.
  elapsed.catch(() => {});
  try {
    return await Promise.race([work, elapsed]);
  } finally {
    signal?.removeEventListener('abort', onAbort);
    ended.abort(over);
  }
}

/** What the work answers; throws the reason of the signal as soon as it aborts. Leaves no listener. */
export async function unlessAborted<T>(work: T | Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** A signal that aborts with `outer`, and with a `TimeoutError` once `ms` have passed. Disposed, it is left as it is. */
export function limitedSignal(
  ms: number,
  clock: Pick<Clock, 'sleep'>,
  outer: AbortSignal,
): Disposable & { readonly signal: AbortSignal } {
  const late = new AbortController();
  const ended = new AbortController();
  clock.sleep(ms, ended.signal, 'limit').then(
    () => late.abort(new DOMException(`no answer within ${ms} ms`, 'TimeoutError')),
    () => {},
  );
  return { signal: AbortSignal.any([outer, late.signal]), [Symbol.dispose]: () => ended.abort(over) };
}

/** How long code may still answer after it was asked to stop, in milliseconds. Afterwards it is abandoned. */
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
  clock: Pick<Clock, 'sleep'>,
  outer: AbortSignal,
): Promise<Settled> {
  if (outer.aborted) return { kind: 'aborted' };
  const inner = new AbortController();
  const answer = settle(work, inner.signal);
  const first = await orLate(timeoutMs, answer, () => 'timeout' as const, { clock, signal: outer }).catch(
    () => 'aborted' as const,
  );
  if (typeof first === 'object') return first;
  inner.abort(
    first === 'aborted' ? outer.reason : new DOMException(`no answer within ${timeoutMs} ms`, 'TimeoutError'),
  );
  const late = await orLate(graceMs, answer, () => undefined, { clock });
  return late?.kind === 'value' ? late : { kind: first };
}

async function settle(work: (signal: AbortSignal) => unknown, signal: AbortSignal): Promise<Settled> {
  try {
    return { kind: 'value', value: await work(signal) };
  } catch (error) {
    return { kind: 'threw', error };
  }
}
