/** The fast lane is what `npm test` runs; `npm run test:all` sets `TEST_LANE=all`. */
export const lane = process.env['TEST_LANE'] === 'all' ? 'all' : 'fast';

/** How often a test repeats: enough to find a broken line in the fast lane, and many more times in the other. */
export function rounds(counts: { fast: number; all: number }): number {
  return counts[lane];
}
