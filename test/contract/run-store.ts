import { describe } from 'vitest';
import { blame } from './run-store-blame.ts';
import { claims } from './run-store-claims.ts';
import { commits } from './run-store-commits.ts';
import { fences } from './run-store-fences.ts';
import { flushes } from './run-store-flushes.ts';
import { interleavings } from './run-store-interleavings.ts';
import type { MakeWorld } from './store-world.ts';

/** What every run store promises. */
export function runStoreContract(name: string, makeWorld: MakeWorld): void {
  describe(`${name} as a run store`, () => {
    describe('claim', () => {
      claims(makeWorld);
    });
    describe('blame', () => {
      blame(makeWorld);
    });
    describe('commit', () => {
      commits(makeWorld);
    });
    describe('flush', () => {
      flushes(makeWorld);
    });
    describe('the fence', () => {
      fences(makeWorld);
    });
    describe('any interleaving', () => {
      interleavings(makeWorld);
    });
  });
}
