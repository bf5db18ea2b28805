import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { shareWorld } from '../support/world.ts';

const file = join(mkdtempSync(join(tmpdir(), 'millrace-')), 'tenants.yaml');
writeFileSync(file, 'default:\n  budget: { maxCostUsd: 0.000001, window: day, unpriced: deny }\n');
const shared = shareWorld({ env: { MILLRACE_TENANTS: file } });

test("a run without a budget of its own keeps to its tenant's", async () => {
  const { world } = shared;
  const run = await world.submit('plain', [{ text: 'never' }]);
  expect((await world.ended(run)).view).toMatchObject({
    status: 'failed',
    error: { code: 'budget_exceeded', details: { scope: 'tenant', id: 'default' } },
  });
  expect(world.provider.callsOf(run.runId)).toEqual([]);
});

test('a tenant that denies models without a price does so for every run', async () => {
  const { world } = shared;
  const run = await world.submit('plain', [{ text: 'never' }], { overrides: { model: 'model-without-price' } });
  expect((await world.ended(run)).view).toMatchObject({ status: 'failed', error: { code: 'budget_unpriced' } });
});

test('what the adapter of a task charges counts there, and the next call of it is refused', async () => {
  const { world } = shared;
  const buy = { type: 'act', action: { id: 'dear', costs: 150 } };
  const run = await world.mill.task({ adapter: 'errand', input: { decisions: [buy, buy] } });
  expect((await world.ended(run)).view).toMatchObject({
    status: 'failed',
    error: { code: 'budget_exceeded', details: { scope: 'tenant', id: 'default' } },
    costMicrocents: 150,
  });
  expect(world.fleet.executions.filter(({ id }) => id === 'dear')).toHaveLength(1);
});
