import { expect, test } from 'vitest';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { closedNames } from '../../../src/shared/base/ids.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import { zeroUsage } from '../../../src/shared/contract/money.ts';
import type { Ledger } from '../../../src/shared/state/money/ledger.ts';
import { BudgetGate } from '../../../src/worker/admission/budget-gate.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { configuredModels, countedAgent } from '../../../src/worker/agents/known-names.ts';
import { loadedFrom } from '../../../src/worker/agents/loaded-agent.ts';

test('a model is known by the names that operators and agents use, and by those that its provider is asked for', () => {
  const agent = loadedFrom(defineAgent({ id: 'a', model: 'own', fallbackModels: ['second'] }));
  const served = (model: string) => ({ provider: { id: 'acme' } as never, model: `acme-${model}` });
  const providers = { providerFor: served, scripted: false, about: [], secrets: [], models: ['listed'] };
  const known = closedNames(configuredModels([agent], ['allowed'], providers));
  for (const model of ['own', 'acme-own', 'second', 'acme-second', 'allowed', 'acme-allowed', 'listed'])
    expect(known(model)).toBe(model);
  expect(known('made-up')).toBe('other');
});

test('a run is counted for its agent, a task for its adapter, and for no name that a caller made up', () => {
  const deps = {
    agents: new Map([['support', {}]]),
    functions: { adapters: new Map([['errand', {} as never]]) },
  };
  const taskRun = (adapter: string) => ({ adapter, input: {} }) as never;
  expect(countedAgent({ agent: 'support' }, deps)).toBe('support');
  expect(countedAgent({ agent: 'errand', taskRun: taskRun('errand') }, deps)).toBe('errand');
  expect(countedAgent({ agent: 'made-up', taskRun: taskRun('errand') }, deps)).toBe('errand');
  expect(countedAgent({ agent: 'made-up', taskRun: taskRun('made-up') }, deps)).toBe('other');
  expect(countedAgent({ agent: 'made-up' }, deps)).toBe('other');
});

test('money is reserved and counted under names that an operator configured, also in its parts', async () => {
  const asked: unknown[] = [];
  const ledger = {
    isCapped: () => true,
    reserve: async ({ model }) => {
      asked.push(['reserve', model]);
      return { kind: 'reserved', amount: 1, warnings: [] };
    },
    settle: async ({ model, parts }) => {
      asked.push(['settle', model, parts?.map((part) => part.model)]);
      return [];
    },
  } satisfies Partial<Ledger> as unknown as Ledger;
  const budgetGate = new BudgetGate({
    ports: { ledger },
    clock: systemClock,
    log: silentLog,
    accounts: { runId: 'r', tenant: 'default', agentId: 'a' },
    owner: 'o',
    maxInlineWaitMs: 0,
    emit: () => {},
    wake: () => {},
    modelName: closedNames(['known']),
  });
  const { signal } = new AbortController();
  const what = { what: 'call', provider: 'p', wanted: 1, least: 1, force: false };
  const paid = { id: '1', provider: 'p', usage: zeroUsage, costMicrocents: 0, priced: true, unconfirmed: false };
  for (const model of ['known', 'made-up']) {
    await budgetGate.reserve('1', { ...what, model }, signal);
    await budgetGate.settle({ ...paid, model, parts: ['known', 'made-up'].map((name) => ({ ...paid, model: name })) });
  }
  expect(asked).toEqual([
    ['reserve', 'known'],
    ['settle', 'known', ['known', 'other']],
    ['reserve', 'other'],
    ['settle', 'other', ['known', 'other']],
  ]);
});
