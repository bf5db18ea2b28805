import { expect, test } from 'vitest';
import { tenantsOf } from '../../src/shared/contract/tenants.ts';
import type { Reservation } from '../../src/shared/state/money/ledger.ts';
import type { Accounts } from '../../src/shared/state/money/accounts.ts';
import { seeded } from '../support/seeded.ts';
import {
  ask,
  batch,
  capped,
  own,
  paid,
  tenant,
  type AccountName,
  type LedgerWorld,
  type MakeLedgerWorld,
} from './ledger-world.ts';
import { rounds } from '../support/lane.ts';

const daily = tenantsOf({
  default: { budget: { maxCostMicrocents: 4_000, window: 'day', onExceed: 'fail', unpriced: 'allow' } },
});

async function figuresOf(
  world: LedgerWorld,
  account: AccountName,
): Promise<{ used: number; reserved: number; cap: number }> {
  const { spentMicrocents, reservedMicrocents, capMicrocents = Infinity } = await world.view(account);
  return { used: spentMicrocents + reservedMicrocents, reserved: reservedMicrocents, cap: capMicrocents };
}

export function ledgerInterleavings(makeWorld: MakeLedgerWorld): void {
  test('whatever several owners do in whatever order, no account passes its cap and nothing stays reserved', async () => {
    const random = seeded();
    const world = await makeWorld(daily);
    const { ledger } = world;
    await world.setBudget('b1', 3_000);
    const all = Array.from({ length: 6 }, () => capped(1_200, 'fail', { batch: 'b1' }));
    const watched = [batch('b1'), tenant, ...all.map(own)];
    const open: { accounts: Accounts; id: string; amount: number }[] = [];
    const repeats: [Reservation, Reservation][] = [];
    const pay = ({ accounts, id, amount }: (typeof open)[number]) => {
      return ledger.settle(paid(accounts, id, random.below(amount + 1)));
    };
    for (let step = 0; step < rounds({ fast: 150, all: 400 }); step++) {
      const accounts = all[random.below(all.length)] as Accounts;
      const roll = random.below(10);
      const mine = open.filter((reservation) => reservation.accounts === accounts);
      if (roll < 5) {
        const wanted = 1 + random.below(300);
        const request = ask(accounts, `s${step}`, wanted, { least: 1 + random.below(wanted) });
        const [answer, again] = await Promise.all([ledger.reserve(request), ledger.reserve(request)]);
        repeats.push([answer, again]);
        if (answer.kind === 'reserved') open.push({ accounts, id: request.id, amount: answer.amount });
      } else if (roll < 8) {
        const some = mine.slice(0, 1 + random.below(2));
        await Promise.all(
          some.flatMap((reservation) => [
            pay(reservation),
            ...(random.below(4) === 0 ? [ledger.writeOff(accounts)] : []),
          ]),
        );
        for (const reservation of some) open.splice(open.indexOf(reservation), 1);
      } else if (roll < 9 && mine[0]) {
        await ledger.release(accounts, mine[0].id);
        open.splice(open.indexOf(mine[0]), 1);
      } else {
        await ledger.writeOff(accounts);
      }
      for (const account of watched) {
        const { used, cap } = await figuresOf(world, account);
        expect(used).toBeLessThanOrEqual(cap);
      }
    }
    for (const [answer, again] of repeats) expect(again).toEqual(answer);
    expect(repeats.filter(([{ kind }]) => kind === 'reserved').length).toBeGreaterThan(10);
    await Promise.all(all.map((accounts) => ledger.writeOff(accounts)));
    await Promise.all(open.map(pay));
    for (const account of watched) expect((await figuresOf(world, account)).reserved).toBe(0);
  });
}
