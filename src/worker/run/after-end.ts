import { canonicalJson } from '../../shared/base/json.ts';
import type { NewRun } from '../../shared/state/run/create-runs.ts';
import { newNonce, sha256 } from '../../shared/base/ids.ts';
import { followUpId } from '../../shared/state/run/control/inbox.ts';
import type { Ports } from './ports.ts';
import { isTerminalStatus, runRequest, type RunRecord } from '../../shared/contract/run.ts';
import type { RunDeps } from './open-run.ts';

/**
 * Continues what waited for the end of a run: its parent, and the next run of its thread. Takes the record as it is after the
 * end; does nothing for a run that was redriven since. Idempotent.
 */
export async function afterEnd(
  record: RunRecord | undefined,
  { ports, queuePostRunJobs }: Pick<RunDeps, 'ports' | 'queuePostRunJobs'>,
): Promise<void> {
  if (!record || !isTerminalStatus(record.status)) return;
  const { runId, tenant, parent, request, status } = record;
  if (parent) await ports.children.ended(runId);
  if (request.thread === undefined) return;
  await queueFollowUps(record, ports);
  if (status === 'completed' || status === 'degraded') await queuePostRunJobs?.(record);
  await ports.threads.releaseToNext(tenant, request.thread, record);
}

/**
 * Inbox messages that a run of a thread ended too early to read become the next messages of the thread. Idempotent: each
 * follow-up run has an id of its own.
 */
async function queueFollowUps(record: RunRecord, ports: Pick<Ports, 'inbox' | 'children' | 'threads'>): Promise<void> {
  const { runId, tenant, request, queue, inboxRead = [] } = record;
  const messages = await ports.inbox.read(runId);
  if (messages.length === 0) return;
  const { agent, thread = '', sessionId, budget, limits, metadata } = request;
  const followUps = messages
    .filter(({ id }) => !inboxRead.includes(id))
    .map(({ id, text }): NewRun => {
      const asked = runRequest.parse({ agent, input: text, thread, sessionId, budget, limits, metadata });
      const next = followUpId(runId, id);
      const bodyHash = sha256(canonicalJson({ agent, text }));
      return { runId: next, tenant, kind: 'agent.turn', queue, request: asked, bodyHash, nonce: newNonce() };
    });
  for (const next of followUps)
    await ports.threads.enter({ tenant, threadId: thread, runId: next.runId, agentId: agent });
  await ports.children.start(followUps);
  await ports.inbox.drop(
    runId,
    messages.map(({ id }) => id),
  );
}
