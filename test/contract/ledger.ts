import { describe } from 'vitest';
import { ledgerInterleavings } from './ledger-interleavings.ts';
import { ledgerWaitQueues } from './ledger-wait-queues.ts';
import { ledgerReservations } from './ledger-reservations.ts';
import { ledgerRuns } from './ledger-runs.ts';
import { ledgerSettlements } from './ledger-settlements.ts';
import type { MakeLedgerWorld } from './ledger-world.ts';

/** What every ledger promises. */
export function ledgerContract(name: string, makeWorld: MakeLedgerWorld): void {
  describe(`${name} as a ledger`, () => {
    ledgerRuns(makeWorld);
    ledgerReservations(makeWorld);
    ledgerSettlements(makeWorld);
    ledgerWaitQueues(makeWorld);
    ledgerInterleavings(makeWorld);
  });
}
