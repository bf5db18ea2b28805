import { readConfigureGlobal } from 'fast-check';
import { expect, inject, test } from 'vitest';
import { seeded } from './seeded.ts';

test('properties and storms draw from the seed of the test run, and a seed gives the same numbers again', () => {
  expect(readConfigureGlobal().seed).toBe(inject('seed'));
  const [one, two] = [seeded(), seeded()].map((random) => Array.from({ length: 20 }, () => random.below(1_000)));
  expect(one).toEqual(two);
  expect(new Set(one).size).toBeGreaterThan(10);
  const other = seeded(1);
  expect(Array.from({ length: 20 }, () => other.below(1_000))).not.toEqual(one);
});
