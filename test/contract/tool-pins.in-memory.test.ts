import { inMemoryToolPins } from '../../src/worker/local/stores/in-memory-pins.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { expect, test } from 'vitest';
import { offered, pinsTtlMs, server, toolPinsContract } from './tool-pins.ts';

toolPinsContract('Memory', async () => {
  const clock = new FakeClock();
  const pins = inMemoryToolPins(clock);
  return { clock, worker: async () => pins };
});

test('pins end their time after the last use', async () => {
  const clock = new FakeClock();
  const pins = inMemoryToolPins(clock);
  await pins.check('acme', server, [offered('read')]);
  await clock.advance(pinsTtlMs);
  expect(await pins.list('acme')).toEqual([]);
  expect(await pins.check('acme', server, [offered('read', 'New.')])).toEqual([{ kind: 'accepted' }]);
});
