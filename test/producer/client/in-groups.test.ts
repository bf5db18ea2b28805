import { expect, test } from 'vitest';
import { inGroups } from '../../../src/producer/client/in-groups.ts';

test('at most ten are under way, and what comes of them is in order', async () => {
  let working = 0;
  let most = 0;
  const items = Array.from({ length: 45 }, (_, i) => i);
  const results = await inGroups(items, async (item) => {
    most = Math.max(most, ++working);
    await new Promise((resolve) => setImmediate(resolve));
    working -= 1;
    return item * 2;
  });
  expect(most).toBe(10);
  expect(results).toEqual(items.map((item) => item * 2));
  expect(await inGroups([], async () => 1)).toEqual([]);
});
