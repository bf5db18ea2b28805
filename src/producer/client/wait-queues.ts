import type { RedisConnection } from '../../shared/state/connect.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import { parseAccountName } from './accounts.ts';
import type { ClientCore } from './client-core.ts';

/**
 * Takes a run that waits no longer out of the wait queues for money and time. Workers skip such runs too, but until then they
 * would keep others waiting.
 */
export async function leaveWaitQueues(
  { runId, tenant, pending }: RunRecord,
  { keys }: ClientCore,
  redis: RedisConnection,
): Promise<void> {
  await redis.zrem(keys.timers, runId);
  for (const item of pending) {
    if (item.kind !== 'budget') continue;
    const account = parseAccountName(item.id);
    if (account) await redis.zrem(keys.accountWaiting(tenant, account.scope, account.id), runId);
  }
}
