import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import type { ConsolePage } from './support.ts';

/** A task of the page that takes longer than this is felt as a stutter. */
const longMs = 200;
const maxAttempts = 4;

/** Has the page note its long tasks, from its next load on. */
export async function noteLongTasks(page: Page): Promise<void> {
  await page.addInitScript(`
    globalThis.longTasks = [];
    new PerformanceObserver((list) => {
      for (const { duration, startTime } of list.getEntries()) longTasks.push({ duration, startTime });
    }).observe({ type: 'longtask', buffered: true });
  `);
}

/**
 * Opens a view and does these things with it, each of which must work without a long task. What the page itself does too long, it
 * does each time; what other programs of a busy machine take from it, they do not: so all of it may be tried again.
 */
export async function expectNoLongTask(
  { page }: ConsolePage,
  open: () => Promise<void>,
  acts: Readonly<Record<string, () => Promise<void>>>,
): Promise<void> {
  const slow = new Map<string, number[]>(Object.keys(acts).map((name) => [name, []]));
  for (let attempt = 0; attempt < maxAttempts && slow.size > 0; attempt++) {
    await open();
    for (const [name, act] of Object.entries(acts)) {
      await act();
      const tasks = await page.evaluate<{ readonly duration: number }[]>('longTasks.splice(0)');
      const long = tasks.map(({ duration }) => duration).filter((duration) => duration > longMs);
      if (long.length === 0) slow.delete(name);
      else slow.get(name)?.push(...long);
    }
  }
  expect(Object.fromEntries(slow), 'milliseconds of the long tasks').toEqual({});
}

/** Scrolls what this selector finds up and down over all of it, a place for each frame. */
export async function scrollOver(page: Page, selector: string): Promise<void> {
  await page.evaluate(`(async () => {
    const box = document.querySelector(${JSON.stringify(selector)});
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    for (let i = 0; i <= 120; i += 1) {
      box.scrollTop = (box.scrollHeight * (i % 2 === 0 ? i : 120 - i)) / 120;
      await frame();
    }
  })()`);
}
