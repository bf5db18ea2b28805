const asked = process.env['TEST_LANE'] ?? 'fast';
if (asked !== 'fast' && asked !== 'slow' && asked !== 'all')
  throw new Error(`TEST_LANE is fast, slow or all, not ${asked}`);

/** The fast lane is what `npm test` runs, the slow one what it leaves out; `npm run test:all` runs both. */
export const lane = asked;

/** How often a test repeats: enough to find a broken line in the fast lane, and many more times in the others. */
export function rounds(counts: { fast: number; all: number }): number {
  return lane === 'fast' ? counts.fast : counts.all;
}
