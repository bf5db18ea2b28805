import { silentLog } from '../../src/shared/base/log.ts';
import { tenantsOf } from '../../src/shared/contract/tenants.ts';
import { memoryLedger } from '../../src/worker/local/stores/memory-ledger.ts';
import { ledgerContract } from './ledger.ts';
import { TestClock } from './ledger-world.ts';

ledgerContract('Memory', async (tenants = tenantsOf({})) => {
  const clock = new TestClock();
  const ledger = memoryLedger({ clock, log: silentLog, tenants });
  return {
    ledger,
    clock,
    setBudget: async (batch, capMicrocents, onExceed = 'fail') =>
      ledger.setBudget('acme', batch, { capMicrocents, onExceed }),
    topUp: async (account, amount) => ledger.topUp('acme', account, amount),
    view: async (account) => ledger.view('acme', account),
    costs: async (day) => ledger.costs('acme', day),
  };
});
