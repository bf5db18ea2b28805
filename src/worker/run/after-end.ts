import { isTerminalStatus, type RunRecord } from '../../shared/contract/run.ts';
import { queueFollowUps } from './follow-ups.ts';
import type { RunDeps } from './open-run.ts';

/**
 * Tells whom others wait for: the run above, and the next one of the thread. Takes the record as it is after the end; nothing follows
 * for a run that was driven again since. Again changes nothing.
 */
export async function afterEnd(
  record: RunRecord | undefined,
  { ports, dispatchEffects }: Pick<RunDeps, 'ports' | 'dispatchEffects'>,
): Promise<void> {
  if (!record || !isTerminalStatus(record.status)) return;
  const { runId, tenant, parent, request, status } = record;
  if (parent) await ports.children.ended(runId);
  if (request.thread === undefined) return;
  await queueFollowUps(record, ports);
  if (status === 'completed' || status === 'degraded') await dispatchEffects?.(record);
  await ports.threads.passOn(tenant, request.thread, record);
}
