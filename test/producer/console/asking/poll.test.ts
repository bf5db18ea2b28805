import { expect, test } from 'vitest';
import { ApiError } from '../../../../src/producer/console/api.ts';
import { Poll, retryPause } from '../../../../src/producer/console/poll.ts';
import { FakePage } from './poll-page.ts';

const passing = new ApiError(503, { code: 'queue_unavailable', message: 'away', retryable: true });
const final = new ApiError(403, { code: 'forbidden', message: 'no', retryable: false });

/** A poll whose turns the test ends, one after the other. */
function world({ everyMs, hiddenMs }: { everyMs?: number; hiddenMs?: number } = {}) {
  const page = new FakePage();
  const leave = new AbortController();
  const turns: PromiseWithResolvers<void>[] = [];
  const errors: string[] = [];
  let working = 0;
  let mostAtOnce = 0;
  const work = async () => {
    const turn = Promise.withResolvers<void>();
    turns.push(turn);
    mostAtOnce = Math.max(mostAtOnce, ++working);
    await turn.promise.finally(() => working--);
  };
  const poll = new Poll({
    work,
    onError: ({ code }) => errors.push(code),
    everyMs,
    ...(hiddenMs !== undefined && { hiddenMs }),
    leave: leave.signal,
    page,
  });
  return {
    page,
    leave,
    poll,
    errors,
    begun: () => turns.length,
    mostAtOnce: () => mostAtOnce,
    /** Ends the newest turn, and lets what follows from that happen. */
    end: async (error?: ApiError) => {
      const turn = turns.at(-1);
      if (error) turn?.reject(error);
      else turn?.resolve();
      await page.clock.advance(0);
    },
  };
}

test('requests while a turn is under way share one turn behind it, and there is one loop afterwards', async () => {
  const { poll, page, end, begun, mostAtOnce } = world({ everyMs: 1_000 });
  const first = poll.now();
  const [second, third] = [poll.now(), poll.now()];
  expect(begun()).toBe(1);
  await end();
  await first;
  expect(begun(), 'what was asked for while the first was under way may know more').toBe(2);
  await end();
  await Promise.all([second, third]);
  expect(begun()).toBe(2);
  for (let turn = 3; turn <= 5; turn++) {
    await page.clock.advance(999);
    expect(begun()).toBe(turn - 1);
    await page.clock.advance(1);
    expect(begun()).toBe(turn);
    await end();
  }
  expect(mostAtOnce()).toBe(1);
});

test('a request in between turns takes the place of the next', async () => {
  const { poll, page, end, begun } = world({ everyMs: 1_000 });
  void poll.now();
  await end();
  await page.clock.advance(500);
  void poll.now();
  await end();
  expect(begun()).toBe(2);
  await page.clock.advance(999);
  expect(begun()).toBe(2);
  await page.clock.advance(1);
  expect(begun()).toBe(3);
});

test('errors that may pass lengthen the pauses up to a quarter of a minute, others end the loop', async () => {
  const { poll, page, end, begun, errors } = world({ everyMs: 10 });
  void poll.now();
  for (const [failures, pauseMs] of [1_000, 2_000, 4_000, 8_000, 15_000, 15_000].entries()) {
    expect(retryPause(failures)).toBe(pauseMs);
    await end(passing);
    await page.clock.advance(pauseMs - 1);
    expect(begun()).toBe(failures + 1);
    await page.clock.advance(1);
    expect(begun()).toBe(failures + 2);
  }
  await end();
  await page.clock.advance(10);
  await end(passing);
  await page.clock.advance(1_000);
  await end(final);
  await page.clock.advance(3_600_000);
  expect([begun(), errors.at(-1)]).toEqual([9, 'forbidden']);
  void poll.now();
  expect(begun()).toBe(10);
});

test('a hidden page asks nothing, and at once when it is shown', async () => {
  const { poll, page, end, begun } = world({ everyMs: 1_000 });
  void poll.now();
  await end();
  page.hide();
  await page.clock.advance(60_000);
  expect(begun()).toBe(1);
  page.show();
  expect(begun()).toBe(2);
  page.show();
  expect(begun(), 'one is under way').toBe(2);
});

test('what is read once and failed while the page was hidden is read when it is shown', async () => {
  const { poll, page, end, begun } = world();
  void poll.now();
  page.hide();
  await end(passing);
  await page.clock.advance(60_000);
  expect(begun()).toBe(1);
  page.show();
  expect(begun()).toBe(2);
  await end();
  await page.clock.advance(60_000);
  page.hide();
  page.show();
  expect(begun()).toBe(2);
});

test('a poll with a pace for hidden pages goes on there', async () => {
  const { poll, page, end, begun } = world({ everyMs: 1_000, hiddenMs: 5_000 });
  page.hide();
  void poll.now();
  await end();
  await page.clock.advance(4_999);
  expect(begun()).toBe(1);
  await page.clock.advance(1);
  expect(begun()).toBe(2);
});

test('after it was left it asks nothing more', async () => {
  const { poll, page, end, begun, leave, errors } = world({ everyMs: 1_000 });
  void poll.now();
  void poll.now();
  leave.abort();
  await end(passing);
  await poll.now();
  page.hide();
  page.show();
  await page.clock.advance(60_000);
  expect([begun(), errors]).toEqual([1, []]);
});
