import { readFileSync } from 'node:fs';

const lanes = ['fast', 'slow', 'soak', 'all'] as const;
const asked = process.env['TEST_LANE'] ?? 'fast';
const known = lanes.find((name) => name === asked);
if (!known) throw new Error(`TEST_LANE is ${lanes.join(', ')}, not ${asked}`);

/**
 * The fast lane is what `npm test` runs, the slow one what it leaves out; the soak lane has what needs a machine for itself.
 * `npm run test:all` runs all three.
 */
export const lane = known;

/** How often a test repeats: enough to find a broken line, and many more times in `npm run test:all`. */
export function rounds(counts: { fast: number; all: number }): number {
  return lane === 'all' ? counts.all : counts.fast;
}

/** The files of test/e2e that guard a promise, by the table of docs/testing.md: the others are about features. */
export function guardsInE2e(): string[] {
  const page = readFileSync(new URL('../../docs/testing.md', import.meta.url), 'utf8');
  return [...new Set(page.match(/(?<=\| `)test\/e2e\/[\w-]+\.test\.ts(?=`)/g))];
}
