/** The pairs of a flat list, as which scripts answer hashes, and commands the members of a sorted set with their scores. */
export function pairsOf<T>(flat: readonly T[]): readonly (readonly [T, T])[] {
  return Array.from({ length: Math.floor(flat.length / 2) }, (_, i) => [flat[2 * i] as T, flat[2 * i + 1] as T]);
}
