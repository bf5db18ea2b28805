import { systemClock } from '../../../shared/base/clock.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { lifecycleEntries } from '../../../shared/state/erasure/lifecycle-entries.ts';
import type { ErasurePlan, PlannedRun } from '../../../shared/state/erasure/plans.ts';
import { noteErased } from '../../../shared/state/erasure/erased-runs.ts';
import { eraseResults } from '../../../shared/state/erasure/results.ts';
import { dropMedia } from '../../../shared/state/results/media-store.ts';
import { removeThread } from '../../../shared/state/thread/list.ts';
import { removeConversation } from '../../../shared/state/wire/conversations.ts';
import { forgetRun } from '../../../shared/state/wire/forget-run.ts';
import { reach, type TenantClient } from '../client-core.ts';
import { rememberedMs } from '../record/archived-list.ts';
import { eraseLines } from './batch-lines.ts';

/** What a worker that has just ended a run has of it, a job or a thread, it releases within this. */
const releaseMs = 5_000;
const retryMs = 100;

/**
 * Removes everything of a plan. May stop anywhere and be done again: what is gone stays gone. The record of a run goes before its
 * archive, which is the last place where it can be found. Throws `concurrent_run` for a run that was redriven meanwhile, and for one of
 * which a worker has a job.
 */
export async function removePlanned(plan: ErasurePlan, client: TenantClient): Promise<void> {
  const { core, tenant } = client;
  const reached = { keys: core.keys, reach: core.reach.bind(core), blobs: () => core.files.blobs() };
  for (const { runId } of plan.runs) await core.lifecycle.publish(runId);
  await eraseLines(plan.runs, client, 'erase');
  await removeLifecycle(plan.runs, client);
  for (const run of plan.runs) await removeRun(run, client);
  for (const threadId of plan.threads) await removeWholeThread(threadId, client);
  for (const digest of plan.media) await dropMedia(reached, tenant, digest);
  for (const id of plan.files) await core.files.store.remove(tenant, id);
  for (const run of plan.runs) {
    const { runId } = run;
    await core.archive.drop(tenant, run);
    await core.reach((redis) => redis.set(core.keys.wasErased(tenant, runId), Date.now(), 'PX', rememberedMs(client)));
  }
}

async function removeRun(run: PlannedRun, client: TenantClient): Promise<void> {
  const { core, tenant } = client;
  const { runId } = run;
  await removeJobs(run, client);
  await reach(client, async ({ redis }) => {
    // One that was redriven since has left more than is written down.
    await forgetRun({ redis, keys: core.keys }, { runId, tenant, segment: run.segment });
    // A record that had expired leaves what lives longer.
    await forgetLeft(runId, client);
    await redis.zrem(core.keys.asking(tenant), runId);
    await noteErased({ redis, keys: core.keys }, run);
  });
  // Last: a worker that still writes a result sees from now on that the run is erased.
  await eraseResults(core.files.place, { keys: core.keys, reach: core.reach.bind(core) }, { tenant, runId });
}

/** The keys of a run whose record is gone. */
async function forgetLeft(runId: string, { core }: TenantClient): Promise<void> {
  const { journal, events, unpublished, claim, decisions, decided, inbox, relayed, later } = core.keys;
  const own = [journal, events, unpublished, claim, decisions, decided, inbox, relayed, later].map((key) => key(runId));
  await core.reach((redis) => redis.unlink(...own));
}

/**
 * Jobs hold ids; what failed in one may be words of a provider. A worker that has ended a run has its job a moment longer. Throws
 * `concurrent_run` for a job that a worker still has after that.
 */
async function removeJobs(
  { runId, queues, segment = 0 }: PlannedRun,
  client: TenantClient,
  until = performance.now() + releaseMs,
): Promise<void> {
  const { core } = client;
  for (const queue of queues)
    for (let at = 0; at <= segment; at++)
      while (!(await core.reach(() => core.queues.remove(queue, runId, at)))) {
        if (performance.now() > until) throw jobInUse(runId);
        await systemClock.sleep(retryMs, core.closing);
      }
}

function jobInUse(runId: string): RunError {
  const message = `a worker still has a job of run ${runId}: ask again in a minute`;
  return new RunError('concurrent_run', message, { details: { runId } });
}

/** How many entries runs have in the stream of all runs. */
export async function countLifecycle(runs: readonly PlannedRun[], client: TenantClient): Promise<number> {
  let count = 0;
  for await (const ids of lifecycleOf(runs, client)) count += ids.length;
  return count;
}

async function removeLifecycle(runs: readonly PlannedRun[], client: TenantClient): Promise<void> {
  const { core } = client;
  for await (const ids of lifecycleOf(runs, client))
    await core.reach((redis) => redis.xdel(core.keys.lifecycle, ...ids));
}

function lifecycleOf(runs: readonly PlannedRun[], { core }: TenantClient) {
  return lifecycleEntries({ keys: core.keys, reach: core.reach.bind(core) }, runs);
}

/** A run that has just ended releases its thread a moment later. */
async function removeWholeThread(threadId: string, client: TenantClient): Promise<void> {
  const { core, tenant } = client;
  const until = performance.now() + releaseMs;
  for (;;) {
    try {
      await reach(client, ({ redis }) => removeThread(core.threadKeySpace(redis), { tenant, threadId }));
      break;
    } catch (error) {
      if (!(error instanceof RunError)) throw error;
      if (error.code === 'not_found') break;
      if (error.code !== 'concurrent_run' || performance.now() > until) throw error;
      await systemClock.sleep(retryMs, core.closing);
    }
  }
  await reach(client, async ({ redis }) => {
    const member = `${tenant}:${threadId}`;
    await removeConversation({ redis, keys: core.keys, tenant }, threadId);
    // No run is left that could make the thread again.
    await redis.unlink(core.keys.thread(tenant, threadId, 'left'));
    await Promise.all([redis.zrem(core.keys.threadsEntered, member), redis.zrem(core.keys.threadChecks, member)]);
  });
}
