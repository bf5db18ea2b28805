import { expect, test } from 'vitest';
import { planInput } from '../support/plan.ts';
import { testRedis, until } from '../support/redis.ts';
import { makeWorld, type World } from '../support/world.ts';
import { buildConsole, describeInBrowser, useBrowser, useConsoleWorld } from './support.ts';

/** A call without its one argument, which the agent may not correct: the run fails with it. */
const failing = planInput({ calls: [{ name: 'look', args: { order: '4711' } }] }, { text: 'never' });
const noCorrections = { limits: { maxCorrections: 0 } };

describeInBrowser('the page of a run', () => {
  const browser = useBrowser();
  const shared = useConsoleWorld();

  async function failedRun(): Promise<string> {
    const { mill } = shared.current;
    const run = await mill.enqueue({ agent: 'hands', input: failing, metadata: { user: 'anna' }, ...noCorrections });
    await run.result();
    return run.runId;
  }

  test('the call that failed and its arguments are in sight, from the list, after a reload and by its link', async () => {
    const runId = await failedRun();
    const opened = await browser.open({ url: shared.current.url });
    const { page } = opened;
    await opened.visit('/runs');
    await page.locator(`a[href="/runs/${runId}"]`).first().click();
    await page.getByText('tool_failed').first().waitFor();
    await page.getByRole('button', { name: 'Show the call that failed: look' }).click();
    const call = page.locator('details.part-bad');
    await call.getByText('invalid input').waitFor();
    await call.getByText('4711').waitFor();
    await opened.checkView('run-failed');
    expect(page.url()).toContain('#call-');
    await page.reload();
    await call.getByText('4711').waitFor();
    await page.locator('details.part-bad > summary:focus').waitFor();
    // The cause is in the message, and what the tool takes beside what it got.
    await page.getByRole('alert').getByText('look with {"order":"4711"}').waitFor();
    await call.getByText('What look takes').waitFor();
    // A step that the reader has closed opens for a call in it.
    await page.locator('details.part').filter({ hasText: 'Step 1' }).first().locator('> summary').click();
    await expect.poll(() => call.count()).toBe(0);
    await page.getByRole('list', { name: 'Timeline' }).getByRole('button', { name: /^look/ }).click();
    await call.getByText('4711').waitFor();
  });

  test('a run that was stopped shows what was said so far, and why it was stopped', async () => {
    const { current } = shared;
    const hold = { gate: 'stopped-answer', afterPieces: 2 };
    const run = await current.submit('plain', [{ text: 'one two three four', hold }]);
    await current.provider.gates.reached('stopped-answer');
    const opened = await browser.open({ url: current.url });
    const { page } = opened;
    await opened.visit(`/runs/${run.runId}`);
    await page.getByRole('button', { name: 'Cancel', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Cancel this run?' });
    await dialog.getByLabel('Reason').fill('asked for something else');
    await dialog.getByRole('button', { name: 'Cancel the run' }).click();
    await page.getByText('Cancelled: asked for something else').waitFor();
    await page
      .getByLabel('text so far')
      .getByText(/^one two/)
      .waitFor();
    await opened.checkView('run-stopped');
  });

  test('days later, when the record is gone, the archive has the call that failed and its arguments', async () => {
    const world = shared.current;
    const runId = await failedRun();
    await until('it is archived', async () => (await world.mill.steps(runId)).source === 'archive');
    await forgetRecord(world, runId);
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit('/runs');
    // Three clicks: the failed ones, the run, the call.
    await page.getByLabel('Status', { exact: true }).selectOption('failed');
    await page.getByRole('link', { name: runId }).click();
    await page.getByRole('button', { name: 'Show the call that failed: look' }).click();
    await page.locator('details.part-bad').getByText('4711').waitFor();
    await page.getByRole('tab', { name: /^Events \(\d\d/ }).click();
    await page.getByText('Text deltas are not kept after the end').waitFor();
    expect(await page.getByRole('table', { name: 'Events' }).getByText('run.failed').count()).toBe(1);
    await opened.checkView('run-archived');
  });

  test('every part of the page has an address', async () => {
    const runId = await failedRun();
    const opened = await browser.open({ url: shared.current.url });
    const { page } = opened;
    await opened.visit(`/runs/${runId}?tab=events`);
    await page.getByRole('tab', { name: /^Events/, selected: true }).waitFor();
    await page.getByLabel('Type').selectOption('tool.execute.error');
    await page.waitForURL(/type=tool\.execute\.error/);
    await page.getByRole('link').filter({ hasText: /^\d+$/ }).first().click();
    await page.waitForURL(/event=\d+/);
    await page.reload();
    await page.getByRole('heading', { name: /Event \d+: tool\.execute\.error/ }).waitFor();
    await opened.checkView('run-events');
    await page.getByRole('tab', { name: 'Cost' }).click();
    await page.getByRole('heading', { name: 'By model' }).waitFor();
    await opened.checkView('run-cost');
    await page.getByRole('tab', { name: 'Request' }).click();
    await page.getByText('The conversation before its first answer').waitFor();
    expect(await page.getByRole('tabpanel').textContent()).toContain('4711');
    opened.checkComplaints();
  });

  test('the keyboard alone leads from line to line and to the call that failed', async () => {
    const runId = await failedRun();
    const opened = await browser.open({ url: shared.current.url });
    const { page } = opened;
    await opened.visit(`/runs/${runId}`);
    await page.getByRole('list', { name: 'Timeline' }).waitFor();
    const call = page.locator('button[aria-label^="look"]:focus');
    for (let presses = 0; presses < 12 && (await call.count()) === 0; presses++) await page.keyboard.press('j');
    expect(await call.count()).toBe(1);
    await page.keyboard.press('Enter');
    await page.waitForURL(/#call-/);
    await page.locator('details.part-bad > summary:focus').waitFor();
  });

  test('it fits a phone', async () => {
    const runId = await failedRun();
    const opened = await browser.open({ url: shared.current.url, width: 380, height: 800 });
    await opened.visit(`/runs/${runId}`);
    await opened.page.getByRole('list', { name: 'Timeline' }).waitFor();
    expect(await opened.page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(380);
    await opened.checkView('run-phone');
  });

  test('a run is copied as a command and as a program, and asked again', async () => {
    const runId = await failedRun();
    const opened = await browser.open({ url: shared.current.url });
    const { page } = opened;
    await opened.visit(`/runs/${runId}`);
    await page.getByRole('button', { name: 'Copy as curl' }).click();
    await page.getByText('Copied: curl').waitFor();
    const command = await page.evaluate<string>('navigator.clipboard.readText()');
    expect(command).toContain(`${shared.current.url}/v1/runs`);
    expect(command).toContain('"user": "anna"');
    await page.getByRole('button', { name: 'Copy as TypeScript' }).click();
    await page.getByText('Copied: TypeScript').waitFor();
    expect(await page.evaluate<string>('navigator.clipboard.readText()')).toContain('mill.enqueue({');

    await page.getByRole('button', { name: 'Run again' }).click();
    const dialog = page.getByRole('dialog', { name: 'Run it again?' });
    await dialog.getByText('look').waitFor();
    await dialog.getByRole('button', { name: 'Run again' }).click();
    await page.waitForURL((url) => url.pathname.startsWith('/runs/') && !url.pathname.endsWith(runId));
    await page.getByText('tool_failed').first().waitFor();
    const again = page.url().split('/').at(-1) ?? '';
    expect(await shared.current.mill.get(again)).toMatchObject({ agent: 'hands', metadata: { user: 'anna' } });
    // Each of the two leads to the other.
    const factsHave = (name: string) => page.locator('.run-facts > div').filter({ hasText: name });
    await factsHave('Run again from').getByRole('link', { name: runId }).click();
    await page.waitForURL(`**/runs/${runId}`);
    await factsHave('Run again as').getByRole('link', { name: 'another run' }).click();
    await page.waitForURL((url) => url.searchParams.get('metadata') === `rerun_of=${runId}`);
    await page.locator(`a[href="/runs/${again}"]`).first().waitFor();
  });

  test('what was asked is edited and asked again', async () => {
    const runId = await failedRun();
    const opened = await browser.open({ url: shared.current.url });
    const { page } = opened;
    await opened.visit(`/runs/${runId}`);
    await page.getByRole('link', { name: 'Edit and run again' }).click();
    await page.waitForURL(`**/runs/new?again=${runId}`);
    const input = page.getByLabel('Input', { exact: true });
    expect(await input.inputValue()).toBe(failing);
    await expect.poll(() => page.getByLabel('Metadata').inputValue()).toBe(`user=anna\nrerun_of=${runId}`);
    await input.fill(planInput({ text: 'It is shipped.' }));
    await page.getByLabel('Cost limit').fill('plenty');
    await page.getByRole('button', { name: 'Start the run' }).click();
    await page.getByText('must be an amount above 0').waitFor();
    await opened.checkView('run-again');
    await page.getByLabel('Cost limit').fill('0.5');
    await page.getByRole('button', { name: 'Start the run' }).click();
    await page.getByText('It is shipped.').first().waitFor();
    await page.getByText('completed').first().waitFor();
    const again = page.url().split('/').at(-1) ?? '';
    expect((await shared.current.mill.get(again)).request?.budget).toMatchObject({ maxCostUsd: 0.5 });
  });

  test('a run is started from nothing', async () => {
    const opened = await browser.open({ url: shared.current.url });
    const { page } = opened;
    await opened.visit('/runs');
    await page.getByRole('link', { name: 'New run' }).click();
    await page.getByLabel('Agent', { exact: true }).selectOption('plain');
    await page.getByLabel('Input', { exact: true }).fill(planInput({ text: 'Good morning.' }));
    await page.getByRole('button', { name: 'Start the run' }).click();
    await page.waitForURL((url) => !url.pathname.endsWith('/new'));
    await page.getByText('Good morning.').first().waitFor();
    const runId = page.url().split('/').at(-1) ?? '';
    expect((await shared.current.mill.get(runId)).agent).toBe('plain');
    opened.checkComplaints();
  });

  test('a run that is not started yet is not lost by a link, a key, Back or a reload without a question', async () => {
    const opened = await browser.open({ url: shared.current.url });
    const { page } = opened;
    await opened.visit('/runs');
    await page.getByRole('link', { name: 'New run' }).click();
    await page.getByLabel('Agent', { exact: true }).selectOption('plain');
    const input = page.getByLabel('Input', { exact: true });
    await input.fill('half a thought');
    const question = page.getByRole('dialog', { name: 'Leave without sending?' });
    const nav = page.getByRole('navigation');
    const ways = [
      () => nav.getByRole('link', { name: 'Fleet' }).click(),
      () => page.goBack(),
      async () => {
        await page.getByRole('heading', { name: 'New run' }).click();
        await page.keyboard.press('g');
        await page.keyboard.press('m');
      },
    ];
    for (const way of ways) {
      await way();
      await question.getByRole('button', { name: 'Stay here' }).click();
      expect(new URL(page.url()).pathname).toBe('/runs/new');
      expect(await input.inputValue()).toBe('half a thought');
    }
    // The browser asks about a reload by itself.
    const asked = page.waitForEvent('dialog');
    const reloaded = page.reload({ timeout: 2_000 }).catch(() => {});
    const dialog = await asked;
    expect(dialog.type()).toBe('beforeunload');
    await dialog.dismiss();
    await reloaded;
    expect(await input.inputValue()).toBe('half a thought');
    await page.goBack();
    await question.getByRole('button', { name: 'Leave it' }).click();
    await page.waitForURL('**/runs');
    await page.getByRole('link', { name: 'New run' }).click();
    expect(await input.inputValue()).toBe('');
    await nav.getByRole('link', { name: 'Fleet' }).click();
    await page.waitForURL('**/fleet');
    opened.checkComplaints();
  });

  test('tokens come as they are written, and the run is cancelled', async () => {
    const world = shared.current;
    const gate = 'tokens';
    const run = await world.submit('plain', [{ text: 'one two three', hold: { gate, afterPieces: 2 } }]);
    await world.provider.gates.reached(gate);
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit(`/runs/${run.runId}`);
    await page.getByLabel('Text so far').getByText('one two').waitFor();
    await opened.checkView('run-live');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Cancel the run' }).click();
    await page.locator('.status', { hasText: 'cancelled' }).first().waitFor();
    expect((await run.get()).status).toBe('cancelled');
    world.provider.gates.open(gate);
  });

  test('a long input is some lines and not a screen, until all of it is asked for', async () => {
    const words = Array.from({ length: 600 }, (_, at) => `word-${at}`).join(' ');
    const { runId } = await shared.current.mill.enqueue({ agent: 'plain', input: planInput({ text: words }) });
    const opened = await browser.open({ url: shared.current.url });
    const { page } = opened;
    await opened.visit(`/runs/${runId}`);
    const asked = page.getByLabel('input', { exact: true });
    await asked.waitFor();
    expect((await asked.boundingBox())?.height).toBeLessThan(300);
    await page
      .getByRole('button', { name: /^Show all/ })
      .first()
      .click();
    await asked.getByText('word-599').waitFor();
  });

  test('an id that was never given says so', async () => {
    const opened = await browser.open({ url: shared.current.url });
    await opened.visit('/runs/0199aaaa-0000-7000-8000-000000000000');
    const said = opened.page.getByText('There has never been such a run here.');
    await said.waitFor();
    expect(await opened.page.locator('main').textContent()).toContain('the tenant default');
    await opened.checkView('run-never');
  });
});

describeInBrowser('the page of a run whose processes die', () => {
  const browser = useBrowser();

  test('a worker that was killed is named, with the one that went on', async () => {
    buildConsole();
    const world = await makeWorld({ workers: 2, producer: true });
    const look = { calls: [{ name: 'look', args: { id: 'x', gate: 'again' } }] };
    const run = await world.submit('hands', [look, { text: 'Done.' }]);
    await world.toolWorks(run);
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit(`/runs/${run.runId}`);
    await page.getByRole('list', { name: 'Timeline' }).waitFor();
    const killed = await world.workerOf(run);
    await killed.kill();
    await world.toolWorks(run, 2);
    world.fleet.openGate('again');
    const recovery = page.locator('.line-recovery').filter({ hasText: `-${killed.pid}-` });
    await recovery.waitFor();
    expect(await recovery.textContent()).toMatch(/ died.* goes on after \d finished step/);
    await page.locator('.status', { hasText: 'completed' }).first().waitFor();
    await opened.checkView('run-recovered');
  });

  test('tokens go on after the producer was away', async () => {
    buildConsole();
    const world = await makeWorld({ workers: 1 });
    const first = await world.fleet.startProducer();
    const gate = 'away';
    const run = await world.submit('plain', [{ text: 'one two three four', hold: { gate, afterPieces: 2 } }]);
    await world.provider.gates.reached(gate);
    const opened = await browser.open({ url: first.url });
    const { page } = opened;
    await opened.visit(`/runs/${run.runId}`);
    await page.getByLabel('Text so far').getByText('one two').waitFor();
    await first.child.kill();
    world.provider.gates.open(gate);
    await until('the run ends', async () => (await world.mill.get(run.runId)).status === 'completed');
    await world.fleet.startProducer({ PORT: new URL(first.url).port });
    await page.getByText('one two three four').first().waitFor();
    await page.locator('.status', { hasText: 'completed' }).first().waitFor();
    // Everything that was written while it was away is there, and nothing twice.
    await page.getByRole('tab', { name: /^Events/ }).click();
    await page.getByRole('table', { name: 'Events' }).getByText('run.completed').waitFor();
    expect(await page.getByRole('table', { name: 'Events' }).getByText('run.completed').count()).toBe(1);
    opened.checkComplaints();
  });
});

/** What the time does to the record and the log of a run that has ended. */
async function forgetRecord({ fleet }: World, runId: string): Promise<void> {
  const redis = await testRedis('work', fleet.redisUrl);
  const keys = await redis.keys(`${fleet.prefix}:{${runId}}*`);
  if (keys.length > 0) await redis.del(...keys);
}
