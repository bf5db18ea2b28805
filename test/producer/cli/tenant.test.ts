import { expect, test } from 'vitest';
import { clientWorld, request } from './options/client.ts';
import { millrace, settings } from './support/cli-process.ts';

/** What is about the fleet, and the groups whose commands take the option. */
const without = ['agents', 'budget', 'demo', 'dev', 'doctor', 'init', 'producer', 'threads', 'worker'];

test('every command about data of a tenant takes --tenant', async () => {
  const { prefix } = await clientWorld();
  const env = settings(prefix);
  const { stdout } = await millrace(['--help'], { env });
  const names = [...stdout.matchAll(/^ {2}([a-z][a-z-]+)\b/gm)].map(([, name = '']) => name);
  expect(names.length).toBeGreaterThan(20);
  const lacking: string[] = [];
  for (const name of names) {
    if (name === 'help') continue;
    if (!(await millrace([name, '--help'], { env })).stdout.includes('--tenant')) lacking.push(name);
  }
  expect(lacking.toSorted()).toEqual(without);
  for (const args of ['budget get', 'budget set', 'budget top-up', 'threads list', 'threads show', 'threads delete'])
    expect((await millrace([...args.split(' '), '--help'], { env })).stdout, args).toContain('--tenant');
});

test('the command line serves any tenant, and nothing of the others', async () => {
  const { mill, prefix } = await clientWorld();
  const env = settings(prefix);
  const { runId } = await mill.forTenant('acme').enqueue(request);
  const list = async (...args: string[]) => (await millrace(['runs', '--json', ...args], { env })).stdout;
  expect(await list()).not.toContain(runId);
  expect(await list('--tenant', 'acme')).toContain(runId);
  expect((await millrace(['get', runId], { env })).code).toBe(2);
  expect((await millrace(['get', runId, '--tenant', 'acme'], { env })).stdout).toContain(runId);
  expect((await millrace(['cancel', runId, '--tenant', 'acme'], { env })).code).toBe(0);
  expect((await mill.forTenant('acme').get(runId)).status).toBe('cancelled');
  const wrong = await millrace(['runs', '--tenant', 'a:b'], { env });
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('a tenant is 1 to 64 characters')]);
});

test('money of another tenant is shown and added', async () => {
  const { mill, prefix } = await clientWorld();
  const env = settings(prefix);
  await mill.forTenant('acme').budgets.set('batch', 'nightly', { maxCostUsd: 1 });
  const add = await millrace(['budget', 'top-up', 'batch', 'nightly', '2', '--tenant', 'acme'], { env });
  expect([add.code, add.stdout]).toEqual([0, expect.stringContaining('of $3.0000')]);
  const tenant = await millrace(['budget', 'get', 'tenant', 'acme', '--tenant', 'acme'], { env });
  expect(tenant.code).toBe(0);
  expect((await millrace(['budget', 'get', 'tenant', 'acme'], { env })).code).toBe(2);
});
