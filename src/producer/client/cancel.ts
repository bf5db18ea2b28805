import { stopFamily, type Family } from '../../shared/state/run/children/children.ts';
import { cancelRequest, type CancelRequest } from '../../shared/contract/control.ts';
import { assertNever } from '../../shared/base/errors.ts';
import { viewOf, type RunRecord, type RunView } from '../../shared/contract/run.ts';
import { reach, type Connected, type TenantClient } from './client-core.ts';
import { loadLegible } from './read-run.ts';
import { endedOrMissing } from './record/missing-run.ts';
import { alreadyEnded } from './accept/already-ended.ts';
import { checkRunId, runNotFound, safeInput } from './accept/validate.ts';
import { parseAs } from '../../shared/base/problems.ts';
import { endFactsOf, factsOf } from '../../shared/contract/run-record.ts';
import { parseAccountName } from './budgets.ts';

/** Asks a run and its children to stop. A run that waits for its children ends after them. */
export async function cancelRun(id: string, input: Partial<CancelRequest>, client: TenantClient): Promise<RunView> {
  const runId = checkRunId(id);
  const request = parseAs(cancelRequest, safeInput(input), 'the cancel request is not valid');
  try {
    return await cancelKept(runId, request, client);
  } catch (error) {
    throw await endedOrMissing(runId, error, client);
  }
}

/** Throws `run_not_found` for a run without a record. */
async function cancelKept(runId: string, request: CancelRequest, client: TenantClient): Promise<RunView> {
  return await reach(client, async (at) => {
    const record = await loadLegible(runId, at);
    const stopped = await stopFamily(record, request, familyPorts(at));
    switch (stopped) {
      case 'gone':
        throw runNotFound(runId);
      case 'ended_before':
        throw alreadyEnded(runId);
      case 'ended_here':
        await forget(record, at);
        break;
      case 'held':
      case 'asked':
        break;
      default:
        return assertNever(stopped);
    }
    return viewOf(await loadLegible(runId, at));
  });
}

/** What a producer does for parents and children. */
export function familyPorts({ core, redis }: Connected): Family {
  return {
    space: core.runKeySpace(redis),
    threads: core.threadKeySpace(redis),
    onAccepted: (run) => core.reportAccepted(run, { status: 'queued', attached: false }),
    onEnded: (run) => core.onRun({ kind: 'ended', jobKind: run.kind, ...factsOf(run), ...endFactsOf(run) }),
    addJob: async (run) => await core.queues.add({ ...run, priority: undefined, delayMs: undefined, first: true }),
  };
}

/** A worker would skip the job of a run that has ended, so a failure to remove it is only logged. */
async function forget(record: RunRecord, at: Connected): Promise<void> {
  const { core } = at;
  await leaveWaitQueues(record, at);
  await core.queues.remove(record.queue, record.runId, record.segment).catch(core.onError);
}

/**
 * Takes a run that waits no longer out of the wait queues for money and time. Workers skip such runs too, but until then they
 * would keep others waiting.
 */
export async function leaveWaitQueues({ runId, tenant, pending }: RunRecord, at: Connected): Promise<void> {
  const { redis, core } = at;
  const { keys } = core;
  await redis.zrem(keys.timers, runId);
  for (const item of pending) {
    if (item.kind !== 'budget') continue;
    const account = parseAccountName(item.id);
    if (account) await redis.zrem(keys.accountWaiting(tenant, account.scope, account.id), runId);
  }
}
