import { expect, test } from 'vitest';
import { someAccounts, ask, capped, own, paid, type LedgerWorld } from './ledger-world.ts';

/** A ledger, and the figures of the account of a run. */
export type RunLedgerWorld = Pick<LedgerWorld, 'ledger' | 'view'>;

/** What every ledger promises of the money of a run and of its parents. */
export function ledgerRuns(makeWorld: () => Promise<RunLedgerWorld>): void {
  test('exactly the cap is allowed, and one more is not', async () => {
    const { ledger } = await makeWorld();
    expect(await ledger.reserve(ask(capped(500), 'a', 500))).toMatchObject({ kind: 'reserved', amount: 500 });
    expect(await ledger.reserve(ask(capped(500), 'a', 501))).toMatchObject({ kind: 'exceeded', onExceed: 'fail' });
  });

  test('what is left is given when it is at least what will do', async () => {
    const world = await makeWorld();
    const accounts = capped(500);
    await world.ledger.reserve(ask(accounts, 'a', 200));
    const more = await world.ledger.reserve(ask(accounts, 'b', 400, { least: 300 }));
    expect(more).toMatchObject({ kind: 'reserved', amount: 300 });
    expect(await world.view(own(accounts))).toMatchObject({ reservedMicrocents: 500 });
  });

  test('a refusal is busy while calls under way are in the way, and exceeded when what is spent is', async () => {
    const world = await makeWorld();
    const accounts = capped(500, 'pause_for_approval');
    await world.ledger.reserve(ask(accounts, 'a', 300));
    const account = { ...own(accounts), capMicrocents: 500, spentMicrocents: 0, reservedMicrocents: 300 };
    expect(await world.ledger.reserve(ask(accounts, 'b', 300))).toEqual({ kind: 'busy', account });
    await world.ledger.settle(paid(accounts, 'a', 300));
    expect(await world.ledger.reserve(ask(accounts, 'c', 300))).toEqual({
      kind: 'exceeded',
      account: { ...account, spentMicrocents: 300, reservedMicrocents: 0 },
      onExceed: 'pause_for_approval',
    });
  });

  test('a step that a person let pass is counted and not refused', async () => {
    const world = await makeWorld();
    const accounts = capped(100);
    expect(await world.ledger.reserve(ask(accounts, 'a', 300, { force: true }))).toMatchObject({ amount: 300 });
    await world.ledger.settle(paid(accounts, 'a', 250));
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 250, reservedMicrocents: 0 });
  });

  test('the same reservation sent again answers the same and reserves nothing more', async () => {
    const world = await makeWorld();
    const accounts = capped(500);
    const request = ask(accounts, 'a', 400, { least: 100 });
    const first = await world.ledger.reserve(request);
    expect(await world.ledger.reserve(request)).toEqual(first);
    await world.ledger.writeOff(accounts);
    expect(await world.ledger.reserve(request)).toEqual(first);
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 400, reservedMicrocents: 0 });
  });

  test('an account that is gone begins with what the run spent by its own record', async () => {
    const world = await makeWorld();
    const run = { capMicrocents: 500, onExceed: 'fail', spentMicrocents: 400 } as const;
    const accounts = someAccounts({ run });
    expect(await world.ledger.reserve(ask(accounts, 'a', 200))).toMatchObject({ kind: 'exceeded' });
    expect(await world.ledger.reserve(ask(accounts, 'b', 100))).toMatchObject({ kind: 'reserved' });
    await world.ledger.settle(paid(accounts, 'b', 50));
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 450 });
  });

  test('a run is bounded by the caps of its parents, and its calls are reserved in their accounts', async () => {
    const world = await makeWorld();
    const parent = capped(500, 'pause_for_approval');
    const payers = [{ runId: parent.runId, capMicrocents: 500, onExceed: 'pause_for_approval' }] as const;
    const [child, bounded] = [someAccounts({ payers }), capped(100, 'fail', { payers })];
    expect(world.ledger.isCapped(child)).toBe(true);
    await world.ledger.reserve(ask(child, 'a', 300));
    expect(await world.view(own(parent))).toMatchObject({ reservedMicrocents: 300, spentMicrocents: 0 });
    expect(await world.ledger.reserve(ask(parent, 'b', 300))).toMatchObject({ kind: 'busy', account: own(parent) });
    expect(await world.ledger.reserve(ask(bounded, 'c', 300))).toMatchObject({ account: own(bounded) });
    await world.ledger.settle(paid(child, 'a', 450));
    expect(await world.view(own(parent))).toMatchObject({ reservedMicrocents: 0, spentMicrocents: 450 });
    expect(await world.ledger.reserve(ask(capped(900, 'fail', { payers }), 'd', 100))).toMatchObject({
      kind: 'exceeded',
      account: own(parent),
      onExceed: 'pause_for_approval',
    });
  });

  test('what a call cost more than was reserved for it is reserved for later calls of its model by the run', async () => {
    const world = await makeWorld();
    const accounts = capped(1_000);
    await world.ledger.reserve(ask(accounts, 'a', 100));
    await world.ledger.settle(paid(accounts, 'a', 150));
    await world.ledger.reserve(ask(accounts, 'b', 100));
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 150, reservedMicrocents: 150 });
    await world.ledger.release(accounts, 'b');
    await world.ledger.release(accounts, 'b');
    await world.ledger.reserve(ask(accounts, 'c', 100, { model: 'exact' }));
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 150, reservedMicrocents: 100 });
  });

  test('a cap of a run that only warns does so once', async () => {
    const { ledger } = await makeWorld();
    const accounts = capped(100, 'warn');
    const warnings = async (id: string) => {
      const reservation = await ledger.reserve(ask(accounts, id, 200));
      return reservation.kind === 'reserved' ? reservation.warnings.length : reservation.kind;
    };
    expect([await warnings('a'), await warnings('b'), await warnings('a')]).toEqual([1, 0, 1]);
  });

  test('a call that broke off counts as spent, also when the run was written off meanwhile, and settles once', async () => {
    const world = await makeWorld();
    const accounts = capped(800);
    await world.ledger.reserve(ask(accounts, 'a', 300));
    await world.ledger.settle(paid(accounts, 'a', 40, { unconfirmed: true }));
    await world.ledger.settle(paid(accounts, 'a', 40));
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 300, reservedMicrocents: 0 });
    await world.ledger.reserve(ask(accounts, 'b', 200));
    await world.ledger.writeOff(accounts);
    await world.ledger.writeOff(accounts);
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 500, reservedMicrocents: 0 });
    await world.ledger.settle(paid(accounts, 'b', 120));
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 420, reservedMicrocents: 0 });
  });
}
