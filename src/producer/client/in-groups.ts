/** Records that a list holds whole at a time. One may be 256 KB of input and as much of an answer. */
const groupSize = 10;

/** What comes of each item, in order, with at most ten of them under way. */
export async function inGroups<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<readonly R[]> {
  const results: R[] = [];
  for (let start = 0; start < items.length; start += groupSize)
    results.push(...(await Promise.all(items.slice(start, start + groupSize).map(work))));
  return results;
}
