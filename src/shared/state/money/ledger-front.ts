import type { Keys } from '../connect.ts';
import type { PurseAccount } from './purse.ts';

interface Front {
  readonly keys: readonly string[];
  readonly args: readonly (string | number)[];
}

/** The front of KEYS and ARGV as `ledger-purse.lua` reads it. */
export function purseFront(keys: Keys, tenant: string, accounts: readonly PurseAccount[]): Front {
  const last = accounts.at(-1);
  const before = last?.before;
  return {
    keys: [
      ...accounts.flatMap((account) => accountKeys(keys, tenant, account)),
      ...(last && before !== undefined ? [keys.account(tenant, last.scope, last.id, before)] : []),
    ],
    args: [
      accounts.length,
      ...(last && before !== undefined ? [last.window, before] : ['-', '-']),
      ...accounts.flatMap(capArgs),
    ],
  };
}

/** The same for one account whose line is looked at: nothing is booked, so no other window matters. */
export function lineFront(keys: Keys, tenant: string, account: PurseAccount): Front {
  return { keys: accountKeys(keys, tenant, account), args: [1, '-', '-', ...capArgs(account)] };
}

function accountKeys(keys: Keys, tenant: string, { scope, id, window }: PurseAccount): string[] {
  return [
    keys.account(tenant, scope, id, window),
    keys.accountWaiting(tenant, scope, id),
    keys.accountNeeds(tenant, scope, id),
    keys.accountPromises(tenant, scope, id),
  ];
}

function capArgs({ cap, ttlS }: PurseAccount): (string | number)[] {
  if (cap === 'stored') return ['', '', ttlS];
  if (cap === 'none') return ['none', '', ttlS];
  return [cap.capMicrocents, cap.onExceed, ttlS];
}
