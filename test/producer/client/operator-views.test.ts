import { expect, test } from 'vitest';
import { newRunId } from '../../../src/shared/base/ids.ts';
import { verifyReceipt } from '../../../src/producer/index.ts';
import { clientWorld, codeOf, request } from '../cli/options/client.ts';

test('one agent is read with all that was announced of it, and one that is unknown is not found', async () => {
  const { mill } = await clientWorld();
  await mill.registerAgents([
    { id: 'support', model: 'gpt-5.2-mini', tools: ['lookup_order'] },
    { id: 'billing', model: 'gpt-5.2', tools: [] },
  ]);
  expect(await mill.agent('support')).toMatchObject({ id: 'support', model: 'gpt-5.2-mini', tools: ['lookup_order'] });
  expect(await mill.agent('billing')).toMatchObject({ id: 'billing', model: 'gpt-5.2' });
  expect(await codeOf(mill.agent('suport'))).toBe('not_found');
});

test('the fleet shows its queues, also while it has no worker', async () => {
  const { mill } = await clientWorld();
  await mill.enqueue(request);
  const { queues, workers } = await mill.fleet();
  expect(queues['runs']).toMatchObject({ waiting: 1 });
  expect(workers).toEqual([]);
});

test('the accounts are the one of the tenant, then the batches with a budget, the latest first', async () => {
  const { mill } = await clientWorld();
  await mill.budgets.set('batch', 'first', { maxCostUsd: 1 });
  await mill.budgets.set('batch', 'second:2', { maxCostUsd: 2 });
  const found = await mill.budgets.list();
  expect(found.map(({ scope, id }) => [scope, id])).toEqual([
    ['tenant', 'default'],
    ['batch', 'second:2'],
    ['batch', 'first'],
  ]);
  expect(found[1]).toEqual(await mill.budgets.get('batch', 'second:2'));
});

test('a run is erased with a receipt that can be verified; one that has not ended is refused', async () => {
  const { mill } = await clientWorld();
  const run = await mill.enqueue({ ...request, metadata: { user: 'u1' } });
  expect(await codeOf(mill.erase({ run: run.runId }))).toBe('concurrent_run');
  const { receipt, cursor } = await mill.erase({ run: run.runId, cancel: true });
  expect([receipt.runs, cursor]).toEqual([[run.runId], undefined]);
  expect(verifyReceipt(receipt, (await mill.erasureKey()).publicKey)).toBe(true);
  expect(await codeOf(mill.get(run.runId))).toBe('gone');
  expect(await codeOf(mill.erase({ run: newRunId(Date.now()) }))).toBe('run_not_found');
  await (await mill.enqueue({ ...request, metadata: { user: 'u1' } })).cancel();
  expect((await mill.erase({ metadata: { user: 'u1' } })).receipt.runs).toHaveLength(1);
  expect((await mill.erase({ metadata: { user: 'u1' } })).receipt.runs).toEqual([]);
});
