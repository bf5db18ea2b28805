import { createHash } from 'node:crypto';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import type { RunHandle } from '../../src/producer/index.ts';
import { eventsOf } from '../support/check-run.ts';
import { until } from '../support/redis.ts';
import { makeWorld, type World } from '../support/world.ts';
import { describeInBrowser, useBrowser, useConsoleWorld } from './support.ts';

const paid = { id: 'p', to: 'kim', amount: 50, currency: 'EUR', lines: [{ sku: 'a-1', count: 2 }] };

async function asked(world: World, name: string, args: Record<string, unknown>, agent = 'gated'): Promise<RunHandle> {
  const run = await world.submit(agent, [{ calls: [{ name, args }] }, { text: 'Done.' }]);
  await until('the run waits', async () => (await run.get()).status === 'suspended');
  return run;
}

/** The item of a run, opened by its address. */
async function openItem(page: Page, visit: (path: string) => Promise<void>, run: RunHandle) {
  const [item] = (await run.get()).pending;
  await visit(`/approvals?item=${encodeURIComponent(`${run.runId}/${item?.toolCallId ?? ''}`)}`);
  const article = page.getByRole('article');
  await article.waitFor();
  return article;
}

describeInBrowser('the inbox of approvals', () => {
  const browser = useBrowser();
  const shared = useConsoleWorld();

  test('a call is approved with edited arguments while every worker is killed, and the run ends with them', async () => {
    // Longer than a busy machine starves a worker.
    const world = await makeWorld({ producer: true, workers: 2, env: { LOCK_DURATION_MS: '8000' } });
    const run = await world.submit('gated', [
      { calls: [{ name: 'pay', args: paid }] },
      { text: 'It is paid.', hold: { gate: 'answer', afterPieces: 1 } },
    ]);
    await until('the run waits', async () => (await run.get()).status === 'suspended');
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit('/approvals');
    await page.getByRole('button', { name: /Call pay/ }).click();
    await page.getByLabel('amount').fill('40');
    await page.getByLabel('to', { exact: true }).fill('ada');
    for (const worker of world.workers.splice(0)) {
      worker.signal('SIGKILL');
      await worker.exited;
    }
    await page.getByRole('button', { name: 'Remove: lines.0' }).click();
    await page.getByLabel('Your name').fill('Grace');
    await page.getByRole('button', { name: 'Approve with my changes' }).click();
    await page.getByText('Granted by Grace, with other arguments').waitFor();
    // The worker that has begun to go on is killed, too.
    const second = await world.addWorker();
    await world.provider.gates.reached('answer');
    second.signal('SIGKILL');
    await second.exited;
    await world.addWorker();
    world.provider.gates.open('answer');
    const observed = await world.ended(run);
    expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'It is paid.' } });
    expect(eventsOf(observed, 'tool.execute.start')).toMatchObject([
      { args: { ...paid, to: 'ada', amount: 40, lines: [] } },
    ]);
    expect(eventsOf(observed, 'tool.approval.granted')).toMatchObject([{ by: 'Grace', edited: true }]);
    expect(observed.view.recoveries).toBeGreaterThan(0);
    // The page of the run shows who decided what, and the worker that died.
    await opened.visit(`/runs/${run.runId}`);
    await page.locator('.line-recovery', { hasText: `-${second.pid}-` }).waitFor();
    await page.getByText('granted with other arguments by Grace').first().waitFor();
    await opened.checkView('run-decided');
    opened.checkComplaints();
  }, 120_000);

  test('what does not fit is said at its field before anything is sent, and the form keeps what it does not show', async () => {
    const run = await asked(shared.current, 'pay', { ...paid, note: null });
    const opened = await browser.open({ url: shared.current.url });
    const { page } = opened;
    const item = await openItem(page, (path) => opened.visit(path), run);
    const approve = item.getByRole('button', { name: /^Approve/ });
    await item.getByLabel('amount').fill('900');
    await item.getByText('900 is greater than 500').waitFor();
    expect(await approve.isDisabled()).toBe(true);
    await item.getByLabel('amount').fill('fifty');
    await item.getByText('must be a number').waitFor();
    const changes = item.getByRole('table', { name: 'Your changes' });
    await changes.getByText('fifty').waitFor();
    expect(await changes.getByText('900').count()).toBe(0);
    // The JSON has what was typed, not what stood there before.
    await item.getByRole('button', { name: 'As JSON' }).click();
    const json = item.getByLabel('Arguments as JSON');
    expect(JSON.parse(await json.inputValue())).toMatchObject({ amount: 'fifty' });
    await item.getByText('amount: must be number').waitFor();
    await json.fill('{"amount": 5');
    await item.getByText('The arguments cannot be sent like this.').waitFor();
    expect(await item.getByText('is not JSON').count()).toBe(1);
    expect(await approve.isDisabled()).toBe(true);
    expect(await item.getByRole('button', { name: 'As a form' }).isDisabled()).toBe(true);
    await opened.checkView('approval-no-json');
    await item.getByRole('button', { name: 'Take back my changes' }).click();
    await item.getByRole('button', { name: 'As a form' }).click();
    await item.getByLabel('amount').fill('55.5');
    await item.getByLabel('currency').selectOption('USD');
    await item.getByRole('button', { name: 'Add: urgent' }).click();
    await item.getByLabel('urgent', { exact: true }).selectOption('yes');
    await item.getByRole('button', { name: 'Add an item: lines' }).click();
    await item.getByLabel('sku').nth(1).fill('b-2');
    await item.getByLabel('count').nth(1).fill('0');
    await item.getByText('0 is less than 1').waitFor();
    await item.getByLabel('count').nth(1).fill('3');
    await item.getByRole('button', { name: 'As JSON' }).click();
    expect(JSON.parse(await json.inputValue())).toEqual({
      ...paid,
      note: null,
      amount: 55.5,
      currency: 'USD',
      urgent: true,
      lines: [
        { sku: 'a-1', count: 2 },
        { sku: 'b-2', count: 3 },
      ],
    });
    await item.getByRole('button', { name: 'As a form' }).click();
    await opened.checkView('approval');
    await page.getByRole('navigation').getByRole('link', { name: 'Runs' }).click();
    await page.getByRole('button', { name: 'Stay here' }).click();
    expect(await item.getByLabel('amount').inputValue()).toBe('55.5');
    await item.getByRole('button', { name: 'Take back my changes' }).click();
    expect(await item.getByLabel('amount').inputValue()).toBe('50');
    expect(await approve.textContent()).toBe('Approve');
    await item.getByLabel('Reason').fill('the usual one');
    await approve.click();
    await shared.current.ended(run);
    expect((await run.get()).decisions).toMatchObject([{ granted: true, reason: 'the usual one' }]);
    expect((await run.get()).decisions?.[0]?.edited).toBeUndefined();
  });

  test('what comes and goes is shown without a reload, in the list, in the navigation and in the title', async () => {
    const world = await makeWorld({ producer: true, env: { LOCK_DURATION_MS: '15000' } });
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit('/approvals');
    await page.getByText('Nothing waits for you.').waitFor();
    await opened.checkView('approvals-empty');
    const [first, second] = [await asked(world, 'charge', { id: '1' }), await asked(world, 'charge', { id: '2' })];
    await until('the title says so', async () => (await page.title()) === '(2) Approvals · Millrace');
    await page.getByRole('link', { name: 'Approvals 2 waiting' }).waitFor();
    // Somebody else decides about what this reader looks at.
    const item = await openItem(page, (path) => opened.visit(path), first);
    await first.deny({ reason: 'not this one', by: 'ada' });
    await item.getByText('Denied by ada: “not this one”.').waitFor();
    await until('the title says so', async () => (await page.title()) === '(1) Approvals · Millrace');
    await second.approve({});
    await until('the title says so', async () => (await page.title()) === 'Approvals · Millrace');
    await page.getByRole('tab', { name: 'Decided' }).click();
    const decisions = page.getByRole('list', { name: 'Decisions' });
    await decisions.getByText('ada').waitFor();
    expect(await decisions.getByRole('listitem').count()).toBe(2);
    await decisions.getByText('ada').click();
    const decision = page.getByRole('article', { name: 'Decision' });
    await decision.getByText('Denied by ada: “not this one”.').waitFor();
    await decision.getByText('id: 1').waitFor();
    for (const part of ['document.documentElement', "document.getElementById('view')"])
      expect(await page.evaluate(`${part}.scrollWidth - ${part}.clientWidth`)).toBeLessThanOrEqual(0);
    await opened.checkView('approvals-decided');
  });

  test('ages are right when a page opens, though nothing has shown one for a while', async () => {
    const run = await asked(shared.current, 'pay', paid);
    const opened = await browser.open({ url: shared.current.url });
    const { page } = opened;
    await page.clock.install();
    await opened.visit('/money');
    await page.getByRole('heading', { name: 'Money' }).waitFor();
    await page.clock.pauseAt(Date.now() + 600_000);
    await page.getByRole('navigation').getByRole('link', { name: 'Approvals' }).click();
    const age = page.getByRole('list', { name: 'What waits' }).getByRole('button').last().locator('.number');
    await expect.poll(() => age.textContent()).toMatch(/^(?:9|1\d) m /);
    await run.deny({ by: 'Grace' });
  });

  test('a card says what would be done and what was asked, and the page what the run did before', async () => {
    const world = await makeWorld({ producer: true });
    const run = await world.submit('gated', [
      { text: 'I look first.', calls: [{ name: 'look', args: { id: 'first' } }] },
      { calls: [{ name: 'pay', args: paid }] },
      { text: 'Done.' },
    ]);
    await until('the run waits', async () => (await run.get()).status === 'suspended');
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit('/approvals');
    const card = page.getByRole('button', { name: /Call pay/ });
    await card.getByText('id: p, to: kim, amount: 50, currency: EUR').waitFor();
    const input = (await run.get()).request?.input ?? '';
    await card.getByText(`Asked: ${input.slice(0, 40)}`).waitFor();
    await card.click();
    const asked = page.getByRole('region', { name: 'What the run was asked' });
    await expect.poll(async () => await asked.textContent()).toContain('I look first.');
    await asked.getByText('What it has done so far').click();
    const course = asked.getByRole('list');
    await course.getByText('I look first.').waitFor();
    await course.getByText('id: first').waitFor();
    await opened.checkView('approval-asked');
    await run.deny({});
  });

  test('what somebody else has decided shows the arguments it ran with, waits no longer and is not edited', async () => {
    const { current: world } = shared;
    const run = await asked(world, 'pay', paid);
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    const item = await openItem(page, (path) => opened.visit(path), run);
    await item.getByLabel('amount').fill('49');
    const address = page.url();
    await run.approve({ updatedArgs: { ...paid, amount: 5 }, by: 'Phone', reason: 'too much' });
    await item.getByText('Granted by Phone, with other arguments: “too much”.').waitFor();
    const changed = item.getByRole('table', { name: 'What was changed' });
    await changed.getByRole('cell', { name: '50', exact: true }).waitFor();
    await changed.getByRole('cell', { name: '5', exact: true }).waitFor();
    expect(await item.getByRole('textbox').count()).toBe(0);
    for (const gone of ['Waits', 'Expires', '49']) expect(await item.getByText(gone, { exact: true }).count()).toBe(0);
    await world.ended(run);
    await opened.checkView('approval-decided');
    await opened.visit(address.slice(world.url.length));
    await page.getByRole('table', { name: 'What was changed' }).waitFor();
    opened.checkComplaints();
  });

  test('a decision that comes too late says so', async () => {
    const { current: world } = shared;
    const run = await asked(world, 'charge', { id: 'late' });
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    const item = await openItem(page, (path) => opened.visit(path), run);
    // The page does not see that the item goes.
    await page.route('**/v1/approvals?*', () => {});
    await run.deny({ by: 'ada' });
    await item.getByRole('button', { name: 'Approve' }).click();
    await page.getByText(/^Your decision was not taken: /).waitFor();
  });

  test('everything is done from the keyboard: from the list to a question that is answered', async () => {
    const world = await makeWorld({ producer: true, env: { LOCK_DURATION_MS: '15000' } });
    const older = await asked(world, 'charge', { id: '1' });
    const run = await asked(world, 'ask_user', { question: 'Which colour?', choices: ['red', 'blue'] });
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit('/runs');
    await page.getByRole('link', { name: 'Approvals 2 waiting' }).waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('p');
    await page.getByRole('button', { name: /Answer a question/ }).waitFor();
    // What has waited longest comes first.
    await page.keyboard.press('j');
    await page.getByRole('article', { name: 'Call charge' }).waitFor();
    await page.keyboard.press('j');
    await page.getByRole('article', { name: 'Answer a question' }).waitFor();
    await page.keyboard.press('k');
    await page.getByRole('article', { name: 'Call charge' }).waitFor();
    await page.keyboard.press('j');
    await page.getByRole('article', { name: 'Answer a question' }).waitFor();
    await opened.checkView('question');
    const choices = page.getByLabel('Choices');
    for (let tabs = 0; tabs < 40 && (await choices.and(page.locator(':focus')).count()) === 0; tabs++)
      await page.keyboard.press('Tab');
    await page.keyboard.type('blue');
    await page.keyboard.press('Tab');
    expect(await page.getByLabel('Answer', { exact: true }).inputValue()).toBe('blue');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    const observed = await world.ended(run);
    expect(observed.view.decisions).toMatchObject([{ answered: true }]);
    await older.deny({});
    opened.checkComplaints();
  });

  test('money that is used up is topped up, once, and the run goes on', async () => {
    const { current: world } = shared;
    const plan = [{ calls: [{ name: 'look', args: { id: 'l' } }] }, { text: 'It was enough.' }];
    const run = await world.submit('plain', plan, { budget: { maxCostMicrocents: 1, onExceed: 'pause_for_approval' } });
    await until('the run waits', async () => (await run.get()).status === 'suspended');
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit(`/approvals?item=${encodeURIComponent(`${run.runId}/budget`)}`);
    await page.getByRole('article', { name: 'Money is used up' }).waitFor();
    await page.getByLabel('Top up by, in USD').fill('none');
    await page.getByText('must be a sum above 0').waitFor();
    await page.getByLabel('Top up by, in USD').fill('1');
    await opened.checkView('money-waits');
    await page.getByRole('button', { name: 'Top up' }).click();
    await page.getByText('Topped up.').waitFor();
    expect((await world.ended(run)).view.status).toBe('completed');
    opened.checkComplaints();
  });

  test('a key that only reads sees everything and why it may not decide', async () => {
    const { current: world } = shared;
    const run = await asked(world, 'charge', { id: 'c' });
    const key = 'a-key-that-only-reads';
    const digest = createHash('sha256').update(key).digest('hex');
    const { url } = await world.fleet.startProducer({ MILLRACE_API_KEYS: `${digest}:default:read` });
    const opened = await browser.open({ url });
    const { page } = opened;
    await opened.visit('/approvals');
    await page.getByLabel('API key').fill(key);
    await page.keyboard.press('Enter');
    await page.waitForURL('**/approvals');
    const item = await openItem(page, (path) => opened.visit(path), run);
    await item.getByText('Your key lacks the scope "approve"').waitFor();
    for (const name of ['Approve', 'Deny'])
      expect(await item.getByRole('button', { name, exact: true }).isDisabled()).toBe(true);
    await page.getByRole('tab', { name: 'Decided' }).click();
    await page.getByText('needs a key with the scope “admin”').waitFor();
    await opened.checkAccessibility();
    await run.deny({});
    opened.checkComplaints();
  });

  test('on a phone the list is above what is open, and nothing is cut off', async () => {
    const { current: world } = shared;
    const run = await asked(world, 'pay', paid);
    const opened = await browser.open({ url: world.url, width: 380, height: 780 });
    const { page } = opened;
    await openItem(page, (path) => opened.visit(path), run);
    for (const part of ['document.documentElement', "document.getElementById('view')"])
      expect(await page.evaluate(`${part}.scrollWidth - ${part}.clientWidth`)).toBeLessThanOrEqual(0);
    // Whoever can press the button has the arguments in sight.
    const approve = page.getByRole('button', { name: 'Approve', exact: true });
    await approve.scrollIntoViewIfNeeded();
    const [button, beside] = [await approve.boundingBox(), await page.locator('.decide-args').boundingBox()];
    expect(beside?.y).toBeLessThan(button?.y ?? 0);
    expect(beside?.y).toBeGreaterThan(0);
    expect(await page.locator('.decide-args').textContent()).toContain('amount: 50');
    await page.evaluate("document.getElementById('view').scrollTo(0, 0)");
    expect((await approve.boundingBox())?.y).toBeGreaterThan(780);
    await opened.checkView('approval-phone');
    await approve.scrollIntoViewIfNeeded();
    await opened.screenshot('approval-phone-decide');
    await run.deny({});
  });
});
