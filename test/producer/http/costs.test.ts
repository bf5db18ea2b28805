import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { costReport } from '../../../src/shared/contract/report/costs.ts';
import { dayFromToday, spend } from '../support/costs.ts';
import { serverWorld } from './server-world.ts';

const digest = (key: string) => createHash('sha256').update(key).digest('hex');

test('costs are grouped as asked, the groups add up to the totals', async () => {
  const world = await serverWorld();
  await spend(world, '2026-11-01', {}, 5);
  await spend(world, '2026-11-01', { model: 'large' }, 50, false);
  await spend(world, '2026-11-02', { agent: 'writer' }, 500);
  await spend(world, '2026-11-02', { provider: 'other' }, 5_000);
  const ask = async (by: string) => {
    const { status, body } = await world.send('GET', `/v1/costs?from=2026-11-01&to=2026-11-02&by=${by}`);
    expect(status).toBe(200);
    const report = costReport.parse(body);
    expect(report.rows.reduce((sum, row) => sum + row.costMicrocents, 0)).toBe(report.totals.costMicrocents);
    return report;
  };
  const byDay = await ask('day');
  expect(byDay.totals).toMatchObject({
    attempts: 4,
    input: 400,
    total: 440,
    costMicrocents: 5_555,
    unpricedAttempts: 1,
  });
  expect(byDay.rows).toMatchObject([
    { day: '2026-11-01', attempts: 2, costMicrocents: 55 },
    { day: '2026-11-02', attempts: 2, costMicrocents: 5_500 },
  ]);
  expect((await ask('model')).rows).toMatchObject([
    { provider: 'other', model: 'small', costMicrocents: 5_000 },
    { provider: 'openai', model: 'small', costMicrocents: 505 },
    { provider: 'openai', model: 'large', costMicrocents: 50 },
  ]);
  expect((await ask('agent,day')).rows.map(({ agent, day }) => [day, agent])).toEqual([
    ['2026-11-01', 'support'],
    ['2026-11-02', 'support'],
    ['2026-11-02', 'writer'],
  ]);
  expect((await ask('tenant')).rows).toMatchObject([{ tenant: 'default', costMicrocents: 5_555 }]);
});

test('without parameters it is the last seven days, by day, agent and model', async () => {
  const world = await serverWorld();
  await spend(world, dayFromToday(0), {}, 1);
  await spend(world, dayFromToday(-6), {}, 10);
  await spend(world, dayFromToday(-7), {}, 100);
  const { body } = await world.send('GET', '/v1/costs');
  expect(body).toMatchObject({ to: dayFromToday(0), from: dayFromToday(-6), by: ['day', 'agent', 'model'] });
  expect(body.totals.costMicrocents).toBe(11);
  expect(body.rows).toHaveLength(2);
});

test('days without costs are a report of zeros', async () => {
  const { send } = await serverWorld();
  const { status, body } = await send('GET', '/v1/costs?from=2020-01-01&to=2021-02-03');
  expect([status, body.rows, body.totals.attempts]).toEqual([200, [], 0]);
});

test('a key sees the costs of its own tenant only', async () => {
  const world = await serverWorld({ apiKeys: `${digest('ada')}:alpha,${digest('bob')}:beta` });
  await spend(world, dayFromToday(0), { tenant: 'alpha' }, 7);
  const total = async (key: string) =>
    (await world.send('GET', '/v1/costs', undefined, { authorization: `Bearer ${key}` })).body.totals.costMicrocents;
  expect([await total('ada'), await total('bob')]).toEqual([7, 0]);
});

test.each([
  ['from=yesterday', 'from'],
  ['from=2026-02-30', 'from'],
  ['from=2026-11-1', 'from'],
  ['to=2026-11-01T00:00:00Z', 'to'],
  ['from=2026-11-02&to=2026-11-01', 'from'],
  ['from=2025-01-01&to=2026-11-01', 'from'],
  ['from=0001-01-01', 'from'],
  ['by=colour', 'by'],
  ['by=day,', 'by'],
])('costs of %s are refused', async (query, field) => {
  const { send } = await serverWorld();
  const { status, body } = await send('GET', `/v1/costs?${query}`);
  expect([status, body.error.code, body.error.details[0].path]).toEqual([400, 'validation', field]);
});
