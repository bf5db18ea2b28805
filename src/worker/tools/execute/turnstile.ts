/** Resolves with what the work answers, once it was let through. `isAlone`: beside nothing else. */
export type Turnstile = <T>(isAlone: boolean, work: () => Promise<T>) => Promise<T>;

/** Lets work through side by side, at most `width` at a time, and what is exclusive alone; in order of arrival. */
export function turnstile(width: number): Turnstile {
  const waiting: { readonly isAlone: boolean; readonly enter: () => void }[] = [];
  let [inside, isTaken] = [0, false];
  const admit = (): void => {
    for (let next = waiting[0]; next; next = waiting[0]) {
      const isFull = next.isAlone ? inside > 0 : inside >= width;
      if (isFull || isTaken) return;
      waiting.shift();
      inside++;
      isTaken = next.isAlone;
      next.enter();
    }
  };
  return async (isAlone, work) => {
    const { promise: admitted, resolve: enter } = Promise.withResolvers<void>();
    waiting.push({ isAlone, enter });
    admit();
    await admitted;
    try {
      return await work();
    } finally {
      inside--;
      isTaken = false;
      admit();
    }
  };
}
