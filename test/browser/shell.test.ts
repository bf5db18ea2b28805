import { expect, test } from 'vitest';
import { describeInBrowser, useBrowser, useConsoleWorld } from './support.ts';

describeInBrowser('the frame of the console', () => {
  const browser = useBrowser();
  const world = useConsoleWorld();

  test('every view has an address that survives a reload, and the navigation says where one is', async () => {
    const opened = await browser.open({ url: world.current.url });
    const { page } = opened;
    await opened.visit('/');
    await page.waitForURL('**/runs');
    for (const name of ['Runs', 'Approvals', 'Threads', 'Batches', 'Agents', 'Money', 'Fleet']) {
      await page.getByRole('navigation').getByRole('link', { name }).click();
      await page.waitForURL(`**/${name.toLowerCase()}`);
      await page.reload();
      const current = page.getByRole('navigation').locator('[aria-current=page]');
      await current.waitFor();
      expect(await current.textContent()).toBe(name);
      expect(await page.title()).toBe(`${name} · Millrace`);
    }
    opened.checkComplaints();
  });

  test('nothing moves when another entry of the navigation, or another tab, becomes the current one', async () => {
    const { runId } = await world.current.submit('plain', [{ text: 'still' }]);
    const { page, ...opened } = await browser.open({ url: world.current.url });
    const placesIn = async (selector: string) =>
      await page.evaluate(`[...document.querySelectorAll('${selector}')].map((each) => {
        const { left, width } = each.getBoundingClientRect();
        return [each.textContent, left, width];
      })`);
    await page.goto(`${world.current.url}/runs`);
    await page.getByRole('heading', { name: 'Runs' }).waitFor();
    const entries = await placesIn('.bar nav a');
    for (const name of ['Fleet', 'Approvals', 'Audit']) {
      await page.getByRole('navigation').getByRole('link', { name }).click();
      await page.locator('.bar nav a[aria-current]', { hasText: name }).waitFor();
      expect(await placesIn('.bar nav a')).toEqual(entries);
    }
    await page.goto(`${world.current.url}/runs/${runId}`);
    await page.locator('.view-head .status', { hasText: 'completed' }).waitFor();
    await page.getByRole('list', { name: 'Timeline' }).waitFor();
    await page.getByRole('tab', { name: /^Events \([1-9]/ }).waitFor();
    const tabs = await placesIn('.tab-list > button');
    await page.getByRole('tab', { name: 'Request' }).click();
    await page.getByRole('tab', { name: 'Request', selected: true }).waitFor();
    expect(await placesIn('.tab-list > button')).toEqual(tabs);
    expect(opened.complaints).toEqual([]);
  });

  test('on a phone the entry of the current view is in sight', async () => {
    const { page, ...opened } = await browser.open({ url: world.current.url, width: 380 });
    await page.goto(`${world.current.url}/audit`);
    const current = page.getByRole('navigation').locator('[aria-current=page]');
    await current.waitFor();
    const edge = async () => {
      const { x = -1, width = 0 } = (await current.boundingBox()) ?? {};
      return x >= 0 && x + width <= 380;
    };
    await expect.poll(edge).toBe(true);
    expect(opened.complaints).toEqual([]);
  });

  test('the keys lead to views and show what they do, and the theme is chosen', async () => {
    const opened = await browser.open({ url: world.current.url });
    const { page } = opened;
    await opened.visit('/runs');
    await page.getByRole('navigation').waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('f');
    await page.waitForURL('**/fleet');
    // Both keys before the next paint, with a Shift between them.
    await page.evaluate(`(async () => {
      for (const key of ['g', 'Shift', 'm']) {
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
    })()`);
    await page.waitForURL('**/money');
    await page.locator('header').getByText('Theme', { exact: true }).waitFor();
    await page.getByLabel('Theme').selectOption('dark');
    expect(await page.locator('html').getAttribute('data-theme')).toBe('dark');
    await page.getByLabel('Theme').selectOption('system');
    await page.keyboard.press('?');
    const help = page.getByRole('dialog', { name: 'Keys' });
    await help.getByText('Show the keys').waitFor();
    await opened.checkView('keys');
    await page.keyboard.press('Escape');
    await help.waitFor({ state: 'detached' });
  });

  test('a page outlives its producer: it says that it is away, and goes on by itself when it is back', async () => {
    const { child, url } = await world.current.fleet.startProducer();
    const { page, ...opened } = await browser.open({ url });
    await page.goto(`${url}/runs?batch=after-the-fall`);
    await page.getByText('No run fits these filters').waitFor();
    await child.kill();
    const away = page.getByText('What you see is what it said last');
    await away.waitFor();
    const { runId } = await world.current.submit('plain', [{ text: 'meanwhile' }], { batch: 'after-the-fall' });
    await world.current.fleet.startProducer({ PORT: new URL(url).port });
    await away.waitFor({ state: 'detached' });
    await page.getByRole('link', { name: runId }).waitFor();
    expect(opened.complaints).toEqual([]);
  });
});
