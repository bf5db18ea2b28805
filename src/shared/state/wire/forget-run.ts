import { RunError } from '../../base/errors.ts';
import type { KeySpace } from '../keys.ts';
import { loadScript, runScript } from '../script.ts';

const script = loadScript(import.meta.url, './forget-run.lua');

/**
 * Removes the record, the journal and the events of an ended run before their time. Its costs, its files and what a thread has of it
 * stay. Throws `concurrent_run` for one that has not ended, or not in this segment: it was redriven since.
 */
export async function forgetRun(
  { redis, keys }: KeySpace,
  {
    runId,
    tenant,
    segment,
  }: { readonly runId: string; readonly tenant: string; readonly segment?: number | undefined },
): Promise<void> {
  const { run, journal, events, claim, decisions, decided, inbox, relayed, later } = keys;
  const own = [run, journal, events, claim, decisions, decided, inbox, relayed, later].map((key) => key(runId));
  const reply = await runScript(redis, script, own, [segment ?? ''], { doing: `removal of run ${runId}` });
  if (reply === 1)
    throw new RunError('concurrent_run', `run ${runId} has not ended: cancel it first`, { details: { runId } });
  await redis.zrem(keys.index(tenant), runId);
}
