import { expect, test } from 'vitest';
import { describeInBrowser, useBrowser, useConsoleWorld } from './support.ts';

const runs = 10_000;
const atOnce = 1_000;
/** A task of the page that takes longer than this is felt as a stutter. */
const longMs = 200;

describeInBrowser('the list of runs with ten thousand in it', () => {
  const browser = useBrowser();
  const world = useConsoleWorld({ workers: 0 });

  test(
    'scrolls from the first to the last without a long task, and draws only what is in sight',
    { timeout: 300_000 },
    async () => {
      const { mill, url } = world.current;
      for (let begun = 0; begun < runs; begun += atOnce) {
        const requests = Array.from({ length: atOnce }, (_, i) => ({ agent: 'plain', input: `number ${begun + i}` }));
        const answers = await mill.enqueueMany(requests);
        expect(answers.filter((answer) => !('runId' in answer))).toEqual([]);
      }
      const {
        runs: [newest],
      } = await mill.list({ limit: 1 });
      const opened = await browser.open({ url });
      const { page } = opened;
      await page.addInitScript(`
      globalThis.longTasks = [];
      new PerformanceObserver((list) => {
        for (const { duration, startTime } of list.getEntries()) longTasks.push({ duration, startTime });
      }).observe({ type: 'longtask', buffered: true });
    `);
      await opened.visit('/runs');
      const table = page.getByRole('table', { name: 'Runs' });
      await table
        .getByText((newest?.runId ?? '').slice(0, 8))
        .first()
        .waitFor();
      await page.evaluate('longTasks.length = 0');
      // Down to the very end, a screen at a time, as fast as pages of the list come.
      const loaded = async () => Number(await table.getAttribute('aria-rowcount')) - 1;
      await expect
        .poll(
          async () => {
            await page.evaluate(`{
            const box = document.querySelector('.table-box');
            box.scrollTop += box.clientHeight * 4;
          }`);
            return await loaded();
          },
          { timeout: 240_000, interval: 30 },
        )
        .toBe(runs);
      const rows = await table.getByRole('row').count();
      expect(rows).toBeLessThan(100);
      // And over all of them, up and down.
      await page.evaluate(`(async () => {
      const box = document.querySelector('.table-box');
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      for (let i = 0; i <= 120; i += 1) {
        box.scrollTop = (box.scrollHeight * (i % 2 === 0 ? i : 120 - i)) / 120;
        await frame();
      }
    })()`);
      const tasks = await page.evaluate('longTasks');
      expect((tasks as { duration: number }[]).filter(({ duration }) => duration > longMs)).toEqual([]);
      await opened.checkView('ten-thousand');
    },
  );
});
