/** What `read` answers, read again once that is older than `ms`: all who ask in between share one answer. */
export function sharedFor<A extends readonly unknown[], T>(
  ms: number,
  read: (...args: A) => Promise<T>,
): (...args: A) => Promise<T> {
  let last: { readonly readAt: number; readonly answer: Promise<T> } | undefined;
  return async (...args) => {
    const now = performance.now();
    if (!last || now - last.readAt > ms) last = { readAt: now, answer: read(...args) };
    return await last.answer;
  };
}
