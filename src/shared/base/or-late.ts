/**
 * What the work answers or, once it took longer than `ms`, what `late` answers or throws. Work that is late goes on by itself, and
 * what comes of it then is no matter. Leaves no timer.
 */
export async function orLate<T, L>(ms: number, work: Promise<T>, late: () => L): Promise<T | L> {
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  try {
    return await Promise.race([work, over.then(late)]);
  } finally {
    clearTimeout(timer);
  }
}
