import { expect, test } from 'vitest';
import { named } from '../../../../src/shared/state/errors.ts';
import { type BlobPlace, outerBlobs } from '../../../../src/shared/state/files/outer-blobs.ts';
import { keysFor, type Reach } from '../../../../src/shared/state/keys.ts';
import { testPrefix, testRedis } from '../../../support/redis.ts';

test('one file that cannot be removed keeps no other, is reported, and is tried again an hour later', async () => {
  const redis = await testRedis();
  const keys = keysFor(testPrefix());
  const dropped: string[] = [];
  let isBroken = true;
  const place: BlobPlace = {
    kind: 'folder',
    put: async () => {},
    putAll: async () => [],
    read: async () => undefined,
    async drop(owner) {
      if (owner === 'bad' && isBroken) throw new Error('not permitted');
      dropped.push(owner);
    },
    async *owners() {},
  };
  const clock = { nowMs: 10_000_000, now: () => clock.nowMs, monotonic: () => 0, sleep: async () => {} };
  const reach: Reach = (work) => named('a test', work(redis));
  const blobs = outerBlobs(place, { reach, keys, clock });
  for (const [owner, untilMs] of [
    ['bad', 1],
    ['good', 2],
    ['young', 20_000_000],
  ] as const)
    await blobs.put(owner, 'part', Buffer.from('x'), untilMs);
  await expect(blobs.sweep()).rejects.toThrow('not permitted');
  expect(dropped).toEqual(['good']);
  isBroken = false;
  await blobs.sweep();
  expect(dropped).toEqual(['good']);
  clock.nowMs += 3_600_001;
  await blobs.sweep();
  expect(dropped).toEqual(['good', 'bad']);
});
