import { expect, test } from 'vitest';
import { suspectWork, Watch } from '../../../src/worker/run/suspect.ts';

const { signal: never } = new AbortController();

test('one suspect is watched at a time, and the most suspected of those who wait comes next', async () => {
  const watch = new Watch(1_000, async () => {});
  const order: string[] = [];
  const first = watch.tryEnter();
  expect(watch.tryEnter()).toBeUndefined();
  const enter = async (name: string, suspicion: number) => {
    const post = await watch.enter(suspicion, never);
    order.push(name);
    post?.release();
  };
  const all = [enter('mild', 1), enter('strong', 5), enter('mild too', 1)];
  first?.release();
  await Promise.all(all);
  expect(order).toEqual(['strong', 'mild', 'mild too']);
  expect(watch.tryEnter()).toBeDefined();
});

test('a slot that is released twice lets one suspect in', async () => {
  const watch = new Watch(1_000, async () => {});
  const first = watch.tryEnter();
  const second = watch.enter(1, never);
  first?.release();
  first?.release();
  expect(await second).toBeDefined();
  expect(watch.tryEnter()).toBeUndefined();
});

test('a suspect that is stopped waits no longer', async () => {
  const watch = new Watch(10_000_000, async () => {});
  watch.tryEnter();
  const stop = new AbortController();
  const stopped = watch.enter(1, stop.signal);
  stop.abort();
  expect(await stopped).toBeUndefined();
});

test('a suspect that waits too long, or is stopped, goes on without the post, and the next one still gets it', async () => {
  const watch = new Watch(5, async () => {});
  const first = watch.tryEnter();
  const stop = new AbortController();
  const stopped = watch.enter(9, stop.signal);
  stop.abort();
  expect(await stopped).toBeUndefined();
  expect(await watch.enter(9, stop.signal)).toBeUndefined();
  expect(await watch.enter(1, never)).toBeUndefined();
  const next = watch.enter(1, never);
  first?.release();
  expect(await next).toBeDefined();
});

test.each([
  [{ blame: 0, excuses: 0 }, undefined],
  [{ blame: 1, excuses: 0 }, true],
  [{ blame: 0, excuses: 1 }, true],
])('with %o the calls of a run are watched: %s', (lost, watched) => {
  const suspects = { watch: new Watch(1_000, async () => {}), isExcused: async () => false };
  const run = { record: { crashes: 0, ...lost } } as unknown as Parameters<typeof suspectWork>[0];
  expect(suspectWork(run, suspects)?.calls).toBe(watched);
});
