import { expect, test } from 'vitest';
import { runIdForExecution } from '../../src/shared/base/ids.ts';
import { tenantsOf } from '../../src/shared/contract/tenants.ts';
import type { Accounts } from '../../src/shared/state/money/accounts.ts';
import {
  someAccounts,
  ask,
  batch,
  capped,
  own,
  paid,
  tenant,
  type LedgerWorld,
  type MakeLedgerWorld,
} from './ledger-world.ts';

const b1 = batch('b1');

/** A batch with a cap of 1,000, of which 900 are reserved by one run. */
async function almostUsed(makeWorld: MakeLedgerWorld): Promise<LedgerWorld & { readonly owner: Accounts }> {
  const world = await makeWorld();
  await world.setBudget('b1', 1_000, 'pause_for_approval');
  const owner = someAccounts({ batch: 'b1' });
  await world.ledger.reserve(ask(owner, 'reserved', 900));
  return { ...world, owner };
}

const waiter = () => someAccounts({ batch: 'b1' });

export function ledgerWaitQueues(makeWorld: MakeLedgerWorld): void {
  test('a run whose money is there does not wait', async () => {
    const { ledger, view } = await almostUsed(makeWorld);
    expect(await ledger.await(waiter(), b1, 100)).toBe(true);
    expect(await ledger.await(waiter(), b1, 101)).toBe(false);
    expect(await view(b1)).toMatchObject({ waiting: 1 });
  });

  test('a settlement answers the runs that fit now, oldest first and together, each once', async () => {
    const { ledger, owner, view, clock } = await almostUsed(makeWorld);
    const [first, second, third] = [waiter(), waiter(), waiter()];
    for (const [minute, accounts] of [third, second, first].entries()) {
      clock.set(`2026-11-21T12:3${minute}:00Z`);
      expect(await ledger.await(accounts, b1, 300)).toBe(false);
    }
    expect(await ledger.settle(paid(owner, 'reserved', 400))).toEqual([first.runId, second.runId]);
    expect(await ledger.dispatch()).toEqual([]);
    expect(await view(b1)).toMatchObject({ waiting: 1 });
  });

  test('a release and a writeOff answer runs that wait as well', async () => {
    for (const give of ['release', 'writeOff'] as const) {
      const { ledger, owner, topUp } = await almostUsed(makeWorld);
      const accounts = waiter();
      await ledger.await(accounts, b1, 300);
      if (give === 'writeOff') await topUp(b1, 300);
      const runIds = give === 'release' ? await ledger.release(owner, 'reserved') : await ledger.writeOff(owner);
      expect(runIds).toEqual([accounts.runId]);
    }
  });

  test('the next dispatch finds a top-up, and each run goes to one of those who dispatch', async () => {
    const { ledger, topUp, view } = await almostUsed(makeWorld);
    const waiters = Array.from({ length: 10 }, waiter);
    for (const accounts of waiters) await ledger.await(accounts, b1, 200);
    expect(await ledger.dispatch()).toEqual([]);
    await topUp(b1, 1_100);
    const looks = await Promise.all([ledger.dispatch(), ledger.dispatch(), ledger.dispatch()]);
    expect(looks.flat()).toEqual(waiters.slice(0, 6).map(({ runId }) => runId));
    await topUp(b1, 10_000);
    expect(await ledger.dispatch()).toHaveLength(4);
    expect(await ledger.dispatch()).toEqual([]);
    expect(await view(b1)).toMatchObject({ waiting: 0 });
  });

  test('a run that waits twice has one position, and keeps it', async () => {
    const { ledger, owner, view } = await almostUsed(makeWorld);
    const [first, second] = [waiter(), waiter()];
    await ledger.await(first, b1, 300);
    await ledger.await(second, b1, 300);
    await ledger.await(first, b1, 300);
    expect(await view(b1)).toMatchObject({ waiting: 2 });
    expect(await ledger.settle(paid(owner, 'reserved', 700))).toEqual([first.runId]);
  });

  test('runs whose age cannot be seen wait in the order in which they came', async () => {
    const { ledger, owner, clock } = await almostUsed(makeWorld);
    const [first, second] = ['e1', 'e2'].map((id) =>
      someAccounts({ batch: 'b1', runId: runIdForExecution('acme', id) }),
    );
    for (const [minute, accounts] of [first, second, first].entries()) {
      clock.set(`2026-11-21T12:3${minute}:00Z`);
      await ledger.await(accounts as Accounts, b1, 300);
    }
    expect(await ledger.settle(paid(owner, 'reserved', 700))).toEqual([first?.runId]);
  });

  test('a run that was taken out of the queue and was not woken can wait again', async () => {
    const { ledger, owner } = await almostUsed(makeWorld);
    const accounts = waiter();
    await ledger.await(accounts, b1, 300);
    expect(await ledger.settle(paid(owner, 'reserved', 700))).toEqual([accounts.runId]);
    expect(await ledger.await(waiter(), b1, 300)).toBe(false);
    expect(await ledger.await(accounts, b1, 300)).toBe(true);
  });

  test('younger runs do not pass an older one that waits for calls under way', async () => {
    const { ledger, owner } = await almostUsed(makeWorld);
    const [old, young] = [waiter(), waiter()];
    await ledger.await(old, b1, 500);
    expect(await ledger.await(young, b1, 50)).toBe(false);
    expect(await ledger.settle(paid(owner, 'reserved', 450))).toEqual([old.runId, young.runId]);
  });

  test('a run that needs more than is left does not block what is left', async () => {
    const { ledger, owner } = await almostUsed(makeWorld);
    const [large, small] = [waiter(), waiter()];
    await ledger.await(large, b1, 5_000);
    await ledger.await(small, b1, 200);
    expect(await ledger.settle(paid(owner, 'reserved', 500))).toEqual([small.runId]);
  });

  test('a run that asks for money waits in no queue of its accounts any more', async () => {
    const { ledger, topUp } = await almostUsed(makeWorld);
    const accounts = waiter();
    await ledger.await(accounts, b1, 300);
    await ledger.reserve(ask(accounts, 'forced', 300, { force: true }));
    await topUp(b1, 10_000);
    expect(await ledger.dispatch()).toEqual([]);
  });

  test('a run that ends waits in no queue any more', async () => {
    const { ledger, topUp } = await almostUsed(makeWorld);
    const accounts = waiter();
    await ledger.await(accounts, b1, 300);
    await ledger.writeOff(accounts);
    await topUp(b1, 10_000);
    expect(await ledger.dispatch()).toEqual([]);
  });

  test('a run is not woken for less than what the ledger asks of its model', async () => {
    const world = await makeWorld();
    await world.setBudget('b1', 1_000, 'pause_for_approval');
    const accounts = waiter();
    await world.ledger.reserve(ask(accounts, 'a', 100));
    await world.ledger.settle(paid(accounts, 'a', 850));
    expect(await world.ledger.reserve(ask(accounts, 'b', 100))).toMatchObject({ kind: 'exceeded' });
    expect(await world.ledger.await(accounts, b1, 100)).toBe(false);
    await world.topUp(b1, 699);
    expect(await world.ledger.dispatch()).toEqual([]);
    await world.topUp(b1, 1);
    expect(await world.ledger.dispatch()).toEqual([accounts.runId]);
    expect(await world.ledger.reserve(ask(accounts, 'c', 100))).toMatchObject({ kind: 'reserved', amount: 100 });
  });

  test('a run waits for its own money by the cap that refused it', async () => {
    const world = await makeWorld();
    const accounts = capped(100, 'pause_for_approval');
    expect(await world.ledger.reserve(ask(accounts, 'a', 300))).toMatchObject({ kind: 'exceeded' });
    expect(await world.ledger.await(accounts, own(accounts), 300)).toBe(false);
    await world.topUp(own(accounts), 200);
    expect(await world.ledger.dispatch()).toEqual([accounts.runId]);
  });

  test('runs that wait for money of their tenant are answered when the next window begins', async () => {
    const daily = { maxCostMicrocents: 100, window: 'day', onExceed: 'pause_for_approval', unpriced: 'allow' } as const;
    const world = await makeWorld(tenantsOf({ default: { budget: daily } }));
    const [first, second, third] = [someAccounts(), someAccounts(), someAccounts()];
    await world.ledger.settle(paid(first, 'a', 90));
    for (const accounts of [first, second, third]) expect(await world.ledger.await(accounts, tenant, 50)).toBe(false);
    expect(await world.ledger.dispatch()).toEqual([]);
    world.clock.set('2026-11-22T00:00:00Z');
    expect(await world.ledger.dispatch()).toEqual([first.runId, second.runId]);
  });
}
