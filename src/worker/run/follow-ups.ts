import { canonicalJson } from '../../shared/base/canonical-json.ts';
import type { NewRun } from '../../shared/state/run/create-runs.ts';
import { newNonce, sha256 } from '../../shared/base/ids.ts';
import { runRequest, type RunRecord } from '../../shared/contract/run.ts';
import { followUpId } from '../../shared/state/run/control/inbox.ts';
import type { Ports } from './ports.ts';

/**
 * What was said to a run of a thread too late for it to hear becomes the next messages of the thread, as if it had been sent
 * with nobody at work. What it has heard is in its record, as it is after its end. Again changes nothing: each has a run id
 * of its own.
 */
export async function queueFollowUps(
  record: RunRecord,
  ports: Pick<Ports, 'inbox' | 'children' | 'threads'>,
): Promise<void> {
  const { runId, tenant, request, queue, heard = [] } = record;
  const said = await ports.inbox.heard(runId);
  if (said.length === 0) return;
  const { agent, thread = '', sessionId, budget, limits, metadata } = request;
  const followUps = said
    .filter(({ id }) => !heard.includes(id))
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
    said.map(({ id }) => id),
  );
}
