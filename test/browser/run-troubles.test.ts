import { join } from 'node:path';
import { expect, test } from 'vitest';
import { passage } from '../support/page.ts';
import { until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';
import { buildConsole, describeInBrowser, useBrowser, useConsoleWorld } from './support.ts';

describeInBrowser('the page of a run with a call whose outcome got lost', () => {
  const browser = useBrowser();

  test('says so at the call, in the timeline and among the findings, with the worker that died', async () => {
    buildConsole();
    const world = await makeWorld({ workers: 2, producer: true });
    const run = await world.submit('hands', [
      { calls: [{ name: 'charge', args: { id: 'c', gate: 'never' } }] },
      { text: 'I do not know.' },
    ]);
    await world.toolWorks(run);
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit(`/runs/${run.runId}`);
    await page.getByRole('list', { name: 'Timeline' }).getByText('charge').waitFor();
    const killed = await world.workerOf(run);
    await killed.kill();
    await world.ended(run);
    await page.locator('.status', { hasText: 'completed' }).first().waitFor();
    await page
      .locator('.line-recovery')
      .filter({ hasText: `-${killed.pid}-` })
      .waitFor();
    const call = page.locator('details.part', { hasText: 'outcome unknown' }).last();
    await call.getByText('It may have taken effect.').waitFor();
    await page.getByRole('tab', { name: /^Decisions and findings \(1\)/ }).click();
    const finding = page.getByRole('region', { name: 'Findings' }).getByRole('row').filter({ hasText: 'charge' });
    await finding.getByText('outcome unknown').waitFor();
    await opened.checkView('run-unknown-outcome-findings');
    await finding.getByRole('button', { name: 'charge' }).click();
    await page.locator('details.part-bad > summary:focus').waitFor();
    await opened.checkView('run-unknown-outcome');
  });
});

describeInBrowser('the page of a run with data that may not go everywhere', () => {
  const browser = useBrowser();
  const env = { MILLRACE_AGENTS: join(import.meta.dirname, '../fixtures/flow-agents') };
  const shared = useConsoleWorld({ env });
  const steal = [
    { calls: [{ name: 'fetch_page' }] },
    { calls: [{ name: 'send_mail', args: { body: 'News: %passage!' } }] },
    { text: 'Done.' },
  ];

  test.each([
    ['enforce', 'blocked (enforce)', 'blocked'],
    ['shadow', 'flagged (shadow)', 'flagged'],
  ])('with the policy %s it names the call, the argument and where the value was from', async (mode, done, word) => {
    const { current: world } = shared;
    world.provider.words.set('passage', passage);
    const run = await world.submit(mode, steal);
    await run.result();
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit(`/runs/${run.runId}?tab=rules`);
    const finding = page.getByRole('region', { name: 'Findings' }).getByRole('row').filter({ hasText: 'send_mail' });
    await finding.getByText(done).waitFor();
    await finding.getByText('a passage of an untrusted text in body, from fetch_page').waitFor();
    await opened.checkView(`run-flow-${mode}`);
    await finding.getByRole('button', { name: 'send_mail' }).click();
    await page.waitForURL(/#call-/);
    const call = page.locator('details.part:has(> summary:focus)');
    await call.getByText(`Data flow ${word}`, { exact: false }).waitFor();
    expect(await page.getByRole('region', { name: 'Findings' }).count()).toBe(0);
    opened.checkComplaints();
  });
});

describeInBrowser('the page of a run that failed', () => {
  const browser = useBrowser();
  const shared = useConsoleWorld();

  test('redrives it: it goes on under the same address, and what was finished is not done again', async () => {
    const { current: world } = shared;
    const broken = { kind: 'status', status: 400 } as const;
    const run = await world.submit('hands', [
      { calls: [{ name: 'look', args: { id: 'once' } }] },
      { text: 'It is mended.', faults: [broken] },
    ]);
    await until('it failed', async () => (await run.get()).status === 'failed');
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit(`/runs/${run.runId}`);
    await page.getByRole('button', { name: 'Redrive' }).click();
    const dialog = page.getByRole('dialog', { name: 'Redrive this run?' });
    await dialog.getByText('Steps that are finished are kept').waitFor();
    await opened.checkView('run-redrive');
    await dialog.getByRole('button', { name: 'Back' }).click();
    expect((await run.get()).status).toBe('failed');
    await page.getByRole('button', { name: 'Redrive' }).click();
    await dialog.getByRole('button', { name: 'Redrive' }).click();
    await page.getByText('It is mended.').first().waitFor();
    await page.locator('.status', { hasText: 'completed' }).first().waitFor();
    expect(page.url()).toContain(run.runId);
    expect(await page.getByRole('button', { name: 'Redrive' }).count()).toBe(0);
    expect(world.fleet.executions.filter(({ runId }) => runId === run.runId)).toHaveLength(1);
    await page.getByRole('tab', { name: /^Events/ }).click();
    for (const type of ['run.failed', 'run.completed']) {
      await page.getByLabel('Type').selectOption(type);
      await page.getByRole('table', { name: 'Events' }).and(page.locator('[aria-rowcount="2"]')).waitFor();
    }
    opened.checkComplaints();
  });
});
