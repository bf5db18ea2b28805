import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { budgetView } from '../../../src/shared/contract/money.ts';
import { scratchFolder } from '../batch/support.ts';
import { serverWorld } from './server-world.ts';

const batch = '/v1/budgets/batch/nightly';
const digest = (key: string) => createHash('sha256').update(key).digest('hex');
const as = (key: string) => ({ authorization: `Bearer ${key}` });

test('a batch gets a budget, is topped up, and shows both', async () => {
  const { send } = await serverWorld();
  const put = await send('PUT', batch, { maxCostUsd: 10, onExceed: 'pause_for_approval' });
  expect(put.status).toBe(200);
  expect(budgetView.parse(put.body)).toMatchObject({
    scope: 'batch',
    id: 'nightly',
    window: 'total',
    capMicrocents: 1_000_000_000,
    onExceed: 'pause_for_approval',
    spentMicrocents: 0,
    reservedMicrocents: 0,
    waiting: 0,
  });
  const topped = await send('POST', `${batch}/top-ups`, { usd: 5 });
  expect([topped.status, topped.body.capMicrocents]).toEqual([200, 1_500_000_000]);
  expect((await send('GET', batch)).body).toEqual(topped.body);
});

test('budgets are listed: the tenant first, then batches, the latest first, and what runs wait for', async () => {
  const apiKeys = `${digest('a')}:north:*,${digest('b')}:south:*`;
  const { send, redis, keys } = await serverWorld({ apiKeys });
  const sets = [
    ['first', 'a'],
    ['second', 'a'],
    ['theirs', 'b'],
  ] as const;
  for (const [name, key] of sets) await send('PUT', `/v1/budgets/batch/${name}`, { maxCostUsd: 1 }, as(key));
  await redis.sadd(keys.accountsWaiting('north'), 'run:r-1', 'tenant:north', 'batch:first');
  const list = async () => (await send('GET', '/v1/budgets', undefined, as('a'))).body.budgets as { id: string }[];
  expect((await list()).map(({ id }) => id)).toEqual(['north', 'second', 'first', 'r-1']);
  await redis.del(keys.account('north', 'batch', 'second', 'total'));
  expect((await list()).map(({ id }) => id)).toEqual(['north', 'first', 'r-1']);
  expect(await redis.zcard(keys.budgetsSet('north'))).toBe(1);
  expect(await redis.ttl(keys.budgetsSet('north'))).toBeGreaterThan(86_400);
});

test('a top-up that is sent again with its key adds nothing', async () => {
  const { send } = await serverWorld();
  await send('PUT', batch, { maxCostMicrocents: 100 });
  const add = (key: string) => send('POST', `${batch}/top-ups`, { microcents: 50 }, { 'idempotency-key': key });
  const answers = await Promise.all(Array.from({ length: 10 }, () => add('more-1')));
  expect(new Set(answers.map(({ body }) => body.capMicrocents))).toEqual(new Set([150]));
  expect((await add('more-2')).body.capMicrocents).toBe(200);
});

test('a budget that is set again replaces the cap and keeps what was topped up', async () => {
  const { send } = await serverWorld();
  await send('PUT', batch, { maxCostMicrocents: 100 });
  await send('POST', `${batch}/top-ups`, { microcents: 50 });
  const again = await send('PUT', batch, { maxCostMicrocents: 100, onExceed: 'warn' });
  expect(again.body).toMatchObject({ capMicrocents: 150, onExceed: 'warn' });
});

test('a run shows its own budget, and a run without one is not topped up', async () => {
  const { send, start } = await serverWorld();
  const capped = await start({
    agent: 'support',
    input: 'x',
    budget: { maxCostUsd: 0.05, onExceed: 'pause_for_approval' },
  });
  const path = `/v1/budgets/run/${capped.runId}`;
  expect((await send('GET', path)).body).toMatchObject({
    scope: 'run',
    id: capped.runId,
    capMicrocents: 5_000_000,
    onExceed: 'pause_for_approval',
  });
  expect((await send('POST', `${path}/top-ups`, { usd: 0.05 })).body.capMicrocents).toBe(10_000_000);
  const free = await start();
  const refused = await send('POST', `/v1/budgets/run/${free.runId}/top-ups`, { usd: 1 });
  expect([refused.status, refused.body.error.code]).toEqual([400, 'validation']);
});

test('a tenant shows the cap of its settings in its present window, and is topped up there', async () => {
  const tenantsFile = join(scratchFolder(), 'tenants.yaml');
  writeFileSync(
    tenantsFile,
    'tenants: { default: { budget: { maxCostUsd: 2, window: month, onExceed: pause_for_approval } } }',
  );
  const { send } = await serverWorld({ client: { tenantsFile } });
  const month = new Date().toISOString().slice(0, 7);
  const before = { window: 'month', windowStart: month, capMicrocents: 200_000_000, onExceed: 'pause_for_approval' };
  expect((await send('GET', '/v1/budgets/tenant/default')).body).toMatchObject(before);
  const topped = await send('POST', '/v1/budgets/tenant/default/top-ups', { usd: 1 });
  expect(topped.body).toMatchObject({ ...before, capMicrocents: 300_000_000 });
});

