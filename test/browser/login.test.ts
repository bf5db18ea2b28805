import { expect, test } from 'vitest';
import { planInput } from '../support/plan.ts';
import { sha256 } from '../../src/shared/base/ids.ts';
import { describeInBrowser, useBrowser, useConsoleWorld } from './support.ts';

const keys = `${sha256('key-of-all')}:default:*,${sha256('key-of-looker')}:default:read,${sha256('key-of-south')}:south:*`;

describeInBrowser('the console behind keys', () => {
  const browser = useBrowser();
  const world = useConsoleWorld({ env: { MILLRACE_API_KEYS: keys } });

  const logIn = async (key: string, path = '/runs') => {
    const opened = await browser.open({ url: world.current.url });
    await opened.visit(path);
    await opened.page.getByLabel('API key').fill(key);
    await opened.page.getByRole('button', { name: 'Log in' }).click();
    return opened;
  };

  test('a stranger sees the login, a wrong key says so, and a right one goes on to where the link led', async () => {
    const opened = await logIn('wrong', '/runs?status=failed');
    const { page, context } = opened;
    await page.getByText('this API key is not known').waitFor();
    await opened.checkView('login');
    await page.getByLabel('API key').fill('key-of-all');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/runs?status=failed');
    const [cookie] = await context.cookies();
    expect(cookie).toMatchObject({ name: 'millrace_session', httpOnly: true, sameSite: 'Strict', path: '/' });
    const known = await page.evaluate('document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })');
    expect(known).not.toMatch(/key-of-all|millrace_session/);
    await page.reload();
    await page.getByRole('heading', { name: 'Runs' }).waitFor();
    opened.checkComplaints();
  });

  test('a link to another site after the login stays here', async () => {
    const { page } = await logIn('key-of-all', '/login?next=//evil.example/x');
    await page.waitForURL('**/runs');
    expect(new URL(page.url()).origin).toBe(world.current.url);
  });

  test('a key that may only look has no buttons that change anything', async () => {
    await world.current.submit('plain', [{ text: 'seen' }]);
    const { page } = await logIn('key-of-looker');
    await page.getByRole('table', { name: 'Runs' }).waitFor();
    expect(await page.getByRole('button', { name: /Cancel|Redrive/ }).count()).toBe(0);
  });

  test('a tenant sees none of the runs of another', async () => {
    await world.current.submit('plain', [{ text: 'of the default tenant' }]);
    const opened = await logIn('key-of-south');
    const { page } = opened;
    await page.getByText('There are no runs yet').waitFor();
    await page.getByRole('button', { name: 'Start the first run' }).waitFor();
    const agent = page.getByLabel('Agent', { exact: true }).last();
    expect(await agent.inputValue()).not.toBe('');
    await agent.selectOption('plain');
    await page.getByLabel('Input').fill(planInput({ text: 'of the south' }));
    await opened.checkView('runs-first');
    await page.getByRole('button', { name: 'Start the first run' }).click();
    await page.waitForURL(/\/runs\/01/);
    const id = new URL(page.url()).pathname.split('/')[2] ?? '';
    expect((await world.current.fleet.client('south').get(id)).agent).toBe('plain');
  });

  test('who logs out is out, here and in the other window', async () => {
    const opened = await logIn('key-of-all');
    const { page, context } = opened;
    await page.getByRole('heading', { name: 'Runs' }).waitFor();
    const other = await context.newPage();
    await other.goto(`${world.current.url}/fleet`);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.waitForURL('**/login?*');
    await other.reload();
    await other.waitForURL('**/login?next=%2Ffleet');
  });
});
