import { onTestFailed } from 'vitest';

/** Random numbers that can be had again: a test that fails prints its seed, and `CHAOS_SEED` gives it back. */
export function seeded(): { below(limit: number): number } {
  const seed = Number(process.env['CHAOS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
  onTestFailed(() => void process.stderr.write(`CHAOS_SEED=${seed}\n`));
  let state = seed;
  // mulberry32
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return { below: (limit) => Math.floor(next() * limit) };
}
