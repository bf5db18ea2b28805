import { expect, test } from 'vitest';
import { planInput } from '../support/plan.ts';
import { until } from '../support/redis.ts';
import { describeInBrowser, useBrowser, useConsoleWorld } from './support.ts';

describeInBrowser('threads', () => {
  const browser = useBrowser();
  const shared = useConsoleWorld();

  test('a conversation is begun, and its answer is read while it is written', async () => {
    const { current: world } = shared;
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit('/threads?new=1');
    const dialog = page.getByRole('dialog', { name: 'New thread' });
    await dialog.getByLabel('Agent').selectOption('gated');
    await dialog.getByLabel('Name').fill('seen-live');
    const plan = planInput(
      { calls: [{ name: 'look', args: { id: 'seen' } }] },
      { text: 'one two three four', hold: { gate: 'live', afterPieces: 2 } },
    );
    await dialog.getByLabel('Message').fill(plan);
    await dialog.getByRole('button', { name: 'Send' }).click();
    await page.waitForURL('**/threads/seen-live');
    const answer = page.getByRole('region', { name: 'The answer as it comes' });
    await answer.getByText('one two', { exact: true }).waitFor();
    await page.getByText('Result of look').waitFor();
    await page.reload();
    await answer.getByText('one two', { exact: true }).waitFor();
    await opened.checkView('thread-live');
    world.provider.gates.open('live');
    await page.getByRole('list', { name: 'What was said' }).getByText('one two three four', { exact: true }).waitFor();
    await answer.waitFor({ state: 'detached' });
    await page.getByText('idle').waitFor();
    expect(await page.getByText('one two three four', { exact: true }).count()).toBe(1);
    opened.checkComplaints();
  });

  test('a new thread says when its name is taken, and has no agent before one is chosen', async () => {
    const { current: world } = shared;
    await world.ended(await world.submit('plain', [{ text: 'The first answer.' }], { thread: 'taken' }));
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit('/threads?new=1');
    const dialog = page.getByRole('dialog', { name: 'New thread' });
    await dialog.getByRole('option', { name: 'plain' }).waitFor({ state: 'attached' });
    expect(await dialog.getByLabel('Agent').inputValue()).toBe('');
    await dialog.getByLabel('Message').fill(planInput({ text: 'The second answer.' }));
    const send = dialog.getByRole('button', { name: /^Send/ });
    expect(await send.isDisabled()).toBe(true);
    await dialog.getByLabel('Agent').selectOption('plain');
    await dialog.getByLabel('Name').fill('not a name');
    await dialog.getByText('Only letters, digits').waitFor();
    expect(await send.isDisabled()).toBe(true);
    await dialog.getByLabel('Name').fill('taken');
    await send.click();
    await dialog.getByText('Your message would continue it.').waitFor();
    expect((await world.mill.list({ thread: 'taken' })).runs).toHaveLength(1);
    await opened.checkView('thread-taken');
    await dialog.getByLabel('Agent').selectOption('gated');
    await dialog.getByText('It goes on with its own agent only').waitFor();
    expect(await send.isDisabled()).toBe(true);
    await dialog.getByLabel('Agent').selectOption('plain');
    await dialog.getByRole('button', { name: 'Send it to this thread' }).click();
    await page.waitForURL('**/threads/taken');
    const said = page.getByRole('list', { name: 'What was said' });
    await said.getByText('The first answer.', { exact: true }).waitFor();
    await said.getByText('The second answer.', { exact: true }).waitFor();
    opened.checkComplaints();
  });

  test('a running answer is steered, stopped, and followed by another, and the runs are listed', async () => {
    const { current: world } = shared;
    const first = await world.submit(
      'plain',
      [
        { text: 'a b c', calls: [{ name: 'look', args: { id: 's' } }], hold: { gate: 'steer', afterPieces: 1 } },
        { text: 'never ends', hold: { gate: 'never', afterPieces: 1 } },
      ],
      { thread: 'steered' },
    );
    await world.provider.gates.reached('steer');
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit('/threads');
    await page.getByRole('link', { name: 'steered' }).click();
    await page.getByLabel('While it answers').selectOption('steer');
    await page.getByLabel('Message').fill('I meant the other one.');
    await page.keyboard.press('Control+Enter');
    await page.getByText('The running answer reads this before its next step.').waitFor();
    world.provider.gates.open('steer');
    const said = page.getByRole('list', { name: 'What was said' });
    await said.getByText('I meant the other one.').waitFor();
    await page.getByText('never', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Stop the answer' }).click();
    const stopped = said.getByRole('listitem').filter({ hasText: 'Stopped before the answer was complete.' });
    await stopped.getByText('never', { exact: true }).waitFor();
    expect((await first.get()).status).toBe('cancelled');
    await page.reload();
    await stopped.getByText('never', { exact: true }).waitFor();
    expect(await page.getByText('Stopped before the answer was complete.').count()).toBe(1);
    await opened.checkView('thread-stopped');
    await page.getByLabel('Message').fill(planInput({ text: 'The other one, then.' }));
    await page.getByRole('button', { name: 'Send' }).click();
    await said.getByText('The other one, then.').waitFor();
    await page.getByRole('tab', { name: 'Runs' }).click();
    const runs = page.getByRole('table', { name: 'Runs of the thread' });
    await runs.getByText('cancelled').waitFor();
    await runs.getByText('completed').waitFor();
    await opened.checkView('thread-runs');
    opened.checkComplaints();
  });

  test('an answer that failed is one error, also after a reload, and nothing that the agent has said', async () => {
    const { current: world } = shared;
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await world.ended(await world.submit('plain', [{ text: 'Before.' }], { thread: 'failed' }));
    await opened.visit('/threads/failed');
    const faults = Array.from({ length: 9 }, () => ({ kind: 'status' as const, status: 401 }));
    await page.getByLabel('Message').fill(planInput({ text: 'never', faults }));
    await page.getByRole('button', { name: 'Send' }).click();
    const failed = page.getByText('The answer failed');
    const listed = page.getByRole('list', { name: 'What was said' }).locator('.problem').filter({ has: failed });
    await listed.getByText('provider_auth').waitFor();
    expect(await failed.count()).toBe(1);
    await page.reload();
    await listed.getByText('provider_auth').waitFor();
    expect(await failed.count()).toBe(1);
    expect(await page.getByText('(error:').count()).toBe(0);
    await opened.checkView('thread-failed');
  });

  test('a turn that failed because its thread has grown too long says so, there and on the page of its run', async () => {
    const { current: world } = shared;
    const history = [{ role: 'user' as const, content: 'word '.repeat(40_000) }];
    await world.ended(await world.submit('plain', [{ text: 'Told.' }], { thread: 'grown', history }));
    const budget = { maxCostMicrocents: 100_000 };
    const capped = await world.submit('plain', [{ text: 'never' }], { thread: 'grown', budget });
    expect((await world.ended(capped)).view.error?.code).toBe('budget_exceeded');
    const faults = Array.from({ length: 9 }, () => ({
      kind: 'status' as const,
      status: 400,
      code: 'context_length_exceeded',
    }));
    const full = await world.submit('plain', [{ text: 'never', faults }], { thread: 'grown' });
    expect((await world.ended(full)).view.error?.code).toBe('context_length_exceeded');
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit('/threads/grown');
    const turns = page.getByRole('list', { name: 'What was said' }).getByRole('listitem');
    const byCap = turns.filter({ hasText: 'budget_exceeded' });
    await byCap.getByText('costs more by now than the cap of this run allows').waitFor();
    const byWindow = turns.filter({ hasText: 'context_length_exceeded' });
    await byWindow.getByText('is longer by now than its context window').waitFor();
    await opened.checkView('thread-grown');
    await opened.visit(`/runs/${capped.runId}`);
    await page.getByRole('alert').getByText('than the cap of this run allows').waitFor();
    await opened.checkView('run-thread-grown');
    await opened.visit(`/runs/${full.runId}`);
    await page.getByRole('alert').getByText('longer by now than its context window').waitFor();
    await page.getByRole('alert').getByRole('link', { name: 'Start a new thread' }).click();
    await page.getByRole('dialog', { name: 'New thread' }).waitFor();
    opened.checkComplaints();
  });

  test('a first turn that its cap does not pay for is not said to have a long thread', async () => {
    const { current: world } = shared;
    const budget = { maxCostMicrocents: 1 };
    const run = await world.submit('plain', [{ text: 'never' }], { thread: 'short', budget });
    await world.ended(run);
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    const asked = page.waitForResponse((response) => response.url().includes('/v1/threads/short/messages?limit=1'));
    await opened.visit(`/runs/${run.runId}`);
    await asked;
    await page.getByRole('alert').getByText('Raise the budget').waitFor();
    expect(await page.getByText('all that was said').count()).toBe(0);
  });

  test('an answer is interrupted by the next message', async () => {
    const { current: world } = shared;
    const first = await world.submit('plain', [{ text: 'old news', hold: { gate: 'old', afterPieces: 1 } }], {
      thread: 'interrupted',
    });
    await world.provider.gates.reached('old');
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit('/threads/interrupted');
    await page.getByLabel('While it answers').selectOption('interrupt');
    await page.getByLabel('Message').fill(planInput({ text: 'fresh news' }));
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByRole('list', { name: 'What was said' }).getByText('fresh news', { exact: true }).waitFor();
    expect((await first.get()).status).toBe('cancelled');
    opened.checkComplaints();
  });

  test('a long thread is read from its end back to its beginning, and is deleted after a question', async () => {
    const { current: world } = shared;
    const history = Array.from({ length: 130 }, (_, at) => ({
      role: at % 2 === 0 ? ('user' as const) : ('assistant' as const),
      content: `said ${at}`,
    }));
    const run = await world.submit('plain', [{ text: 'The end.' }], { thread: 'long', history });
    await world.ended(run);
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit('/threads/long');
    const said = page.getByRole('list', { name: 'What was said' });
    await said.getByText('The end.', { exact: true }).waitFor();
    expect(await said.getByText('said 0', { exact: true }).count()).toBe(0);
    await page.getByRole('button', { name: 'Show what was said before' }).click();
    await said.getByText('said 0', { exact: true }).waitFor();
    const texts = await said.locator('.text').allTextContents();
    expect(texts.slice(0, 130)).toEqual(history.map(({ content }) => content));
    await page.getByRole('button', { name: 'Rename' }).click();
    const dialog = page.getByRole('dialog', { name: 'Rename the thread' });
    await dialog.waitFor();
    await page.keyboard.type('A long walk');
    await dialog.getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('heading', { name: 'A long walk' }).waitFor();
    await page.getByRole('button', { name: 'Rename' }).click();
    // What one types takes the place of the title.
    await dialog.waitFor();
    await page.keyboard.type('A long talk');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'A long talk' }).waitFor();
    await page.locator('.view-head').getByText('long', { exact: true }).waitFor();
    await page.getByRole('navigation').getByRole('link', { name: 'Threads' }).click();
    await page.getByRole('link', { name: 'A long talk long' }).click();
    await page.waitForURL('**/threads/long');
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete it' }).click();
    await page.waitForURL('**/threads');
    await until('the thread is gone', () =>
      world.mill.threads.get('long').then(
        () => false,
        () => true,
      ),
    );
    await opened.checkView('threads');
  });
});
