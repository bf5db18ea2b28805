import { expect, test } from 'vitest';
import type { RunView } from '../../../../src/shared/contract/run.ts';
import { ApiError } from '../../../../src/producer/console/api.ts';
import {
  LiveList,
  mostEmptyPages,
  mostNewPages,
  type RunsSource,
  type ShownRuns,
  type Wanted,
} from '../../../../src/producer/console/views/runs/live-list.ts';
import { FakePage } from './poll-page.ts';

const pageSize = 3;
const refreshMs = 2_500;

/** Runs by number; each was created at a second of its own. */
function runOf(number: number): RunView {
  const at = new Date(number * 1_000).toISOString();
  return { runId: idOf(number), createdAt: at, endedAt: at } as RunView;
}
// Ids made of execution ids say nothing about the time.
const turned = (digits: string) => digits.split('').toReversed().join('');
const idOf = (number: number) => turned(String(number).padStart(6, '0'));
const numberOf = (runId: string) => Number(turned(runId));

/** A list over runs that the test adds to. */
function world(numbers: readonly number[]) {
  const runs = new Set(numbers);
  const asked: Wanted[] = [];
  const page = new FakePage();
  const leave = new AbortController();
  let shown: ShownRuns = { runs: [], error: undefined, more: false };
  const hooks: { before: (wanted: Wanted) => Promise<void> } = { before: async () => {} };
  const source: RunsSource = {
    async page(wanted) {
      asked.push(wanted);
      await hooks.before(wanted);
      const below = wanted.cursor === undefined ? Infinity : Number(wanted.cursor);
      const from = wanted.after === undefined ? 0 : Date.parse(wanted.after) / 1_000;
      const fitting = [...runs].filter((number) => number < below && number >= from).sort((a, b) => b - a);
      const found = fitting.slice(0, pageSize);
      const cursor = fitting.length > pageSize ? String(found.at(-1)) : undefined;
      return { runs: found.map(runOf), cursor };
    },
    run: async (runId) => runOf(numberOf(runId)),
  };
  const list = new LiveList(source, (next) => (shown = next), leave.signal, page);
  return {
    list,
    page,
    asked,
    hooks,
    add: (from: number, to: number) => {
      for (let number = from; number <= to; number++) runs.add(number);
    },
    shown: () => shown,
    numbers: () => shown.runs.map(({ runId }) => numberOf(runId)),
  };
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => to - at);

test('more new runs than a page between two refreshes leave no gap', async () => {
  const { list, page, add, numbers, shown } = world(range(1, 5));
  await list.refresh();
  expect([numbers(), shown().more]).toEqual([[5, 4, 3], true]);
  add(6, 16);
  await page.clock.advance(refreshMs);
  expect(numbers()).toEqual(range(3, 16));
  await list.loadMore();
  expect([numbers(), shown().more]).toEqual([range(1, 16), false]);
});

test('with too many new runs the list begins anew, and is complete again as one scrolls', async () => {
  const { list, page, add, numbers, shown } = world(range(1, 5));
  await list.refresh();
  await list.loadMore();
  const last = 5 + pageSize * (mostNewPages + 2);
  add(6, last);
  await page.clock.advance(refreshMs);
  expect([numbers(), shown().more]).toEqual([range(last - pageSize * mostNewPages + 1, last), true]);
  for (let loads = 0; loads < 10 && shown().more; loads++) await list.loadMore();
  expect(numbers()).toEqual(range(1, last));
});

test('a page of older runs that comes when the list has begun anew is left out, with its cursor', async () => {
  const { list, page, add, numbers, shown, hooks } = world(range(1, 9));
  await list.refresh();
  const held = Promise.withResolvers<void>();
  hooks.before = async ({ cursor }) => {
    if (cursor === '7') await held.promise;
  };
  const older = list.loadMore();
  const last = 9 + pageSize * (mostNewPages + 2);
  add(10, last);
  await page.clock.advance(refreshMs);
  const anew = numbers();
  held.resolve();
  await older;
  expect([numbers(), shown().more]).toEqual([anew, true]);
  await list.loadMore();
  expect(numbers()).toEqual(range(last - pageSize * (mostNewPages + 1) + 1, last));
});

test('where nothing is new, a refresh asks once; where few runs fit, it looks no further back than what is known', async () => {
  const { list, page, asked, add } = world(range(1, 9));
  await list.refresh();
  asked.length = 0;
  await page.clock.advance(refreshMs);
  expect(asked).toEqual([{ cursor: undefined, after: undefined }]);
  asked.length = 0;
  add(10, 13);
  await page.clock.advance(refreshMs);
  expect(asked).toEqual([
    { cursor: undefined, after: undefined },
    { cursor: '11', after: runOf(9).createdAt },
  ]);
});

test('two requests for older runs at once read one page', async () => {
  const { list, asked, numbers } = world(range(1, 9));
  await list.refresh();
  asked.length = 0;
  await Promise.all([list.loadMore(), list.loadMore()]);
  expect([asked.length, numbers()]).toEqual([1, range(4, 9)]);
});

test('older runs that failed to come are asked for again with the next refresh', async () => {
  const { list, page, numbers, shown, hooks } = world(range(1, 5));
  await list.refresh();
  hooks.before = () => Promise.reject(new ApiError(0, { code: 'unreachable', message: 'away', retryable: true }));
  await list.loadMore();
  expect([shown().error?.code, numbers()]).toEqual(['unreachable', [5, 4, 3]]);
  hooks.before = async () => {};
  await page.clock.advance(refreshMs);
  expect([shown().error, numbers()]).toEqual([undefined, range(1, 5)]);
});

test('pages without a run that fits are read on from, and then the reader is asked', async () => {
  const page = new FakePage();
  const asked: Wanted[] = [];
  let shown: ShownRuns | undefined;
  const source: RunsSource = {
    async page(wanted) {
      asked.push(wanted);
      return { runs: [], cursor: 'on' };
    },
    run: async () => undefined,
  };
  const list = new LiveList(source, (next) => (shown = next), new AbortController().signal, page);
  await list.refresh();
  expect([asked.length, shown]).toEqual([1 + mostEmptyPages, { runs: [], error: undefined, more: true }]);
  await page.clock.advance(refreshMs);
  expect(asked.length, 'it does not search again by itself').toBe(2 + mostEmptyPages);
});
