import { expect, test } from 'vitest';
import { planInput } from '../support/plan.ts';
import { apiKeys, visitAs } from './as-key.ts';
import { describeInBrowser, useBrowser, useConsoleWorld, type ConsolePage } from './support.ts';

describeInBrowser('the agents', () => {
  const browser = useBrowser();
  const world = useConsoleWorld({ env: { MILLRACE_API_KEYS: apiKeys } });

  const open = async (path: string, key = 'key-of-all', width?: number): Promise<ConsolePage> => {
    const { url } = world.current;
    const opened = await browser.open({ url, ...(width && { width }) });
    await visitAs(opened, url, key, path);
    return opened;
  };

  test('the list shows what each agent did, leads to it, and works on a phone', async () => {
    const run = await world.current.submit('gated', [{ text: 'done' }]);
    await run.result();
    const opened = await open('/agents');
    const { page } = opened;
    const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'gated', exact: true }) });
    await row.getByText('gpt-4o-mini').waitFor();
    // Runs are counted as they end, and the list asks again by itself.
    await expect.poll(() => row.textContent()).toContain('1');
    await opened.checkView('agents');
    await row.getByRole('link').click();
    await page.waitForURL('**/agents/gated');
    await page.getByRole('heading', { name: 'gated' }).waitFor();
    const phone = await open('/agents', 'key-of-all', 380);
    await phone.page.getByRole('link', { name: 'gated', exact: true }).waitFor();
    expect(await overflow(phone)).toBeLessThanOrEqual(0);
    await phone.checkView('agents-phone');
  });

  test('heads of columns sort the list: one way, the other way, and as it came', async () => {
    const opened = await open('/agents');
    const { page } = opened;
    const names = async () => await page.getByRole('table', { name: 'Agents' }).getByRole('link').allTextContents();
    const head = page.getByRole('columnheader', { name: 'Agent' });
    await page.getByRole('link', { name: 'plain', exact: true }).waitFor();
    const asItCame = await names();
    const sorted = asItCame.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true }));
    expect(await head.getAttribute('aria-sort')).toBe('none');
    await head.getByRole('button').click();
    expect(await head.getAttribute('aria-sort')).toBe('ascending');
    expect(await names()).toEqual(sorted);
    await opened.checkView('agents-sorted');
    await page.keyboard.press('Enter');
    expect(await head.getAttribute('aria-sort')).toBe('descending');
    expect(await names()).toEqual(sorted.toReversed());
    expect(new URL(page.url()).search).toBe('?sort-agents=Agent.descending');
    await page.reload();
    await page.getByRole('link', { name: 'plain', exact: true }).waitFor();
    expect(await names()).toEqual(sorted.toReversed());
    await head.getByRole('button').focus();
    await page.keyboard.press('Enter');
    expect(await head.getAttribute('aria-sort')).toBe('none');
    expect(await names()).toEqual(asItCame);
    expect(await page.getByRole('columnheader', { name: 'Tools' }).getByRole('button').count()).toBe(0);
    expect(new URL(page.url()).pathname + new URL(page.url()).search).toBe('/agents');
  });

  test('an agent shows its definition and its tools with how their calls are guarded', async () => {
    const opened = await open('/agents/gated?tab=tools');
    const { page } = opened;
    const charge = page.getByRole('region', { name: 'charge', exact: true });
    await charge.getByText('a person decides about every call').waitFor();
    await charge.getByText('Arguments of charge').click();
    await opened.checkView('agent-tools');
    await page.getByRole('tab', { name: 'Definition' }).click();
    await page.getByRole('heading', { name: 'Limits' }).waitFor();
    expect(new URL(page.url()).search).toBe('?tab=definition');
    await opened.checkView('agent-definition');
    await page.reload();
    await page.getByRole('heading', { name: 'Guards' }).waitFor();
    opened.checkComplaints();
  });

  test('who tries an agent gets to the page of the run, which is in the list of its runs', async () => {
    const opened = await open('/agents/plain');
    const { page } = opened;
    await page.getByRole('button', { name: 'Try it' }).click();
    const dialog = page.getByRole('dialog', { name: 'Try plain' });
    expect(await dialog.getByRole('button', { name: 'Start a run' }).isDisabled()).toBe(true);
    await dialog.getByLabel('What it is asked').fill(planInput({ text: 'tried' }));
    await dialog.getByLabel('At most, in dollars').fill('much');
    await dialog.getByText('A number above 0').waitFor();
    await dialog.getByLabel('At most, in dollars').fill('0.50');
    await opened.checkView('agent-try');
    await dialog.getByRole('button', { name: 'Start a run' }).click();
    await page.waitForURL('**/runs/*');
    const runId = new URL(page.url()).pathname.split('/')[2] ?? '';
    expect(await world.current.mill.result(runId)).toMatchObject({ status: 'completed', text: 'tried' });
    expect((await world.current.mill.budgets.get('run', runId)).capMicrocents).toBe(50_000_000);
    await page.goBack();
    await page.getByRole('link', { name: runId.slice(0, 13) }).waitFor();
    await page.getByText('completed').first().waitFor();
  });

  test('a key that may only look tries nothing, and another tenant sees no runs', async () => {
    const { page } = await open('/agents/plain', 'key-of-looker');
    await page.getByRole('heading', { name: 'plain' }).waitFor();
    expect(await page.getByRole('button', { name: 'Try it' }).count()).toBe(0);
    const south = await open('/agents/gated', 'key-of-south');
    await south.page.getByText('It has not run yet.').waitFor();
  });

  test('an agent that is not there says so, with those that are', async () => {
    const { page } = await open('/agents/plane');
    const alert = page.getByRole('alert');
    await alert.waitFor();
    expect(await alert.textContent()).toContain('plain');
  });
});

/** By how much the page is wider than the screen. */
async function overflow({ page }: ConsolePage): Promise<number> {
  return await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
}
