/** Stands for every name that no operator configured: in labels of metrics, counters of costs and keys of limiters. */
export const otherName = 'other';

/** The name itself where it is one of these, else `other`: callers name models as they like, and names make keys. */
export function closedNames(names: Iterable<string>): (name: string) => string {
  const known = new Set(names);
  return (name) => (known.has(name) ? name : otherName);
}
