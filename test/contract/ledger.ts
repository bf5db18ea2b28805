import { describe } from 'vitest';
import { ledgerHolds, ledgerSharedHolds } from './ledger-holds.ts';
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
    ledgerHolds(makeWorld);
    ledgerSharedHolds(makeWorld);
    ledgerReservations(makeWorld);
    ledgerSettlements(makeWorld);
    ledgerWaitQueues(makeWorld);
    ledgerInterleavings(makeWorld);
  });
}
