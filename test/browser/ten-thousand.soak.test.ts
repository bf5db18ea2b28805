import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import type { PlannedCall, PlannedStep } from '../support/plan.ts';
import { expectNoLongTask, noteLongTasks, scrollOver } from './long-tasks.ts';
import { describeInBrowser, useBrowser, useConsoleWorld } from './support.ts';

const runs = 10_000;
const atOnce = 1_000;

describeInBrowser('the list of runs with ten thousand in it', () => {
  const browser = useBrowser();
  const world = useConsoleWorld({ workers: 0 });

  test(
    'scrolls from the first to the last without a long task, and draws only what is in sight',
    { timeout: 480_000 },
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
      await noteLongTasks(page);
      const first = (newest?.runId ?? '').slice(0, 8);
      await expectNoLongTask(opened, () => opened.visit('/runs'), {
        loading: async () => {
          await page.locator('.table-row', { hasText: first }).first().waitFor();
          await loadAll(page);
        },
        scrolling: async () => await scrollOver(page, '.table-box'),
      });
      expect(await page.getByRole('row').count()).toBeLessThan(100);
      await opened.checkView('ten-thousand');
    },
  );
});

/** Down to the very end, some screens at a time, as fast as pages of the list come. */
async function loadAll(page: Page): Promise<void> {
  // To look for a role is itself a task of the page.
  const table = page.locator('[role="table"][aria-label="Runs"]');
  const down = `{
    const box = document.querySelector('.table-box');
    box.scrollTop += box.clientHeight * 4;
  }`;
  const loaded = async () => {
    await page.evaluate(down);
    return Number(await table.getAttribute('aria-rowcount')) - 1;
  };
  await expect.poll(loaded, { timeout: 120_000, interval: 30 }).toBe(runs);
}

const steps = 120;
const callsOfStep = 20;
/** Of the more than ten thousand that it has, a page keeps so many. */
const events = '10,000';

describeInBrowser('the page of a run with ten thousand events', () => {
  const browser = useBrowser();
  // The archive would keep fewer of them.
  const env = { LOCK_DURATION_MS: '60000', EVENT_LOG_MAX: '20000', ARCHIVE_TTL_S: '0' };
  const world = useConsoleWorld({ env });

  test('is followed, read, filtered and scrolled without a long task', { timeout: 480_000 }, async () => {
    const { current } = world;
    const opened = await browser.open({ url: current.url });
    await noteLongTasks(opened.page);
    const open = async () => {
      const plan = Array.from({ length: steps }, (_, step): PlannedStep => ({ calls: callsOf(step) }));
      const { runId } = await current.submit('tireless', [...plan, { text: 'It is all done.' }]);
      await opened.visit(`/runs/${runId}`);
    };
    await expectNoLongTask(opened, open, { following: () => untilEnded(opened.page), ...readAll(opened.page) });
    await opened.checkView('run-ten-thousand');
  });
});

function callsOf(step: number): readonly PlannedCall[] {
  return Array.from({ length: callsOfStep }, (_, call) => ({ name: 'look', args: { id: `${step}-${call}` } }));
}

async function untilEnded(page: Page): Promise<void> {
  await page.locator('.view-head .status', { hasText: 'completed' }).waitFor({ timeout: 120_000 });
  await page.locator('.tab-list', { hasText: `Events (${events})` }).waitFor();
}

/** To look for a role is itself a long task of a page with so much in it, so these look for classes. */
function readAll(page: Page): Readonly<Record<string, () => Promise<void>>> {
  const tab = (name: string) => page.locator('.tab-list > button', { hasText: name });
  const counted = page.locator('.filters > .soft');
  return {
    'opening again': async () => {
      await page.reload();
      await page.locator('.timeline .line').first().waitFor();
      await page.locator('.tab-list', { hasText: `Events (${events})` }).waitFor();
    },
    'more of the timeline': async () => {
      for (let more = 0; more < 3; more++) await page.locator('.timeline > button').click();
      await scrollOver(page, '#view');
    },
    'from line to line': async () => {
      for (let presses = 0; presses < 20; presses++) await page.keyboard.press('j');
    },
    'earlier steps': async () => {
      await page.locator('section[aria-label="Steps"] > button').click();
      await page.locator('.part-head', { hasText: /^Step 30/ }).waitFor();
    },
    'the list of events': async () => {
      await tab('Events').click();
      await counted.filter({ hasText: `${events} of ${events} events` }).waitFor();
      await scrollOver(page, '.table-box');
    },
    filters: async () => {
      await page.locator('.filters select').selectOption('tool.execute.end');
      await counted.filter({ hasText: /^2,\d{3} of/ }).waitFor();
      await page.locator('.filters input').fill('77-7');
      await counted.filter({ hasText: /^1 of/ }).waitFor();
    },
    'other parts': async () => {
      await tab('Cost').click();
      await page.locator('h2', { hasText: 'By model' }).waitFor();
      await tab('Steps').click();
      await page.locator('.timeline .line').first().waitFor();
    },
  };
}