test('without those settings a tenant shows the window into which workers have written its cap', async () => {
  const { send, redis, keys } = await serverWorld();
  const day = new Date().toISOString().slice(0, 10);
  await redis.hset(keys.account('default', 'tenant', 'default', day), { cap: '500', onExceed: 'warn', spent: '7' });
  const expected = { window: 'day', windowStart: day, capMicrocents: 500, onExceed: 'warn', spentMicrocents: 7 };
  expect((await send('GET', '/v1/budgets/tenant/default')).body).toMatchObject(expected);
});

test('an account is seen and changed only by its own tenant', async () => {
  const apiKeys = `${digest('ada')}:alpha,${digest('bob')}:beta`;
  const { send } = await serverWorld({ apiKeys });
  await send('PUT', batch, { maxCostUsd: 10 }, as('ada'));
  expect((await send('GET', batch, undefined, as('bob'))).body.capMicrocents).toBeUndefined();
  expect((await send('GET', '/v1/budgets/tenant/beta', undefined, as('bob'))).body).toMatchObject({ id: 'beta' });
  const foreign = await send('GET', '/v1/budgets/tenant/alpha', undefined, as('bob'));
  expect([foreign.status, foreign.body.error.code]).toEqual([404, 'not_found']);
  const { body } = await send('POST', '/v1/runs', { agent: 'support', input: 'x' }, as('ada'));
  const run = await send('GET', `/v1/budgets/run/${body.runId}`, undefined, as('bob'));
  expect([run.status, run.body.error.code]).toEqual([404, 'run_not_found']);
});

test('setting and topping up need the scope approve, reading does not', async () => {
  const { send } = await serverWorld({ apiKeys: `${digest('clerk')}:default:read+write` });
  const code = async (method: string, path: string, body?: unknown) =>
    (await send(method, path, body, as('clerk'))).body.error?.code as string | undefined;
  expect(await code('PUT', batch, { maxCostUsd: 1 })).toBe('forbidden');
  expect(await code('POST', `${batch}/top-ups`, { usd: 1 })).toBe('forbidden');
  expect(await code('GET', batch)).toBeUndefined();
});

test.each([
  ['an empty body', ''],
  ['no amount', {}],
  ['two amounts', { maxCostUsd: 1, maxCostMicrocents: 1 }],
  ['an amount of nothing', { maxCostUsd: 0 }],
  ['a negative amount', { maxCostMicrocents: -1 }],
  ['a fraction of a microcent', { maxCostMicrocents: 0.5 }],
  ['less than a microcent', { maxCostUsd: 1e-9 }],
  ['more than there is', { maxCostUsd: 1e12 }],
  ['an amount in text', { maxCostUsd: '10' }],
  ['an unknown reaction', { maxCostUsd: 1, onExceed: 'shout' }],
  ['an unknown field', { maxCostUsd: 1, window: 'day' }],
])('a budget with %s is refused', async (_, body) => {
  const { send } = await serverWorld();
  const answer = await send('PUT', batch, body);
  expect([answer.status, answer.body.error.code]).toEqual([400, 'validation']);
  expect((await send('GET', batch)).body.capMicrocents).toBeUndefined();
});

test.each([
  ['an empty body', ''],
  ['no amount', {}],
  ['two amounts', { usd: 1, microcents: 1 }],
  ['an amount of nothing', { microcents: 0 }],
  ['a negative amount', { usd: -1 }],
  ['less than a microcent', { usd: 1e-9 }],
  ['more than there is', { usd: 1e12 }],
  ['an unknown field', { usd: 1, eur: 1 }],
])('a top-up with %s is refused', async (_, body) => {
  const { send } = await serverWorld();
  await send('PUT', batch, { maxCostMicrocents: 100 });
  const answer = await send('POST', `${batch}/top-ups`, body);
  expect([answer.status, answer.body.error.code]).toEqual([400, 'validation']);
  expect((await send('GET', batch)).body.capMicrocents).toBe(100);
});

test.each([
  ['GET', '/v1/budgets/team/x', 400, 'validation'],
  ['GET', '/v1/budgets/batch/a%2Fb', 400, 'invalid_id'],
  ['GET', '/v1/budgets/run/none!', 400, 'invalid_id'],
  ['GET', '/v1/budgets/run/01K9Z5N3T8R6V2X4B7C1D0E9FG', 404, 'run_not_found'],
  ['GET', '/v1/budgets/tenant/other', 404, 'not_found'],
  ['PUT', '/v1/budgets/run/01K9Z5N3T8R6V2X4B7C1D0E9FG', 404, 'not_found'],
  ['POST', '/v1/budgets/batch/never-set/top-ups', 400, 'validation'],
  ['POST', '/v1/budgets/tenant/default/top-ups', 400, 'validation'],
])('%s %s answers %i %s', async (method, path, status, code) => {
  const { send } = await serverWorld();
  const body = method === 'GET' ? undefined : method === 'PUT' ? { maxCostUsd: 1 } : { usd: 1 };
  const answer = await send(method, path, body);
  expect([answer.status, answer.body.error.code]).toEqual([status, code]);
});

test('a key for a top-up that is not an id is refused', async () => {
  const { send } = await serverWorld();
  await send('PUT', batch, { maxCostMicrocents: 100 });
  const answer = await send('POST', `${batch}/top-ups`, { usd: 1 }, { 'idempotency-key': 'not an id' });
  expect([answer.status, answer.body.error.code]).toEqual([400, 'validation']);
});
