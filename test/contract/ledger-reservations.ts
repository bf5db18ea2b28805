import { expect, test } from 'vitest';
import { tenantsOf } from '../../src/shared/contract/tenants.ts';
import { someAccounts, ask, batch, capped, own, paid, tenant, type MakeLedgerWorld } from './ledger-world.ts';

const dailyCap = (maxCostMicrocents: number, onExceed: 'fail' | 'warn' | 'pause_for_approval' = 'fail') =>
  tenantsOf({ default: { budget: { maxCostMicrocents, window: 'day', onExceed, unpriced: 'allow' } } });

export function ledgerReservations(makeWorld: MakeLedgerWorld): void {
  test('a accounts is capped when its run or its tenant has a cap, and whenever it has a batch', async () => {
    const { ledger } = await makeWorld();
    expect(ledger.isCapped(someAccounts())).toBe(false);
    expect(ledger.isCapped(capped(1))).toBe(true);
    expect(ledger.isCapped(someAccounts({ batch: 'b1' }))).toBe(true);
    expect((await makeWorld(dailyCap(1))).ledger.isCapped(someAccounts())).toBe(true);
  });

  test('a reservation is in the accounts of run, batch and tenant', async () => {
    const world = await makeWorld(dailyCap(1_000));
    await world.setBudget('b1', 900);
    const accounts = capped(800, 'fail', { batch: 'b1' });
    expect(await world.ledger.reserve(ask(accounts, 'a', 300))).toEqual({
      kind: 'reserved',
      amount: 300,
      warnings: [],
    });
    const figures = { reservedMicrocents: 300, spentMicrocents: 0 };
    expect(await world.view(own(accounts))).toMatchObject({ ...figures, capMicrocents: 800, window: 'total' });
    expect(await world.view(batch('b1'))).toMatchObject({ ...figures, capMicrocents: 900 });
    expect(await world.view(tenant)).toMatchObject({ ...figures, capMicrocents: 1_000, windowStart: '2026-11-21' });
  });

  test('a refused reservation reserves nothing in any account', async () => {
    const world = await makeWorld(dailyCap(100));
    await world.setBudget('b1', 900);
    const accounts = capped(800, 'fail', { batch: 'b1' });
    expect(await world.ledger.reserve(ask(accounts, 'a', 300))).toMatchObject({ kind: 'exceeded', account: tenant });
    for (const account of [own(accounts), batch('b1'), tenant])
      expect(await world.view(account)).toMatchObject({ reservedMicrocents: 0, spentMicrocents: 0 });
  });

  test('of several accounts that refuse, run goes before batch and batch before tenant', async () => {
    const world = await makeWorld(dailyCap(100));
    await world.setBudget('b1', 100);
    const all = capped(100, 'fail', { batch: 'b1' });
    expect(await world.ledger.reserve(ask(all, 'a', 300))).toMatchObject({ account: own(all) });
    expect(await world.ledger.reserve(ask(someAccounts({ batch: 'b1' }), 'a', 300))).toMatchObject({
      account: batch('b1'),
    });
    expect(await world.ledger.reserve(ask(someAccounts(), 'a', 300))).toMatchObject({ account: tenant });
  });

  test('an account that is used up goes before one that is only busy', async () => {
    const world = await makeWorld();
    await world.setBudget('b1', 100, 'pause_for_approval');
    const accounts = capped(400, 'fail', { batch: 'b1' });
    await world.ledger.reserve(ask(accounts, 'a', 350, { force: true }));
    expect(await world.ledger.reserve(ask(accounts, 'b', 101))).toMatchObject({
      kind: 'exceeded',
      account: batch('b1'),
      onExceed: 'pause_for_approval',
    });
  });

  test('an account that only warns never refuses, and warns when it is passed', async () => {
    const world = await makeWorld(dailyCap(500, 'warn'));
    const accounts = someAccounts();
    expect(await world.ledger.reserve(ask(accounts, 'a', 500))).toMatchObject({ kind: 'reserved', warnings: [] });
    await world.ledger.settle(paid(accounts, 'a', 400));
    const passed = { ...tenant, capMicrocents: 500, spentMicrocents: 400, reservedMicrocents: 200 };
    expect(await world.ledger.reserve(ask(accounts, 'b', 200))).toEqual({
      kind: 'reserved',
      amount: 200,
      warnings: [passed],
    });
  });

  test('an account that only warns does so once for each run, and again for a repeated question', async () => {
    const { ledger } = await makeWorld(dailyCap(500, 'warn'));
    const [accounts, other] = [someAccounts(), someAccounts()];
    const warnings = async (of: typeof accounts, id: string) => {
      const reservation = await ledger.reserve(ask(of, id, 600));
      return reservation.kind === 'reserved' ? reservation.warnings.length : reservation.kind;
    };
    expect(await warnings(accounts, 'a')).toBe(1);
    expect(await warnings(accounts, 'a')).toBe(1);
    await ledger.settle(paid(accounts, 'a', 600));
    expect(await warnings(accounts, 'b')).toBe(0);
    expect(await warnings(other, 'c')).toBe(1);
  });

  test('a batch without a cap refuses nothing', async () => {
    const { ledger } = await makeWorld();
    const accounts = someAccounts({ batch: 'b1' });
    expect(await ledger.reserve(ask(accounts, 'a', 1e14))).toEqual({ kind: 'reserved', amount: 1e14, warnings: [] });
  });

  test('a top-up counts on top of the cap', async () => {
    const world = await makeWorld();
    const accounts = capped(100);
    expect(await world.ledger.reserve(ask(accounts, 'a', 300))).toMatchObject({ kind: 'exceeded' });
    await world.topUp(own(accounts), 200);
    expect(await world.ledger.reserve(ask(accounts, 'b', 300))).toMatchObject({ kind: 'reserved' });
    expect(await world.view(own(accounts))).toMatchObject({ capMicrocents: 300 });
  });

  test('a call that cost more than was reserved makes later calls of that model reserve as much more', async () => {
    const world = await makeWorld();
    await world.setBudget('b1', 1_000);
    const accounts = someAccounts({ batch: 'b1' });
    await world.ledger.reserve(ask(accounts, 'a', 100));
    await world.ledger.settle(paid(accounts, 'a', 150));
    await world.ledger.reserve(ask(accounts, 'b', 100));
    await world.ledger.settle(paid(accounts, 'b', 120));
    const other = someAccounts({ batch: 'b1' });
    expect(await world.ledger.reserve(ask(other, 'c', 100))).toMatchObject({ kind: 'reserved', amount: 100 });
    expect(await world.view(batch('b1'))).toMatchObject({ spentMicrocents: 270, reservedMicrocents: 150 });
    await world.ledger.reserve(ask(other, 'd', 100, { model: 'exact' }));
    expect(await world.view(batch('b1'))).toMatchObject({ reservedMicrocents: 250 });
  });

  test('an answer far shorter than what was reserved shows as well that a model costs more than estimated', async () => {
    const world = await makeWorld();
    await world.setBudget('b1', 1_000);
    const accounts = someAccounts({ batch: 'b1' });
    await world.ledger.reserve(ask(accounts, 'a', 100));
    await world.ledger.settle(paid(accounts, 'a', 60, { expectedMicrocents: 20 }));
    await world.ledger.reserve(ask(accounts, 'b', 100));
    expect(await world.view(batch('b1'))).toMatchObject({ spentMicrocents: 60, reservedMicrocents: 140 });
  });

  test('a model that costs more than callers reckon cannot pass a cap again and again', async () => {
    const world = await makeWorld();
    await world.setBudget('b1', 1_000);
    for (let call = 0; call < 20; call++) {
      const accounts = someAccounts({ batch: 'b1' });
      const reservation = await world.ledger.reserve(ask(accounts, `c${call}`, 100, { least: 1 }));
      if (reservation.kind !== 'reserved') break;
      await world.ledger.settle(paid(accounts, `c${call}`, reservation.amount + 90));
    }
    const { spentMicrocents } = await world.view(batch('b1'));
    expect(spentMicrocents).toBeGreaterThan(800);
    expect(spentMicrocents).toBeLessThanOrEqual(1_000);
  });

  test('a tenant begins each window with its whole cap', async () => {
    const world = await makeWorld(dailyCap(500));
    const accounts = someAccounts();
    await world.ledger.reserve(ask(accounts, 'a', 500));
    await world.ledger.settle(paid(accounts, 'a', 500));
    expect(await world.ledger.reserve(ask(accounts, 'b', 500))).toMatchObject({ kind: 'exceeded' });
    world.clock.set('2026-11-22T00:00:00Z');
    expect(await world.ledger.reserve(ask(accounts, 'c', 500))).toMatchObject({ kind: 'reserved' });
  });
}
