import { inject } from 'vitest';

/** What all random tests of this run draw from: `TEST_SEED`, or a number of its own. A run that fails prints it. */
export const testSeed: number = inject('seed');

/** Random numbers that can be had again with `TEST_SEED`, others for each `stream`. With a `seed` of their own they are always the same. */
export function seeded(stream = 0, seed = testSeed): { below(limit: number): number } {
  let state = (seed + Math.imul(stream, 0x9e3779b1)) | 0;
  // mulberry32
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return { below: (limit) => Math.floor(next() * limit) };
}
