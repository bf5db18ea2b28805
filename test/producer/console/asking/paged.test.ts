import { expect, test } from 'vitest';
import { readPages, type Page } from '../../../../src/producer/console/paged.ts';

const leave = new AbortController().signal;
const keyOf = (item: string) => item;

/** Pages by their cursor; the first has none. */
function pagesOf(pages: Readonly<Record<string, Page<string>>>) {
  const asked: (string | undefined)[] = [];
  const read = async (cursor: string | undefined) => {
    asked.push(cursor);
    return pages[cursor ?? ''] ?? { items: [], cursor: undefined };
  };
  return { read, keyOf, asked };
}

test('as many pages are read as are wanted, and an item that moves meanwhile is there once', async () => {
  const source = pagesOf({ '': { items: ['c', 'b'], cursor: '1' }, 1: { items: ['b', 'a'], cursor: '2' } });
  expect(await readPages(source, 2, leave)).toEqual({ items: ['c', 'b', 'a'], cursor: '2' });
  expect(source.asked).toEqual([undefined, '1']);
});

test('pages without anything are read on from, up to a bound', async () => {
  const sparse = pagesOf({ '': { items: [], cursor: '1' }, 1: { items: ['a'], cursor: '2' } });
  expect(await readPages(sparse, 1, leave)).toEqual({ items: ['a'], cursor: '2' });
  const endless = { read: async () => ({ items: [], cursor: 'on' }), keyOf };
  expect(await readPages(endless, 1, leave)).toEqual({ items: [], cursor: 'on' });
});

test('the end is the end', async () => {
  const source = pagesOf({ '': { items: ['a'], cursor: undefined } });
  expect(await readPages(source, 5, leave)).toEqual({ items: ['a'], cursor: undefined });
  expect(source.asked).toHaveLength(1);
});
