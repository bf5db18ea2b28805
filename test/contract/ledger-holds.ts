import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { tenantsOf } from '../../src/shared/contract/tenants.ts';
import { ask, batch, capped, own, paid, tenant, type MakeLedgerWorld } from './ledger-world.ts';
import type { Ledger, Reservation } from '../../src/shared/state/money/ledger.ts';
import type { Accounts } from '../../src/shared/state/money/accounts.ts';

const held = (accounts: Accounts, amount: number, force = false) => {
  return { accounts, provider: 'openai', model: 'm', amount, force };
};
/** What is left of a cap of its own, as far as another call could reserve it. */
async function free(ledger: Ledger, accounts: Accounts): Promise<number> {
  const answer = await ledger.reserve(ask(accounts, `probe-${probes++}`, 1_000_000, { least: 1 }));
  if (answer.kind !== 'reserved') return 0;
  await ledger.release(accounts, `probe-${probes - 1}`);
  return answer.amount;
}
let probes = 0;

/** Both forms of the ledger: runs with caps of their own, and of their parents. */
export function ledgerHolds(makeLedger: () => Promise<Pick<Awaited<ReturnType<MakeLedgerWorld>>, 'ledger'>>): void {
  test('what a run holds is left over by its calls, and released at its end', async () => {
    const { ledger } = await makeLedger();
    const accounts = capped(100);
    expect(await ledger.hold(held(accounts, 30))).toEqual({ kind: 'reserved', amount: 30, warnings: [] });
    expect(await ledger.reserve(ask(accounts, 'a', 100, { least: 10 }))).toMatchObject({ amount: 70 });
    await ledger.settle(paid(accounts, 'a', 70));
    expect(await ledger.reserve(ask(accounts, 'b', 10))).toMatchObject({ kind: 'exceeded' });
    await ledger.releaseHold(accounts);
    expect(await ledger.reserve(ask(accounts, 'b', 10))).toMatchObject({ kind: 'reserved', amount: 10 });
    await ledger.releaseHold(accounts);
    await ledger.settle(paid(accounts, 'b', 10));
    expect(await free(ledger, accounts)).toBe(20);
  });

  test('the closing call gets what is held, and nothing is held any more', async () => {
    const { ledger } = await makeLedger();
    const accounts = capped(100);
    await ledger.hold(held(accounts, 30));
    await ledger.settle(paid(accounts, 'a', 70));
    expect(await ledger.reserve(ask(accounts, 'z', 50, { least: 10, closing: true }))).toMatchObject({ amount: 30 });
    await ledger.settle(paid(accounts, 'z', 25));
    await ledger.releaseHold(accounts);
    expect(await free(ledger, accounts)).toBe(5);
  });

  test('a closing call that is refused leaves what is held', async () => {
    const { ledger } = await makeLedger();
    const accounts = capped(100);
    await ledger.hold(held(accounts, 30));
    await ledger.settle(paid(accounts, 'a', 70));
    expect(await ledger.reserve(ask(accounts, 'z', 50, { closing: true }))).toMatchObject({ kind: 'exceeded' });
    expect(await ledger.reserve(ask(accounts, 'b', 1))).toMatchObject({ kind: 'exceeded' });
    expect(await ledger.reserve(ask(accounts, 'y', 30, { closing: true }))).toMatchObject({ amount: 30 });
  });

  test('a run holds once: it grows, a smaller amount changes nothing, and a refusal keeps what there was', async () => {
    const { ledger } = await makeLedger();
    const accounts = capped(100);
    for (const [amount, left] of [
      [30, 70],
      [30, 70],
      [20, 70],
      [50, 50],
    ] as const) {
      expect(await ledger.hold(held(accounts, amount))).toMatchObject({ kind: 'reserved' });
      expect(await free(ledger, accounts)).toBe(left);
    }
    expect(await ledger.hold(held(accounts, 101))).toMatchObject({ kind: 'exceeded' });
    expect(await free(ledger, accounts)).toBe(50);
  });

  test('no write-off spends what is held', async () => {
    const { ledger } = await makeLedger();
    const accounts = capped(100);
    await ledger.hold(held(accounts, 30));
    await ledger.reserve(ask(accounts, 'a', 40));
    await ledger.writeOff(accounts);
    expect(await free(ledger, accounts)).toBe(30);
    await ledger.reserve(ask(accounts, 'z', 30, { closing: true }));
    await ledger.writeOff(accounts);
    await ledger.releaseHold(accounts);
    expect(await free(ledger, accounts)).toBe(30);
  });

  test('what a child holds counts in the account of its parent, and refuses as used up rather than busy', async () => {
    const { ledger } = await makeLedger();
    const parent = capped(100);
    const child = capped(1_000, 'fail', {
      payers: [{ runId: parent.runId, capMicrocents: 100, onExceed: 'fail' }],
    });
    await ledger.hold(held(child, 60));
    expect(await ledger.reserve(ask(parent, 'a', 50))).toMatchObject({ kind: 'exceeded' });
    expect(await ledger.hold(held(parent, 50))).toMatchObject({ kind: 'exceeded' });
    await ledger.releaseHold(child);
    expect(await ledger.reserve(ask(parent, 'a', 50))).toMatchObject({ kind: 'reserved', amount: 50 });
    expect(await ledger.hold(held(parent, 60))).toMatchObject({ kind: 'busy' });
  });

  const step = fc.oneof(
    fc.record({ do: fc.constant('hold' as const), amount: fc.integer({ min: 1, max: 60 }) }),
    fc.record({ do: fc.constant('call' as const), amount: fc.integer({ min: 1, max: 60 }) }),
    fc.record({ do: fc.constant('crash' as const), amount: fc.integer({ min: 1, max: 60 }) }),
  );

  test('whatever a run did before, its closing call has what it holds, and its cap is kept', async () => {
    const { ledger } = await makeLedger();
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 8 }), async (steps) => {
        const accounts = capped(100);
        let spent = 0;
        let holds = 0;
        let id = 0;
        const isThere = (answer: Reservation) => answer.kind === 'reserved';
        for (const { do: what, amount } of steps) {
          if (what === 'hold') {
            if (isThere(await ledger.hold(held(accounts, amount)))) holds = Math.max(holds, amount);
            continue;
          }
          const name = `c${id++}`;
          const answer = await ledger.reserve(ask(accounts, name, amount));
          expect(isThere(answer)).toBe(spent + holds + amount <= 100);
          if (!isThere(answer)) continue;
          spent += amount;
          if (what === 'call') await ledger.settle(paid(accounts, name, amount));
          else await ledger.writeOff(accounts);
        }
        if (holds === 0) return;
        expect(await ledger.reserve(ask(accounts, 'closing', holds, { closing: true }))).toMatchObject({
          amount: holds,
        });
        await ledger.settle(paid(accounts, 'closing', holds));
        await ledger.releaseHold(accounts);
        expect(await free(ledger, accounts)).toBe(100 - spent - holds);
      }),
      { numRuns: 25 },
    );
  });
}

