import { expect, test } from 'vitest';
import { describeInBrowser, useBrowser, useConsoleWorld } from './support.ts';

describeInBrowser('the console where no real model answers', () => {
  const browser = useBrowser();
  const world = useConsoleWorld({ env: { MILLRACE_SCRIPT: 'builtin' } });
  const open = async (path: string, width?: number) => {
    const opened = await browser.open({ url: world.current.url, ...(width !== undefined && { width }) });
    await opened.visit(path);
    return opened;
  };

  test('says so where runs are listed, begun and read', async () => {
    const run = await world.current.mill.enqueue({ agent: 'plain', input: 'Are you a model?', thread: 'scripted' });
    expect((await run.result()).status).toBe('completed');
    for (const path of ['/runs', '/runs/new', '/agents', '/agents/plain', '/threads/scripted']) {
      const opened = await open(path);
      await opened.page.getByText('No real model answers here.').waitFor();
      await opened.checkAccessibility();
    }
    const opened = await open(`/runs/${run.runId}`);
    await opened.page.getByText('A script answered this run, not a real model.').waitFor();
    await opened.checkView('run-scripted');
    await (await open('/runs')).checkView('runs-scripted');
    for (const [path, name] of [
      ['/runs', 'runs'],
      [`/runs/${run.runId}`, 'run'],
    ] as const) {
      const phone = await open(path, 380);
      await phone.page.getByText(/^(No real model answers here|A script answered)/).waitFor();
      expect(await phone.page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(380);
      await phone.checkView(`${name}-scripted-phone`);
    }
  });
});

describeInBrowser('the console where a model answers', () => {
  const browser = useBrowser();
  const world = useConsoleWorld();

  test('speaks of no script', async () => {
    const run = await world.current.submit('plain', [{ text: 'I am one.' }]);
    await run.result();
    const { page, ...opened } = await browser.open({ url: world.current.url });
    const asked = page.waitForResponse((response) => response.url().endsWith('/v1/fleet'));
    await page.goto(`${world.current.url}/runs`);
    expect((await (await asked).json()).providers).toMatchObject([{ kind: 'openai' }]);
    await page.getByRole('link', { name: run.runId }).waitFor();
    expect(await page.getByText(/No real model|Not all workers/).count()).toBe(0);
    await page.getByRole('link', { name: run.runId }).click();
    await page.getByText('I am one.').first().waitFor();
    await page.getByRole('list', { name: 'Timeline' }).waitFor();
    expect(await page.getByText(/A script/).count()).toBe(0);
    expect(opened.complaints).toEqual([]);
  });
});
