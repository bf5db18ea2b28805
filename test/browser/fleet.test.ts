import { expect, test } from 'vitest';
import { apiKeys, visitAs } from './as-key.ts';
import { describeInBrowser, useBrowser, useConsoleWorld, type ConsolePage } from './support.ts';

describeInBrowser('the fleet', () => {
  const browser = useBrowser();
  const world = useConsoleWorld({ env: { MILLRACE_API_KEYS: apiKeys } });

  const open = async (key: string, width?: number, path = '/fleet'): Promise<ConsolePage> => {
    const { url } = world.current;
    const opened = await browser.open({ url, ...(width && { width }) });
    await visitAs(opened, url, key, path);
    return opened;
  };

  test('it shows live who works on what, to its own tenant', async () => {
    const [opened, south] = [await open('key-of-all'), await open('key-of-south')];
    const { page } = opened;
    const workers = page.getByRole('region', { name: 'Workers' }).last();
    await workers.getByText('nothing').waitFor();
    await workers.getByText(/^\d+(\.\d)? (ms|s) ago$/).waitFor();
    await workers.getByRole('columnheader', { name: 'Up for' }).waitFor();
    expect(await workers.getByText('not known').count()).toBe(0);
    const held = { text: 'held for a while', hold: { gate: 'fleet', afterPieces: 1 } };
    const run = await world.current.submit('plain', [held]);
    await workers.getByRole('link', { name: 'plain' }).waitFor();
    expect(await workers.getByRole('link', { name: 'plain' }).getAttribute('href')).toBe(`/runs/${run.runId}`);
    await south.page.getByText('runs of others').waitFor();
    expect(await south.page.content()).not.toContain(run.runId);
    world.current.provider.gates.open('fleet');
    await run.result();
    await workers.getByText('nothing').waitFor();
    await page.getByRole('region', { name: 'Provider limits in use' }).last().getByText('gpt-4o-mini').waitFor();
    await page.getByRole('region', { name: 'Model providers' }).last().getByText('answers').waitFor();
  });

  test('queues are sorted by their heads, and stay so while the page goes on', async () => {
    const { page } = await open('key-of-all');
    const queues = page.getByRole('region', { name: 'Queues' }).last();
    await queues.getByRole('button', { name: 'Queue' }).click();
    const names = async () => await queues.locator('td:first-child').allTextContents();
    const ascending = await names();
    expect(ascending.length).toBeGreaterThan(1);
    expect(ascending).toEqual(ascending.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true })));
    await queues.getByRole('button', { name: 'Queue' }).click();
    await page.waitForResponse((response) => response.url().endsWith('/v1/fleet'));
    expect(await names()).toEqual(ascending.toReversed());
  });

  test('charts draw the counted runs, and have their numbers as a table', async () => {
    await (await world.current.submit('plain', [{ text: 'counted' }])).result();
    const opened = await open('key-of-all');
    const { page } = opened;
    const figure = page.getByRole('figure').filter({ hasText: 'Runs per ' });
    await figure.getByRole('heading', { name: 'Runs per 30 seconds' }).waitFor();
    await figure.locator('canvas').waitFor();
    await figure.getByText('as a table').click();
    const numbers = figure.getByRole('table').last();
    await expect.poll(() => numbers.textContent()).toMatch(/started.*ended/);
    const { runs } = await world.current.mill.list();
    await expect
      .poll(async () =>
        (await numbers.locator('tr > td:nth-child(2)').allTextContents()).reduce((sum, text) => sum + Number(text), 0),
      )
      .toBe(runs.length);
    await opened.checkView('fleet');
    await page.getByRole('button', { name: 'The last day' }).click();
    await figure.getByRole('heading', { name: 'Runs per 10 minutes' }).waitFor();
    await figure.locator('canvas').waitFor();
    await opened.checkView('fleet-day');
    await page.getByRole('button', { name: 'The last week' }).click();
    await figure.getByRole('heading', { name: 'Runs per hour' }).waitFor();
    await page.waitForURL('**/fleet?range=week');
    await page.reload();
    await page.getByRole('button', { name: 'The last week', pressed: true }).waitFor();
    await figure.locator('canvas').waitFor();
    await figure.scrollIntoViewIfNeeded();
    await opened.checkView('fleet-week');
  });

  test('one sentence says how the fleet is, and what is to be seen to leads there', async () => {
    const { mill } = world.current;
    const failing = { text: 'never', faults: [{ kind: 'status', status: 400 }] } as const;
    const run = await world.current.submit('plain', [failing]);
    expect((await mill.result(run.runId)).status).toBe('failed');
    const opened = await open('key-of-all');
    const { page } = opened;
    const verdict = page.getByRole('region', { name: 'How it is' });
    await verdict.getByText(/Works, with \d+ warnings?$/).waitFor();
    await opened.checkView('fleet-verdict');
    await verdict.getByRole('link', { name: 'Look at the failed runs' }).click();
    await page.waitForURL('**/runs?status=failed');
    await page.getByRole('link', { name: run.runId }).waitFor();
    const looker = await open('key-of-looker');
    await looker.page.getByRole('region', { name: 'How it is' }).getByText('by what the workers say').waitFor();
  });

  test('doctor speaks to operators only, and a phone shows all of it', async () => {
    const opened = await open('key-of-all', 380);
    await opened.page.getByRole('region', { name: 'What doctor says' }).last().getByText('stuck runs').waitFor();
    const wide = await opened.page.evaluate(
      'document.documentElement.scrollWidth - document.documentElement.clientWidth',
    );
    expect(wide).toBe(0);
    await opened.checkView('fleet-phone');
    const looker = await open('key-of-looker');
    await looker.page.getByText('Only a key with the scope admin sees this.').waitFor();
    await looker.page.getByRole('heading', { name: 'Workers' }).waitFor();
  });

  test('a dead producer is said to be dead, what was seen stays, and it goes on when it is back', async () => {
    const { fleet } = world.current;
    const { child, url } = await fleet.startProducer({ MILLRACE_API_KEYS: apiKeys });
    const opened = await browser.open({ url });
    const { page } = opened;
    await visitAs(opened, url, 'key-of-all', '/fleet');
    const workers = page.getByRole('region', { name: 'Workers' }).last();
    await workers.getByText('nothing').waitFor();
    await child.kill();
    await page.getByRole('alert').getByText('What you see is what it said last').waitFor();
    expect(await workers.getByText('nothing').isVisible()).toBe(true);
    const held = { text: 'held for a while', hold: { gate: 'back', afterPieces: 1 } };
    const run = await world.current.submit('plain', [held]);
    await fleet.startProducer({ MILLRACE_API_KEYS: apiKeys, PORT: new URL(url).port });
    await page.getByRole('alert').getByText('What you see is what it said last').waitFor({ state: 'detached' });
    await workers.getByRole('link', { name: 'plain' }).waitFor();
    world.current.provider.gates.open('back');
    await run.result();
    opened.checkComplaints();
  });
});
