import { expect, test } from 'vitest';
import type { ThreadItem } from '../../../../src/shared/contract/thread/thread-items.ts';
import { withNewest, withOlder } from '../../../../src/producer/console/views/threads/known.ts';

/** Items newest first, as a page has them. */
function page(from: number, to: number, next?: number, ...live: ThreadItem[]) {
  const said = Array.from({ length: from - to + 1 }, (_, at) => ({ seq: from - at }) as ThreadItem);
  return { messages: [...live, ...said], ...(next !== undefined && { next }) };
}
const seqs = (items: readonly ThreadItem[]) => items.map(({ seq }) => seq);

test('what is new comes to what is known, and older ones before it', () => {
  let known = withNewest(undefined, page(3, 2, 2));
  expect([seqs(known.items), known.older]).toEqual([[2, 3], 2]);
  known = withNewest(known, page(5, 3, 3));
  expect([seqs(known.items), known.older]).toEqual([[2, 3, 4, 5], 2]);
  known = withOlder(known, page(1, 1));
  expect([seqs(known.items), known.older]).toEqual([[1, 2, 3, 4, 5], undefined]);
});

test('a newest page that does not reach what is known begins anew, so there is no gap', () => {
  const known = withOlder(withNewest(undefined, page(3, 2, 2)), page(1, 1));
  const next = withNewest(known, page(9, 6, 6));
  expect([seqs(next.items), next.older]).toEqual([[6, 7, 8, 9], 6]);
});

test('what is live is as the newest page says', () => {
  const live = { text: 'half an ans' } as ThreadItem;
  const known = withNewest(undefined, page(1, 1, undefined, live));
  expect(seqs(known.items)).toEqual([1, undefined]);
  expect(seqs(withNewest(known, page(2, 1)).items)).toEqual([1, 2]);
});
