import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { batchIs, submitBatch } from '../support/batches.ts';
import { planInput } from '../support/plan.ts';
import { describeInBrowser, useBrowser, useConsoleWorld } from './support.ts';

const answered = (text: string) => planInput({ text });
const held = (gate: string) => planInput({ text: 'one two', hold: { gate, afterPieces: 1 } });

describeInBrowser('batches', () => {
  const browser = useBrowser();
  const shared = useConsoleWorld();

  test('a file is looked at, uploaded and started, and its progress is watched to the end', async () => {
    const { current: world } = shared;
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit('/batches');
    await page.getByText('There is no batch yet.').waitFor();
    await page.getByRole('button', { name: 'Start a batch' }).click();
    const dialog = page.getByRole('dialog', { name: 'Start a batch' });
    const rows = Array.from({ length: 12 }, (_, at) => ({ id: `q-${at}`, input: answered(`answer ${at}`) }));
    rows[11] = { id: 'q-11', input: held('last') };
    const lines = rows.map((row) => `${JSON.stringify(row)}\n`).join('');
    await dialog.getByLabel('File').setInputFiles({
      name: 'questions.jsonl',
      mimeType: 'application/jsonl',
      buffer: Buffer.from(lines),
    });
    await dialog.getByText('12 lines').waitFor();
    await dialog.getByRole('cell', { name: 'q-4' }).waitFor();
    expect(await dialog.getByRole('cell', { name: 'q-5' }).count()).toBe(0);
    await dialog.getByLabel('Agent', { exact: true }).selectOption('plain');
    await dialog.getByLabel('Name').fill('questions');
    await opened.checkView('batch-new');
    await dialog.getByRole('button', { name: 'Upload and start' }).click();
    await page.waitForURL('**/batches/batch_*');
    await page.getByRole('progressbar').and(page.locator('[aria-valuenow="11"]')).waitFor();
    await page.getByText('in progress').waitFor();
    await opened.checkView('batch-working');
    world.provider.gates.open('last');
    await page.getByText('12 of 12').waitFor();
    await page.locator('.status', { hasText: 'completed' }).waitFor();
    const begun = page.waitForEvent('download');
    await page.getByRole('region', { name: 'Files' }).getByRole('link', { name: 'Download' }).nth(1).click();
    const download = await begun;
    const answers = (await readFile(await download.path(), 'utf8')).trim().split('\n');
    expect(answers.map((line) => (JSON.parse(line) as { id: string }).id).sort()).toEqual(
      rows.map(({ id }) => id).sort(),
    );
    opened.checkComplaints();
  });

  test('errors are grouped by their code and their cause, and the failed lines run again', async () => {
    const { current: world } = shared;
    const refused = (status: number) =>
      planInput({ text: 'never', faults: Array.from({ length: 9 }, () => ({ kind: 'status' as const, status })) });
    const lines = [400, 400, 400, 401, 401].map((status) => ({ input: refused(status) }));
    const { id } = await submitBatch(world.mill, [...lines, { input: answered('fine') }, { id: 'no-input' }], {
      agent: 'plain',
      name: 'failing',
    });
    await batchIs(world.mill, id, ['completed']);
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit(`/batches/${id}`);
    const errors = page.getByRole('region', { name: 'Errors' });
    await errors.getByRole('row').nth(1).waitFor();
    const groups = (await errors.getByRole('row').allTextContents()).slice(1);
    expect(groups, groups.join('; ')).toHaveLength(3);
    expect(groups[0]).toMatch(/^validation4 lines3/);
    expect(groups[1]).toMatch(/^1.*needs `input`/);
    expect(groups[2]).toMatch(/^provider_auth2/);
    await errors.getByText('One line never became a run').waitFor();
    await errors.getByRole('link', { name: 'All failed runs' }).waitFor();
    await errors.getByText('Line by line').click();
    const wrong = errors.getByRole('row').filter({ hasText: '7 no-input' });
    await wrong.getByText('needs `input`').waitFor();
    await wrong.getByText('none').waitFor();
    await errors.getByRole('link', { name: 'its run' }).first().waitFor();
    await opened.checkView('batch-failed');
    await page.getByRole('button', { name: 'Run the 6 failed again' }).click();
    await page.getByText('6 lines to be run again.').waitFor();
    await batchIs(world.mill, id, ['completed']);
    opened.checkComplaints();
  });

  test('lines that never became runs are not said to have any, and are not run again as they are', async () => {
    const { current: world } = shared;
    const { id } = await submitBatch(world.mill, [{ id: 'a' }, { id: 'b' }], { agent: 'plain', name: 'refused' });
    await batchIs(world.mill, id, ['completed', 'failed']);
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit(`/batches/${id}`);
    const errors = page.getByRole('region', { name: 'Errors' });
    await errors.getByText('2 lines never became runs').waitFor();
    expect(await errors.getByRole('link', { name: 'All failed runs' }).count()).toBe(0);
    await page.getByRole('link', { name: 'Edit and start again' }).waitFor();
    expect(await page.getByRole('button', { name: /failed again/ }).count()).toBe(0);
    opened.checkComplaints();
  });

  test('a batch is edited and started again with the same file', async () => {
    const { current: world } = shared;
    const more = { agent: 'plain', filename: 'people.csv', inputTemplate: '{{ nme }}' } as const;
    const quoted = `"${answered('hello').replaceAll('"', '""')}"`;
    const { id } = await submitBatch(world.mill, `name\n${quoted}\n`, more);
    await batchIs(world.mill, id, ['failed']);
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit(`/batches/${id}`);
    await page.getByText(/there is no column nme/).waitFor();
    await page.getByText('{{ nme }}').waitFor();
    await page.getByRole('link', { name: 'Edit and start again' }).click();
    const dialog = page.getByRole('dialog', { name: 'Start a batch' });
    await dialog.getByText('people.csv').waitFor();
    const template = dialog.getByLabel('What the agent is asked');
    await expect.poll(() => template.inputValue()).toBe('{{ nme }}');
    await template.fill('{{ name }}');
    await template.press('Control+Enter');
    await page.waitForURL((url) => url.pathname.startsWith('/batches/batch_') && !url.pathname.endsWith(id));
    await page.locator('.status', { hasText: 'completed' }).waitFor();
    opened.checkComplaints();
  });

  test('a quote waits for its reader, who resumes the batch', async () => {
    const { current: world } = shared;
    const lines = Array.from({ length: 7 }, (_, at) => ({ input: answered(`cheap ${at}`) }));
    const { id } = await submitBatch(world.mill, lines, { agent: 'plain', name: 'quoted', quote: { lines: 3 } });
    await batchIs(world.mill, id, ['quoted', 'quoting', 'in_progress']);
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit(`/batches/${id}`);
    const status = (text: string) => page.locator('.status', { hasText: text }).waitFor();
    await page.getByRole('region', { name: 'Quote' }).waitFor();
    await status('quoted');
    await opened.checkView('batch-quoted');
    await page.getByRole('button', { name: 'Resume' }).click();
    const done = await batchIs(world.mill, id, ['completed']);
    await status('completed');
    expect(done.request_counts).toMatchObject({ completed: 7, failed: 0 });
    opened.checkComplaints();
  });

  test('a batch of which only lines are left that wait for a person says so, and no time', async () => {
    const { current: world } = shared;
    const asks = planInput({ calls: [{ name: 'pay', args: { id: 'p', to: 'kim', amount: 5, currency: 'EUR' } }] });
    const lines = [...Array.from({ length: 4 }, () => ({ input: answered('fine') })), { input: asks }];
    const { id } = await submitBatch(world.mill, lines, { agent: 'gated', name: 'waits' });
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit(`/batches/${id}`);
    const left = page.locator('.numbers > div').filter({ has: page.getByText('Left', { exact: true }) });
    await left.getByText('1 waits for a person').waitFor();
    expect(await left.textContent()).toBe('Left1 waits for a person');
    await opened.visit('/batches');
    await page.getByRole('row').filter({ hasText: 'waits' }).getByText('1 waits for a person').waitFor();
    await world.mill.batches.cancel(id);
    opened.checkComplaints();
  });

  test('a batch is paused, resumed and cancelled after a question', async () => {
    const { current: world } = shared;
    const lines = Array.from({ length: 6 }, () => ({ input: held('stays') }));
    const { id } = await submitBatch(world.mill, lines, { agent: 'plain', name: 'stopped', maxOpen: 2 });
    await batchIs(world.mill, id, ['in_progress']);
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit(`/batches/${id}`);
    const status = (text: string) => page.locator('.status', { hasText: text }).waitFor();
    // Lines that are open are no progress.
    await page.getByText('0 of 6').first().waitFor();
    const filled = `[...document.querySelectorAll('[role=progressbar] > *')].reduce((sum, part) => sum + part.offsetWidth, 0)`;
    expect(await page.evaluate<number>(filled)).toBe(0);
    await page.getByRole('button', { name: 'Pause' }).click();
    await status('paused');
    await page.getByText('It was paused by hand.').waitFor();
    await page.getByRole('button', { name: 'Resume' }).click();
    await status('in progress');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel it' }).click();
    await status('cancelled');
    expect((await world.mill.batches.get(id)).request_counts.completed).toBe(0);
    await opened.visit('/batches');
    await page.getByRole('link', { name: 'stopped' }).waitFor();
    await opened.checkView('batches');
    await opened.visit('/audit');
    const pause = page.getByRole('row').filter({ hasText: `batch ${id} paused` });
    await pause.getByText('without a name').waitFor();
    opened.checkComplaints();
  });

  test('a file that is chosen again or not at all leaves the dialog and its fields, which are not lost unasked', async () => {
    const { current: world } = shared;
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit('/batches?new=1');
    const dialog = page.getByRole('dialog', { name: 'Start a batch' });
    const field = dialog.getByLabel('File');
    const csv = (text: string) => ({ name: 'again.csv', mimeType: 'text/csv', buffer: Buffer.from(text) });
    await field.setInputFiles(csv('id,input\n1,first\n'));
    await dialog.getByLabel('Name').fill('kept');
    // What a browser does when its chooser is closed without a file.
    await field.dispatchEvent('cancel', { bubbles: true });
    await dialog.getByText('again.csv').waitFor();
    const chooser = page.waitForEvent('filechooser');
    await field.click();
    await (await chooser).setFiles(csv('id,input\n1,mended\n'));
    await dialog.getByRole('cell', { name: 'mended' }).waitFor();
    expect(await dialog.getByLabel('Name').inputValue()).toBe('kept');
    // The question is in sight wherever the dialog is scrolled to, and only its button closes.
    const question = page.getByRole('dialog', { name: 'Leave without sending?' });
    await dialog.getByRole('button', { name: 'Upload and start' }).scrollIntoViewIfNeeded();
    for (const wantsToLeave of [() => page.mouse.click(2, 2), () => page.keyboard.press('Escape')]) {
      await wantsToLeave();
      await question.waitFor();
      const { y = -1, height = 0 } = (await question.boundingBox()) ?? {};
      expect(y >= 0 && y + height <= 800).toBe(true);
      await wantsToLeave();
      await question.waitFor({ state: 'detached' });
      expect(await dialog.getByLabel('Name').inputValue()).toBe('kept');
    }
    await page.mouse.click(2, 2);
    await opened.checkView('batch-unsaved');
    await question.getByRole('button', { name: 'Stay here' }).click();
    for (let presses = 0; presses < 5; presses++) await page.keyboard.press('Escape');
    expect(await dialog.getByLabel('Name').inputValue()).toBe('kept');
    await question.getByRole('button', { name: 'Leave it' }).click();
    await dialog.waitFor({ state: 'detached' });
    opened.checkComplaints();
  });

  test('a CSV shows its columns, asks for a template, and a file that is broken is not sent', async () => {
    const { current: world } = shared;
    const opened = await browser.open({ url: world.url });
    const { page } = opened;
    await opened.visit('/batches?new=1');
    const dialog = page.getByRole('dialog', { name: 'Start a batch' });
    const start = dialog.getByRole('button', { name: 'Upload and start' });
    const csv = (text: string) => ({ name: 'tickets.csv', mimeType: 'text/csv', buffer: Buffer.from(text) });
    await dialog.getByLabel('File').setInputFiles(csv('id,text\n1,"Where, please?"\n'));
    await dialog.getByRole('cell', { name: 'Where, please?' }).waitFor();
    await dialog.getByText('Choose the agent: the lines name none.').waitFor();
    await dialog.getByLabel('Agent', { exact: true }).selectOption('plain');
    await dialog.getByText('Say what the agent is asked').waitFor();
    expect(await start.isDisabled()).toBe(true);
    await dialog.getByLabel('What the agent is asked').fill('A customer writes: {{ text }}');
    expect(await start.isEnabled()).toBe(true);
    await dialog.getByLabel('File').setInputFiles(csv('id;text\n1;a\n'));
    await dialog.getByText('put commas between columns').waitFor();
    expect(await start.isDisabled()).toBe(true);
    opened.checkComplaints();
  });
});
