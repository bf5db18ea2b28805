import type { PendingItem } from '../../../src/shared/contract/event.ts';
import type { RunHandle } from '../../../src/producer/client/run-handle.ts';
import type { RunRequestInput } from '../../../src/shared/contract/run.ts';
import { request, type ClientWorld } from '../cli/options/client.ts';
import { RunWriter } from './run-writer.ts';

/** A run as a worker releases it: suspended, with what it waits for in its record and log. */
export async function suspendedRun(
  { mill, redis, keys }: ClientWorld,
  pending: readonly Omit<PendingItem, 'requestedAt'>[],
  more: Partial<RunRequestInput> = {},
): Promise<RunHandle> {
  const run = await mill.enqueue({ ...request, ...more });
  const writer = new RunWriter(redis, keys, run.runId, more.executionId === undefined ? 1 : 2);
  await writer.start();
  const at = new Date().toISOString();
  const items = pending.map((item) => ({ ...item, requestedAt: at }));
  const reason = items[0]?.kind ?? 'retry';
  const entries = [
    { v: 1, t: 'agent_started', model: 'm', at },
    { v: 1, t: 'suspended', seq: 1, reason, at },
  ];
  await redis.rpush(keys.journal(run.runId), ...entries.map((entry) => JSON.stringify(entry)));
  await redis.zadd(keys.asking(mill.tenant ?? 'default'), Date.now(), run.runId);
  const fields = { status: 'suspended', held: '0', owner: '', pending: JSON.stringify(items), costMicrocents: '42' };
  await writer.emit([{ type: 'run.suspended', reason, pending: items }], { fields });
  return run;
}
