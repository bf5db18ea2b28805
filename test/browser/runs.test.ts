import { expect, onTestFinished, test } from 'vitest';
import type { Page, Route } from 'playwright-core';
import { planInput } from '../support/plan.ts';
import { until } from '../support/redis.ts';
import { describeInBrowser, useBrowser, useConsoleWorld } from './support.ts';

describeInBrowser('the list of runs', () => {
  const browser = useBrowser();
  const world = useConsoleWorld();
  const open = async (path: string, width?: number) => {
    const opened = await browser.open({ url: world.current.url, ...(width && { width }) });
    await opened.visit(path);
    return opened;
  };

  test('a run appears, changes and ends in the list without a reload', async () => {
    const opened = await open('/runs?batch=live');
    const { page } = opened;
    await page.getByText('No run fits these filters').waitFor();
    await opened.checkView('runs-none');
    const hold = { gate: 'live-goes-on', afterPieces: 1 };
    const { runId } = await world.current.submit('plain', [{ text: 'one two three', hold }], { batch: 'live' });
    const row = page.getByRole('row').filter({ hasText: runId });
    await row.getByText('running').waitFor();
    world.current.provider.gates.open('live-goes-on');
    await row.getByText('completed').waitFor();
    expect(await row.textContent()).toContain('plain');
    await opened.checkView('runs');
  });

  test('filters are in the address, survive a reload and can be cleared', async () => {
    const mine = await world.current.submit('plain', [{ text: 'mine' }], {
      batch: 'filters',
      metadata: { user: 'u1' },
    });
    const other = await world.current.submit('plain', [{ text: 'other' }], {
      batch: 'filters',
      metadata: { user: 'u2' },
    });
    await Promise.all([world.current.ended(mine), world.current.ended(other)]);
    const { page } = await open('/runs?batch=filters');
    await page.getByRole('link', { name: other.runId }).waitFor();
    await page.getByLabel('Metadata').fill('user=u1');
    await page.getByRole('link', { name: other.runId }).waitFor({ state: 'detached' });
    await page.getByLabel('Status').selectOption('completed');
    await page.waitForURL(/status=completed/);
    await page.reload();
    await page.getByRole('link', { name: mine.runId }).waitFor();
    expect(await page.getByLabel('Metadata').inputValue()).toBe('user=u1');
    expect(await page.getByRole('link', { name: other.runId }).count()).toBe(0);
    await page.getByLabel('Metadata').fill('user');
    await page.getByText('Write key=value').waitFor();
    await page.getByRole('button', { name: /^Clear 3 filters$/ }).click();
    await page.waitForURL((url) => url.search === '');
    // What was open does not fold away under the pointer.
    expect(await page.getByLabel('Metadata').isVisible()).toBe(true);
  });

  test('an id that no run has the beginning of is said to be one, and moves nothing', async () => {
    const { runId } = await world.current.submit('plain', [{ text: 'looked for' }], { batch: 'ids' });
    const opened = await open('/runs?batch=ids');
    const { page } = opened;
    await page.getByRole('link', { name: runId }).waitFor();
    const table = page.getByRole('table', { name: 'Runs' });
    const before = await table.boundingBox();
    const end = runId.slice(-6);
    await page.getByLabel('Find a run').fill(end);
    await page.keyboard.press('Enter');
    const said = page.getByText(`No id begins with ${end}.`);
    await said.waitFor();
    expect(await table.boundingBox()).toEqual(before);
    expect(await page.getByRole('button', { name: /^Clear/ }).textContent()).toBe('Clear the filter');
    await opened.checkView('runs-not-found');
    await page.getByLabel('Find a run').fill('01');
    await said.waitFor({ state: 'detached' });
  });

  test('a time in the address is the same moment for a reader in another time zone', async () => {
    const pageIn = async (timezoneId: string, path: string) => {
      const opened = await browser.open({ url: world.current.url, timezoneId });
      await opened.visit(path);
      return opened.page;
    };
    const berlin = await pageIn('Europe/Berlin', '/runs');
    await berlin.getByText('More filters').click();
    await berlin.getByLabel('Created from').fill('2026-07-01T09:30');
    await berlin.waitForURL((url) => url.searchParams.get('from') === '2026-07-01T07:30:00.000Z');
    expect(await berlin.getByLabel('Created from').inputValue()).toBe('2026-07-01T09:30');
    const { pathname, search } = new URL(berlin.url());
    const newYork = await pageIn('America/New_York', pathname + search);
    expect(await newYork.getByLabel('Created from').inputValue()).toBe('2026-07-01T03:30');
    // Addresses that were kept before have no zone.
    const kept = await pageIn('America/New_York', '/runs?from=2026-07-01T09:30');
    expect(await kept.getByLabel('Created from').inputValue()).toBe('2026-07-01T09:30');
  });

  test('the keyboard alone finds a run by how its id begins, moves in the list and opens a row', async () => {
    const runs = [];
    for (const text of ['first', 'second']) {
      const run = await world.current.submit('plain', [{ text }], { batch: 'keys' });
      await world.current.ended(run);
      runs.unshift(run.runId);
    }
    const { page } = await open('/runs?batch=keys');
    await page.getByRole('link', { name: runs[1] ?? '' }).waitFor();
    for (const key of ['j', 'j', 'k', 'j', 'Enter']) await page.keyboard.press(key);
    await page.waitForURL(`**/runs/${runs[1]}`);
    await page.goBack();
    await page.getByRole('link', { name: runs[0] ?? '' }).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type(runs[0] ?? '');
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/runs/${runs[0]}`);
    await page.goBack();
    await page.getByRole('link', { name: runs[0] ?? '' }).waitFor();
    const link = page.getByRole('link', { name: 'New run' });
    await link.focus();
    for (const key of ['j', 'Enter']) await page.keyboard.press(key);
    await page.waitForURL(`**/runs/${runs[0]}`);
    await page.goBack();
    await page.getByRole('link', { name: runs[0] ?? '' }).waitFor();
    await page.keyboard.press('j');
    await link.focus();
    await page.keyboard.press('Enter');
    await page.waitForURL('**/runs/new');
  });

  test('a click on a row opens its run, unless it is on the box or ends a selection of text', async () => {
    const { runId } = await world.current.submit('plain', [{ text: 'clicked' }], { batch: 'clicked' });
    const { page } = await open('/runs?batch=clicked');
    const row = page.getByRole('row').filter({ hasText: runId });
    await row.getByRole('checkbox').check();
    const note = row.getByText('batch clicked');
    const { x = 0, y = 0, width = 0 } = (await note.boundingBox()) ?? {};
    await page.mouse.move(x + 2, y + 8);
    await page.mouse.down();
    await page.mouse.move(x + width - 4, y + 8, { steps: 4 });
    await page.mouse.up();
    expect(await page.evaluate('getSelection().toString()')).toContain('batch');
    expect(new URL(page.url()).pathname).toBe('/runs');
    await row.getByText('plain', { exact: true }).click();
    await page.waitForURL(`**/runs/${runId}`);
  });

  test('runs that are ticked, and all that fit, are cancelled after a question', async () => {
    const hold = { gate: 'never', afterPieces: 0 };
    const runs = await Promise.all(
      ['a', 'b', 'c'].map((text) => world.current.submit('plain', [{ text, hold }], { batch: 'bulk' })),
    );
    const statuses = async () =>
      await Promise.all(runs.map(async ({ runId }) => (await world.current.mill.get(runId)).status));
    const opened = await open('/runs?batch=bulk');
    const { page } = opened;
    await page.getByRole('checkbox', { name: `Select ${runs[0]?.runId}` }).check();
    await page.getByRole('button', { name: 'Cancel 1', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Cancel runs' });
    await dialog.getByText('Cancel 1 run?').waitFor();
    await opened.checkView('runs-cancel');
    await dialog.getByRole('button', { name: 'Back' }).click();
    expect(await statuses()).not.toContain('cancelled');
    await page.getByRole('button', { name: 'Cancel 1', exact: true }).click();
    await dialog.getByRole('button', { name: 'Cancel 1 run' }).click();
    await page.getByText('1 cancelled').first().waitFor();
    await until(
      'the one is cancelled',
      async () => (await statuses()).filter((status) => status === 'cancelled').length === 1,
    );
    await page.getByRole('button', { name: 'Cancel all open' }).click();
    await dialog.getByRole('button', { name: /^Cancel 2 runs$/ }).click();
    await until('all are cancelled', async () => (await statuses()).every((status) => status === 'cancelled'));
    opened.checkComplaints();
  });

  test('more new runs than a page between two refreshes are all in the list', async () => {
    const { current } = world;
    const { page } = await open('/runs?batch=many');
    await page.getByText('No run fits these filters').waitFor();
    const before = await current.submit('plain', [{ text: 'before' }], { batch: 'many' });
    await page.getByRole('link', { name: before.runId }).waitFor();
    const newest = await holdNewestPage(page, 'many');
    await newest.held;
    const request = { agent: 'plain', input: planInput({ text: 'many' }), batch: 'many', priority: 9 };
    await current.mill.enqueueMany(Array.from({ length: 230 }, () => request));
    newest.release();
    await page.locator('[role="table"][aria-label="Runs"][aria-rowcount="232"]').waitFor();
    await page.getByText('All 231 are here.').waitFor();
  });

  test('a refresh that is asked for while another is under way comes behind it, and the list goes on once', async () => {
    const { current } = world;
    const hold = { gate: 'never', afterPieces: 0 };
    const { runId } = await current.submit('plain', [{ text: 'held', hold }], { batch: 'once' });
    const { page } = await open('/runs?batch=once');
    await page.getByRole('checkbox', { name: `Select ${runId}` }).check();
    const newest = await holdNewestPage(page, 'once');
    await newest.held;
    await page.getByRole('button', { name: 'Cancel 1', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel 1 run' }).click();
    await page.getByText('1 cancelled').first().waitFor();
    expect(newest.mostAtOnce()).toBe(1);
    newest.release();
    await page.getByRole('row').filter({ hasText: runId }).getByText('cancelled').waitFor();
    await until('it is read again and again', () => newest.count() >= 4);
    expect(newest.mostAtOnce()).toBe(1);
  });

  test('on a laptop no column is cut, and the id of a run is there in full to be copied', async () => {
    const { runId } = await world.current.submit('plain', [{ text: 'wide' }], { batch: 'wide' });
    const { page } = await open('/runs?batch=wide', 1_280);
    await page.getByRole('link', { name: runId }).waitFor();
    const cut = await page.evaluate(`(() => {
      const { scrollWidth, clientWidth } = document.querySelector('.table-box');
      return scrollWidth - clientWidth;
    })()`);
    expect(cut).toBe(0);
    const head = page.getByRole('columnheader', { name: 'Tokens' });
    const { x = 0, width = 0 } = (await head.boundingBox()) ?? {};
    expect(x + width).toBeLessThan(1_280);
  });

  test('on a phone the list fits the screen', async () => {
    const opened = await open('/runs', 380);
    await opened.page.getByRole('table', { name: 'Runs' }).waitFor();
    const width = await opened.page.evaluate('document.documentElement.scrollWidth');
    expect(width).toBeLessThanOrEqual(380);
    await opened.checkView('runs-phone');
  });

  test('on a phone the filters lie behind a button, which says how many there are and opens them with the keyboard', async () => {
    const { runId } = await world.current.submit('plain', [{ text: 'folded' }], { batch: 'folded' });
    const opened = await open('/runs?batch=folded', 390);
    const { page } = opened;
    const link = page.getByRole('link', { name: runId });
    await link.waitFor();
    expect((await link.boundingBox())?.y).toBeLessThan(400);
    const button = page.getByRole('button', { name: 'Filters (1)' });
    expect(await page.getByLabel('Status').isVisible()).toBe(false);
    await button.press('Enter');
    await page.getByLabel('Status').selectOption('failed');
    await page.getByRole('button', { name: 'Filters (2)' }).and(page.locator('[aria-expanded="true"]')).waitFor();
    await opened.checkView('runs-phone-filters');
    await page.getByRole('button', { name: 'Clear 2 filters' }).click();
    await page.getByRole('button', { name: 'Filters', exact: true }).click();
    expect(await page.getByLabel('Status').isVisible()).toBe(false);
    await page.setViewportSize({ width: 1_280, height: 800 });
    await page.getByLabel('Status').waitFor();
    expect(await page.getByRole('button', { name: 'Filters', exact: true }).count()).toBe(0);
  });

  test('on a phone a filter that is not understood is in sight', async () => {
    const { page } = await open('/runs?metadata=user', 390);
    await page.getByText('Write key=value').waitFor();
  });
});

/** Holds the next request for the newest runs of a batch, and counts all of them. */
async function holdNewestPage(page: Page, batch: string) {
  const { promise: held, resolve: onHeld } = Promise.withResolvers<void>();
  const { promise: released, resolve: onReleased } = Promise.withResolvers<void>();
  const [open, seen] = [new Set<Route>(), new Set<Route>()];
  let most = 0;
  const isNewest = ({ pathname, searchParams: query }: URL) =>
    pathname === '/v1/runs' && query.get('batch') === batch && query.get('limit') === '100' && !query.has('cursor');
  await page.route(isNewest, async (route) => {
    open.add(route);
    seen.add(route);
    most = Math.max(most, open.size);
    onHeld();
    await released;
    const response = await route.fetch();
    await route.fulfill({ response });
    open.delete(route);
  });
  onTestFinished(() => page.unrouteAll({ behavior: 'ignoreErrors' }));
  return { held, release: onReleased, mostAtOnce: () => most, count: () => seen.size };
}
