import { describe } from 'vitest';
import { threadsEvents } from './threads-events.ts';
import { threadsInterleavings } from './threads-interleavings.ts';
import { threadsLine } from './threads-wait-queue.ts';
import { threadsLog } from './threads-log.ts';
import type { MakeThreadsWorld } from './threads-world.ts';

/** What every store of threads promises. */
export function threadsContract(name: string, makeWorld: MakeThreadsWorld): void {
  describe(`${name} as a store of threads`, () => {
    threadsLine(makeWorld);
    threadsLog(makeWorld);
    threadsEvents(makeWorld);
    threadsInterleavings(makeWorld);
  });
}
