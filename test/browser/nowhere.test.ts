import { expect, test } from 'vitest';
import { describeInBrowser, useBrowser, useConsoleWorld } from './support.ts';

describeInBrowser('addresses that lead nowhere', () => {
  const browser = useBrowser();
  const world = useConsoleWorld({ workers: 0 });

  test('a view that is not there says so, and leads to those that are', async () => {
    const opened = await browser.open({ url: world.current.url });
    const { page } = opened;
    const answer = await page.goto(`${world.current.url}/nonsense/of?some=kind`);
    expect(answer?.status()).toBe(404);
    await page.getByText('There is no such view.').waitFor();
    await page.getByText('/nonsense/of', { exact: true }).waitFor();
    await opened.checkView('nowhere');
    await page.getByRole('list', { name: 'All views' }).getByRole('link', { name: 'Batches' }).click();
    await page.waitForURL('**/batches');
    await page.getByText('There is no batch yet.').waitFor();
  });

  test.each([
    ['/batches/batch_01M8GAGYMCEDRPME24H8W3CXN9', 'All batches'],
    ['/batches/nonsense', 'All batches'],
    ['/threads/nonsense', 'All threads'],
    ['/agents/nonsense', 'All agents'],
  ])('at %s nothing is to be tried again, and a link leads back', async (path, way) => {
    const opened = await browser.open({ url: world.current.url });
    const { page } = opened;
    await opened.visit(path);
    const alert = page.getByRole('alert');
    await alert.getByText('Check the address').waitFor();
    expect(await alert.getByRole('button').count()).toBe(0);
    await opened.checkView('nowhere-id');
    await alert.getByRole('link', { name: way }).click();
    await page.waitForURL(`**${path.slice(0, path.lastIndexOf('/'))}`);
  });
});
