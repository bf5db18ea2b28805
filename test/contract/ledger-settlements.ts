import { expect, test } from 'vitest';
import { tenantsOf } from '../../src/shared/contract/tenants.ts';
import { someAccounts, ask, batch, capped, own, paid, tenant, type MakeLedgerWorld } from './ledger-world.ts';

const hourly = tenantsOf({
  tenants: { acme: { budget: { maxCostMicrocents: 1_000, window: 'hour', onExceed: 'fail', unpriced: 'allow' } } },
});
const day = '2026-11-21';
const usage = { input: 10, output: 5, cached: 3, cacheWrite: 2, total: 20 };

export function ledgerSettlements(makeWorld: MakeLedgerWorld): void {
  test('a settlement replaces the reservation by what was paid', async () => {
    const world = await makeWorld(hourly);
    const accounts = capped(800, 'fail', { batch: 'b1' });
    await world.ledger.reserve(ask(accounts, 'a', 300));
    await world.ledger.settle(paid(accounts, 'a', 120));
    for (const account of [own(accounts), batch('b1'), tenant]) {
      const after = { spentMicrocents: 120, unconfirmedMicrocents: 0, reservedMicrocents: 0 };
      expect(await world.view(account)).toMatchObject(after);
    }
  });

  test('a settlement sent twice counts once', async () => {
    const world = await makeWorld();
    const accounts = capped(800);
    await world.ledger.reserve(ask(accounts, 'a', 300));
    await world.ledger.settle(paid(accounts, 'a', 120));
    await world.ledger.settle(paid(accounts, 'a', 120));
    await world.ledger.release(accounts, 'a');
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 120, reservedMicrocents: 0 });
    expect(await world.costs(day)).toMatchObject([{ attempts: 1, costMicrocents: 120 }]);
  });

  test('what is the sum of several attempts counts as one settlement, and each of them in its own row', async () => {
    const world = await makeWorld();
    const accounts = capped(800);
    const part = { provider: 'task', model: 'm', usage, costMicrocents: 30, priced: true };
    const parts = [part, { ...part, priced: false }, { ...part, model: 'other' }];
    await world.ledger.reserve(ask(accounts, 'a', 100));
    await world.ledger.settle(paid(accounts, 'a', 90, { parts }));
    await world.ledger.settle(paid(someAccounts(), 'b', 30, { parts: [part] }));
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 90, reservedMicrocents: 0 });
    expect(await world.costs(day)).toMatchObject([
      { provider: 'task', model: 'm', attempts: 3, total: 60, costMicrocents: 90, unpricedAttempts: 1 },
      { provider: 'task', model: 'other', attempts: 1, costMicrocents: 30, unpricedAttempts: 0 },
    ]);
  });

  test('a release gives everything back, once', async () => {
    const world = await makeWorld();
    const accounts = capped(800);
    await world.ledger.reserve(ask(accounts, 'a', 300));
    await world.ledger.release(accounts, 'a');
    await world.ledger.release(accounts, 'a');
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 0, reservedMicrocents: 0 });
    expect(await world.costs(day)).toEqual([]);
  });

  test('a call that broke off counts as spent with all that was reserved', async () => {
    const world = await makeWorld();
    const accounts = capped(800);
    await world.ledger.reserve(ask(accounts, 'a', 300));
    await world.ledger.settle(paid(accounts, 'a', 40, { unconfirmed: true }));
    const after = { spentMicrocents: 300, unconfirmedMicrocents: 260, reservedMicrocents: 0 };
    expect(await world.view(own(accounts))).toMatchObject(after);
    expect(await world.costs(day)).toMatchObject([{ attempts: 1, costMicrocents: 40, unconfirmedMicrocents: 260 }]);
  });

  test('what a run leaves open counts as spent when it is written off, once', async () => {
    const world = await makeWorld(hourly);
    const accounts = capped(800, 'fail', { batch: 'b1' });
    const neighbour = someAccounts({ batch: 'b1' });
    await world.ledger.reserve(ask(accounts, 'a', 300));
    await world.ledger.reserve(ask(accounts, 'b', 200));
    await world.ledger.reserve(ask(neighbour, 'c', 100));
    await world.ledger.writeOff(accounts);
    await world.ledger.writeOff(accounts);
    const all = { spentMicrocents: 500, unconfirmedMicrocents: 500 };
    expect(await world.view(own(accounts))).toMatchObject({ ...all, reservedMicrocents: 0 });
    for (const account of [batch('b1'), tenant])
      expect(await world.view(account)).toMatchObject({ ...all, reservedMicrocents: 100 });
    expect(await world.costs(day)).toMatchObject([{ attempts: 0, costMicrocents: 0, unconfirmedMicrocents: 500 }]);
  });

  test('a settlement that comes after the writeOff corrects what was unconfirmed', async () => {
    const world = await makeWorld(hourly);
    const accounts = capped(800, 'fail', { batch: 'b1' });
    await world.ledger.reserve(ask(accounts, 'a', 300));
    await world.ledger.writeOff(accounts);
    await world.ledger.settle(paid(accounts, 'a', 120));
    await world.ledger.settle(paid(accounts, 'a', 120));
    for (const account of [own(accounts), batch('b1'), tenant]) {
      const after = { spentMicrocents: 120, unconfirmedMicrocents: 0, reservedMicrocents: 0 };
      expect(await world.view(account)).toMatchObject(after);
    }
    expect(await world.costs(day)).toMatchObject([{ attempts: 1, costMicrocents: 120, unconfirmedMicrocents: 0 }]);
  });

  test('a settlement that comes after the writeOff and knows no better leaves it unconfirmed', async () => {
    const world = await makeWorld();
    const accounts = capped(800);
    await world.ledger.reserve(ask(accounts, 'a', 300));
    await world.ledger.writeOff(accounts);
    await world.ledger.settle(paid(accounts, 'a', 0, { unconfirmed: true }));
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 300, unconfirmedMicrocents: 300 });
    expect(await world.costs(day)).toMatchObject([{ attempts: 1, unconfirmedMicrocents: 300 }]);
  });

  test('a call without a reservation is counted in every account that there is', async () => {
    const world = await makeWorld(hourly);
    const accounts = capped(800);
    await world.ledger.settle(paid(accounts, 'a', 70));
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 70, reservedMicrocents: 0 });
    expect(await world.view(tenant)).toMatchObject({ spentMicrocents: 70, reservedMicrocents: 0 });
  });

  test('a call that goes on over the end of a window is settled in the window in which it was reserved', async () => {
    const world = await makeWorld(hourly);
    const accounts = someAccounts();
    await world.ledger.reserve(ask(accounts, 'a', 900));
    world.clock.set('2026-11-21T13:00:01Z');
    await world.ledger.settle(paid(accounts, 'a', 800));
    expect(await world.view(tenant)).toMatchObject({ spentMicrocents: 0, reservedMicrocents: 0 });
    world.clock.set('2026-11-21T12:59:59Z');
    expect(await world.view(tenant)).toMatchObject({ spentMicrocents: 800, reservedMicrocents: 0 });
  });

  test('what is written off long after its window counts in the present one', async () => {
    const world = await makeWorld(hourly);
    const accounts = someAccounts();
    await world.ledger.reserve(ask(accounts, 'a', 900));
    world.clock.set('2026-11-21T18:00:00Z');
    await world.ledger.writeOff(accounts);
    const after = { spentMicrocents: 900, unconfirmedMicrocents: 900, reservedMicrocents: 0 };
    expect(await world.view(tenant)).toMatchObject(after);
  });

  test('a settlement that comes after the writeOff, windows later, takes nothing from the present one', async () => {
    const world = await makeWorld(hourly);
    const accounts = someAccounts();
    await world.ledger.reserve(ask(accounts, 'a', 900));
    await world.ledger.writeOff(accounts);
    world.clock.set('2026-11-21T18:00:00Z');
    await world.ledger.settle(paid(accounts, 'a', 100));
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 100, unconfirmedMicrocents: 0 });
    expect(await world.view(tenant)).toMatchObject({
      spentMicrocents: 0,
      unconfirmedMicrocents: 0,
      reservedMicrocents: 0,
    });
  });

  test('large amounts stay exact', async () => {
    const world = await makeWorld();
    const accounts = capped(9e14 + 3);
    await world.ledger.reserve(ask(accounts, 'a', 9e14 + 1));
    expect(await world.ledger.reserve(ask(accounts, 'b', 3))).toMatchObject({ kind: 'busy' });
    await world.ledger.reserve(ask(accounts, 'c', 2));
    expect(await world.view(own(accounts))).toMatchObject({ reservedMicrocents: 9e14 + 3 });
    await world.ledger.writeOff(accounts);
    await world.ledger.settle(paid(accounts, 'a', 8e14 + 7));
    const after = { spentMicrocents: 8e14 + 9, unconfirmedMicrocents: 2, reservedMicrocents: 0 };
    expect(await world.view(own(accounts))).toMatchObject(after);
  });

  test('attempts are counted by day, agent, provider and model, with a cap and without', async () => {
    const world = await makeWorld();
    const free = someAccounts();
    const bounded = capped(1_000);
    await world.ledger.settle(paid(free, 'a', 70, { usage }));
    await world.ledger.settle(paid(bounded, 'b', 30, { usage }));
    await world.ledger.settle(paid(free, 'c', 0, { usage, priced: false }));
    await world.ledger.settle(paid(free, 'd', 5, { model: 'n' }));
    await world.ledger.settle(paid(someAccounts({ agentId: 'a "b" c' }), 'e', 6));
    world.clock.set('2026-11-22T00:00:00Z');
    await world.ledger.settle(paid(free, 'f', 7));
    const zeros = {
      input: 0,
      output: 0,
      cached: 0,
      cacheWrite: 0,
      total: 0,
      unconfirmedMicrocents: 0,
      unpricedAttempts: 0,
    };
    const row = { day, agent: 'support', provider: 'openai', model: 'm', attempts: 1, ...zeros };
    const rows = await world.costs(day);
    expect(rows.sort((a, b) => b.costMicrocents - a.costMicrocents)).toEqual([
      {
        ...row,
        attempts: 3,
        input: 30,
        output: 15,
        cached: 9,
        cacheWrite: 6,
        total: 60,
        costMicrocents: 100,
        unpricedAttempts: 1,
      },
      { ...row, agent: 'a "b" c', costMicrocents: 6 },
      { ...row, model: 'n', costMicrocents: 5 },
    ]);
    expect(await world.costs('2026-11-22')).toEqual([{ ...row, day: '2026-11-22', costMicrocents: 7 }]);
  });

  test('an attempt without a cap that is settled twice counts once', async () => {
    const world = await makeWorld();
    const accounts = someAccounts();
    await Promise.all([world.ledger.settle(paid(accounts, 'a', 70)), world.ledger.settle(paid(accounts, 'b', 5))]);
    await world.ledger.settle(paid(accounts, 'a', 70));
    expect(await world.costs(day)).toMatchObject([{ attempts: 2, costMicrocents: 75 }]);
  });
}