/** With batches, tenants and wait queues. */
export function ledgerSharedHolds(makeWorld: MakeLedgerWorld): void {
  test('what is held is reserved in the accounts of batch and tenant, until the run has ended', async () => {
    const world = await makeWorld(
      tenantsOf({
        default: { budget: { maxCostMicrocents: 1_000, window: 'day', onExceed: 'fail', unpriced: 'allow' } },
      }),
    );
    await world.setBudget('b1', 100);
    const first = capped(500, 'fail', { batch: 'b1' });
    const second = capped(500, 'fail', { batch: 'b1' });
    await world.ledger.hold(held(first, 60));
    for (const account of [own(first), batch('b1'), tenant])
      expect(await world.view(account)).toMatchObject({ reservedMicrocents: 60, spentMicrocents: 0 });
    expect(await world.ledger.reserve(ask(second, 'a', 50))).toMatchObject({ kind: 'exceeded', account: batch('b1') });
    expect(await world.ledger.await(second, batch('b1'), 50)).toBe(false);
    expect(await world.ledger.releaseHold(first)).toEqual([second.runId]);
    for (const account of [own(first), batch('b1'), tenant])
      expect(await world.view(account)).toMatchObject({ reservedMicrocents: 0 });
  });

  test('what is held moves into the present window of the tenant, and is released in the one before', async () => {
    const budget = { maxCostMicrocents: 100, window: 'day', onExceed: 'fail', unpriced: 'allow' } as const;
    const world = await makeWorld(tenantsOf({ default: { budget } }));
    const accounts = capped(500);
    await world.ledger.hold(held(accounts, 60));
    world.clock.set('2026-11-22T00:30:00.000Z');
    expect(await world.view(tenant)).toMatchObject({ reservedMicrocents: 0 });
    await world.ledger.hold(held(accounts, 60));
    expect(await world.view(tenant)).toMatchObject({ reservedMicrocents: 60, windowStart: '2026-11-22' });
    expect(await world.view(own(accounts))).toMatchObject({ reservedMicrocents: 60 });
    world.clock.set('2026-11-23T00:30:00.000Z');
    await world.ledger.releaseHold(accounts);
    world.clock.set('2026-11-22T00:40:00.000Z');
    expect(await world.view(tenant)).toMatchObject({ reservedMicrocents: 0 });
  });
}
