import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { verifyReceipt } from '../../src/producer/index.ts';
import { sha256 } from '../../src/shared/base/ids.ts';
import { planInput } from '../support/plan.ts';
import { until } from '../support/redis.ts';
import { apiKeys, visitAs } from './as-key.ts';
import { describeInBrowser, useBrowser, useConsoleWorld } from './support.ts';

const keys = `${apiKeys},${sha256('key-of-writer')}:default:read+write+approve`;

describeInBrowser('erasing in the console', () => {
  const browser = useBrowser();
  const world = useConsoleWorld({ env: { MILLRACE_API_KEYS: keys } });

  const open = async (path: string, key = 'key-of-all', width?: number) => {
    const opened = await browser.open({ url: world.current.url, ...(width !== undefined && { width }) });
    await visitAs(opened, world.current.url, key, path);
    return opened;
  };
  const ended = async (text: string, thread?: string) => {
    const run = await world.current.submit('plain', [{ text }], thread === undefined ? {} : { thread });
    await run.result();
    return run.runId;
  };

  test('a run is erased after a question that names what goes, and leaves a receipt that verifies', async () => {
    const runId = await ended('forget me');
    const opened = await open(`/runs/${runId}`);
    const { page } = opened;
    await page.getByRole('button', { name: 'Erase' }).click();
    const question = page.getByRole('dialog', { name: 'Erase this run?' });
    await question.getByText('its request, steps, answer, decisions and events').waitFor();
    await opened.checkView('run-erase');
    await question.getByRole('button', { name: 'Back' }).click();
    expect((await world.current.mill.get(runId)).status).toBe('completed');
    await page.getByRole('button', { name: 'Erase' }).click();
    await question.getByRole('button', { name: 'Erase for good' }).click();
    const done = page.getByRole('dialog', { name: 'Erased' });
    await done.getByText('Millrace keeps no copy').waitFor();
    await opened.checkView('run-erased');
    const receipt = await savedReceipt(page);
    expect(receipt).toMatchObject({ of: 'run', runs: [runId], erased: { records: 1 } });
    expect(verifyReceipt(receipt, (await world.current.mill.erasureKey()).publicKey)).toBe(true);
    await done.getByRole('button', { name: 'Go to the runs' }).click();
    await page.waitForURL('**/runs');
    await opened.visit(`/runs/${runId}`);
    await page.getByText('This run was erased.').waitFor();
    opened.checkComplaints();
  });

  test('a run of a thread goes with the thread and its other runs, and the button says so', async () => {
    const [first, second] = [await ended('one', 'anna-1'), await ended('two', 'anna-1')];
    const opened = await open(`/runs/${first}`);
    const { page } = opened;
    await page.getByRole('button', { name: 'Erase' }).click();
    const question = page.getByRole('dialog', { name: 'Erase this run?' });
    await question.getByText('This run can only go together with its thread anna-1').waitFor();
    await question.getByRole('button', { name: 'Erase the thread and all of its 2 runs' }).waitFor();
    await opened.checkView('run-erase-thread');
    await question.getByRole('button', { name: 'Erase the thread and all of its 2 runs' }).click();
    await page.getByRole('dialog', { name: 'Erased' }).getByText('2 runs and 1 thread').waitFor();
    expect(await savedReceipt(page)).toMatchObject({ threads: ['anna-1'], erased: { threads: 1 } });
    for (const runId of [first, second])
      await expect(world.current.mill.get(runId)).rejects.toMatchObject({ code: 'gone' });
    opened.checkComplaints();
  });

  test('a run that works is cancelled first', async () => {
    const hold = { gate: 'never', afterPieces: 1 };
    const { runId } = await world.current.submit('plain', [{ text: 'one two', hold }]);
    await until('it runs', async () => (await world.current.mill.get(runId)).status === 'running');
    const { page } = await open(`/runs/${runId}`);
    await page.getByRole('button', { name: 'Erase' }).click();
    const question = page.getByRole('dialog', { name: 'Erase this run?' });
    await question.getByText('It has not ended: it is cancelled first.').waitFor();
    await question.getByRole('button', { name: 'Erase for good' }).click();
    await page.getByRole('dialog', { name: 'Erased' }).waitFor({ timeout: 30_000 });
    await expect(world.current.mill.get(runId)).rejects.toMatchObject({ code: 'gone' });
  });

  test('a thread is erased with its runs', async () => {
    const runs = [await ended('one', 'bert-1'), await ended('two', 'bert-1')];
    const opened = await open('/threads/bert-1', 'key-of-all', 380);
    const { page } = opened;
    await page.getByRole('button', { name: 'Erase' }).click();
    const question = page.getByRole('dialog', { name: 'Erase this thread?' });
    await question.getByText('all of its 2 runs').waitFor();
    await opened.checkView('thread-erase-phone');
    await question.getByRole('button', { name: 'Erase for good' }).click();
    await page.getByRole('dialog', { name: 'Erased' }).waitFor();
    const receipt = await savedReceipt(page);
    expect(receipt).toMatchObject({ of: 'thread', threads: ['bert-1'] });
    expect(new Set((receipt as { runs: string[] }).runs)).toEqual(new Set(runs));
    await page.getByRole('button', { name: 'Go to the threads' }).click();
    await page.waitForURL('**/threads');
    expect(await page.getByText('bert-1').count()).toBe(0);
    opened.checkComplaints();
  });

  test('a run that works for another one is erased with that', async () => {
    const { current } = world;
    const message = planInput({ text: 'Answered.' });
    const ask = { calls: [{ name: 'ask_agent', args: { agent: 'plain', message } }] };
    const run = await current.submit('asker', [ask, { text: 'Done.' }]);
    await run.result();
    const [child] = (await current.mill.steps(run.runId)).children;
    const { page } = await open(`/runs/${child?.runId}`);
    await page.getByRole('button', { name: 'Erase' }).click();
    const question = page.getByRole('dialog', { name: 'Erase this run?' });
    await question.getByRole('link', { name: run.runId }).waitFor();
    expect(await question.getByRole('button', { name: 'Erase for good' }).count()).toBe(0);
    await question.getByRole('link', { name: run.runId }).click();
    await page.waitForURL(`**/runs/${run.runId}`);
    await page.getByRole('button', { name: 'Erase' }).click();
    await question.getByText('and the run that worked for it').waitFor();
  });

  test('a key without the scope admin is not offered it', async () => {
    const runId = await ended('kept', 'carl-1');
    for (const path of [`/runs/${runId}`, '/threads/carl-1']) {
      const { page } = await open(path, 'key-of-writer');
      await page.getByRole('button', { name: /^(Run again|Rename)$/ }).waitFor();
      expect(await page.getByRole('button', { name: 'Erase' }).count()).toBe(0);
    }
  });
});

async function savedReceipt(page: Page): Promise<unknown> {
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save the receipt' }).click();
  const saved = await download;
  expect(saved.suggestedFilename()).toMatch(/^erasure-[\w-]+\.json$/);
  return JSON.parse(readFileSync(await saved.path(), 'utf8'));
}
