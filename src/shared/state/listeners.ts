import type { Log } from '../base/log.ts';

/** Functions to call, each until it is disposed. */
export interface Listeners<Args extends readonly unknown[]> {
  add(listener: (...args: Args) => void): Disposable;
  /** Calls all of them. An error of one is logged, and the others are called. */
  call(...args: Args): void;
  clear(): void;
}

export function createListeners<Args extends readonly unknown[]>(log: Log): Listeners<Args> {
  const registered = new Set<{ readonly listener: (...args: Args) => void }>();
  return {
    add(listener) {
      const entry = { listener };
      registered.add(entry);
      return { [Symbol.dispose]: () => void registered.delete(entry) };
    },
    call(...args) {
      for (const { listener } of registered) {
        try {
          listener(...args);
        } catch (err) {
          log.error({ err }, 'listener failed');
        }
      }
    },
    clear: () => registered.clear(),
  };
}
