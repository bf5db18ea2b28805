import { describe } from 'vitest';
import { silentLog } from '../../src/shared/base/log.ts';
import type { BudgetView } from '../../src/shared/contract/money.ts';
import { InMemoryLedger } from '../../src/worker/local/stores/in-memory-admission.ts';
import { ledgerHolds } from './ledger-holds.ts';
import { ledgerRuns } from './ledger-runs.ts';
import { someAccounts, ask } from './ledger-world.ts';

describe('the in-memory form as the ledger of runs', () => {
  ledgerHolds(async () => ({ ledger: new InMemoryLedger(silentLog) }));
  ledgerRuns(async () => {
    const ledger = new InMemoryLedger(silentLog);
    return {
      ledger,
      /** By a refusal, which has the figures of the account. */
      async view({ id: runId }) {
        const look = someAccounts({ runId, run: { capMicrocents: -1, onExceed: 'fail' } });
        const answer = await ledger.reserve(ask(look, 'look', 1));
        if (answer.kind !== 'exceeded') throw new Error(`the account has room: ${answer.kind}`);
        return answer.account as BudgetView;
      },
    };
  });
});
