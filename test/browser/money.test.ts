import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { apiKeys, visitAs } from './as-key.ts';
import { describeInBrowser, useBrowser, useConsoleWorld, type ConsolePage } from './support.ts';

const tablesThatAreCut = `[...document.querySelectorAll('.scrolls')]
  .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
  .map((box) => box.getAttribute('aria-label'))`;

describeInBrowser('the money', () => {
  const browser = useBrowser();
  const world = useConsoleWorld({ env: { MILLRACE_API_KEYS: apiKeys } });

  const open = async (path: string, key = 'key-of-all', width?: number): Promise<ConsolePage> => {
    const { url } = world.current;
    const opened = await browser.open({ url, ...(width && { width }) });
    await visitAs(opened, url, key, path);
    return opened;
  };

  test('what this week cost stands on top, by day, model and agent, for the own tenant', async () => {
    const run = await world.current.submit('plain', [{ text: 'paid' }]);
    await run.result();
    const { totals } = await world.current.mill.costs();
    expect(totals.costMicrocents).toBeGreaterThan(0);
    const opened = await open('/money');
    const { page } = opened;
    await page.getByRole('heading', { name: 'Last 7 days' }).waitFor();
    const amount = page.locator('.figure').first().locator('.number');
    expect(await amount.getAttribute('title')).toBe(`${totals.costMicrocents.toLocaleString('en-US')} microcents`);
    await page.getByRole('region', { name: 'By agent' }).first().getByRole('link', { name: 'plain' }).waitFor();
    const byDay = page.getByRole('region', { name: 'By day' }).last();
    const days = async () => await byDay.locator('td:first-child').allTextContents();
    const latestFirst = await days();
    await byDay.getByRole('button', { name: 'Day (UTC)' }).click();
    expect(await days()).toEqual(latestFirst.toReversed());
    await byDay.getByRole('button', { name: 'Cost' }).click();
    expect((await days())[0]).toBe(latestFirst[0]);
    await byDay.getByRole('columnheader', { name: 'Cost' }).and(page.locator('[aria-sort="descending"]')).waitFor();
    const expensive = page.getByRole('region', { name: 'Most expensive runs' }).first();
    await expensive.getByRole('button', { name: 'Look for them' }).click();
    await expensive.getByRole('link', { name: run.runId.slice(0, 13) }).waitFor();
    await expensive.getByText('1 run of these days').waitFor();
    for (const width of [1_280, 1_440]) {
      await page.setViewportSize({ width, height: 800 });
      expect(await page.evaluate(tablesThatAreCut), `at ${width}`).toEqual([]);
    }
    const saved = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download as CSV' }).click();
    const csv = await readFile(await (await saved).path(), 'utf8');
    expect(csv).toMatch(/^day,agent,provider,model,calls,tokens,cost_usd,unconfirmed_usd,calls_unpriced\n20.*,plain,/);
    await page.getByRole('button', { name: '30 days' }).click();
    await page.waitForURL((url) => url.searchParams.get('days') === '30');
    await page.reload();
    await page.getByRole('heading', { name: '30 days' }).waitFor();
    const south = await open('/money', 'key-of-south');
    await south.page.getByText('No model was called in this time.').waitFor();
  });

  test('a budget is set, shown and topped up, and a run that waits for it goes on', async () => {
    const opened = await open('/money');
    const { page } = opened;
    await page.getByRole('button', { name: 'Set the budget of a batch' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Batch').fill('nightly');
    await dialog.getByLabel('Dollars').fill('0.00000001');
    await dialog.getByLabel('When it is spent').selectOption('pause_for_approval');
    await opened.checkView('money-set');
    await dialog.getByRole('button', { name: 'Set it' }).click();
    await dialog.waitFor({ state: 'detached' });
    const row = page.getByRole('row').filter({ hasText: 'nightly' });
    await row.waitFor();
    const run = await world.current.submit('plain', [{ text: 'waited' }], { batch: 'nightly' });
    await row.getByText('1 for money').waitFor();
    await opened.checkView('money');
    await row.getByRole('button', { name: 'Top up' }).click();
    await page.getByRole('dialog', { name: 'Top up batch nightly' }).getByLabel('How many dollars more').fill('5');
    await page.keyboard.press('Enter');
    expect((await run.result()).status).toBe('completed');
    await row.getByText('$5.00').waitFor();
    await expect.poll(() => row.textContent()).not.toContain('for money');
    expect((await world.current.mill.budgets.get('batch', 'nightly')).capMicrocents).toBe(500_000_001);
    opened.checkComplaints();
  });

  test('a key that may only look changes nothing, and a phone shows all of it', async () => {
    const opened = await open('/money', 'key-of-looker', 380);
    const { page } = opened;
    await page.getByRole('heading', { name: 'Budgets' }).waitFor();
    await page.getByRole('region', { name: 'Budgets' }).last().getByText('default').waitFor();
    expect(await page.getByRole('button', { name: /Set|Top up/ }).count()).toBe(0);
    const wide = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
    expect(wide).toBe(0);
    await opened.checkView('money-phone');
  });

  test('the audit log has who set the budget, and is exported', async () => {
    await world.current.mill.budgets.set('batch', 'audited', { maxCostUsd: 3 });
    const opened = await open('/audit');
    const { page } = opened;
    await page.getByText('batch audited may spend $3.00').waitFor();
    await opened.checkView('audit');
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Export as JSONL' }).click();
    expect((await download).suggestedFilename()).toBe('audit.jsonl');
    await page.getByLabel('Kind').selectOption('denial');
    await page.getByText('Nothing of this kind is in the log.').waitFor();
    const looker = await open('/audit', 'key-of-looker');
    await looker.page.getByText('Only a key with the scope admin').waitFor();
  });
});
