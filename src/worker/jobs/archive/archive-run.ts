import { defined } from '../../../shared/base/collections.ts';
import { runId as runIdSchema } from '../../../shared/base/ids.ts';
import { isRecord, jsonOr } from '../../../shared/base/json.ts';
import type { Redactor } from '../../../shared/base/redact.ts';
import { agentView, isArchived } from '../../../shared/contract/agent/agent.ts';
import type { ChildView } from '../../../shared/contract/archive/run-steps.ts';
import { legibleRecord } from '../../../shared/contract/run-record.ts';
import { runStatus, type RunRecord } from '../../../shared/contract/run.ts';
import type { ArchiveStore } from '../../../shared/state/archive/archive.ts';
import { noteArchived } from '../../../shared/state/archive/due-runs.ts';
import { type EndedRun, readChildren, readEnded } from '../../../shared/state/archive/ended-run.ts';
import type { RunKeySpace } from '../../../shared/state/script.ts';
import type { LoadedAgent } from '../../agents/loaded-agent.ts';
import { archivedJson } from './archived-json.ts';
import { readEarlier } from './earlier-events.ts';

export interface ArchiveRunDeps {
  readonly space: RunKeySpace;
  readonly archive: Pick<ArchiveStore, 'read' | 'write' | 'dropErased'>;
  readonly agents: ReadonlyMap<string, LoadedAgent>;
  readonly redactor: Redactor;
}

/**
 * - written: it is in the archive, with so many bytes
 * - skipped: its agent is not archived, it was erased, or there is no room for it
 * - gone: there is nothing to write, or nothing yet, because it was redriven
 */
export type ArchivedAs = { readonly kind: 'written'; readonly bytes: number } | { readonly kind: 'skipped' | 'gone' };

/** Writes an ended run into the archive; again does no harm. Then what it leaves in Redis goes at its time. */
export async function archiveRun(runId: string, deps: ArchiveRunDeps): Promise<ArchivedAs> {
  const { space, archive, redactor } = deps;
  const found = await readEnded(space, runId);
  if (!found) await archive.dropErased(runId);
  const endedAt = found?.hash['endedAt'];
  if (!found || !endedAt || found.hash['unarchived'] === undefined) return { kind: 'gone' };
  const record = legibleRecord(found.hash);
  if (!(await isWanted(record, found, deps))) {
    await noteArchived(space, runId, endedAt);
    return { kind: 'skipped' };
  }
  const [children, earlier] = await Promise.all([childrenOf(found, space), readEarlier(found, archive)]);
  const facts = { runId, tenant: record.tenant, createdAt: record.createdAt, endedAt };
  const bytes = await archive.write(facts, archivedJson({ ...found, record, children, earlier }, redactor));
  await noteArchived(space, runId, endedAt);
  return bytes === 0 ? { kind: 'skipped' } : { kind: 'written', bytes };
}

/** Is every agent that had a part in it archived? Agents that this worker does not have are as others announce them. */
async function isWanted(
  { request }: RunRecord,
  { journal }: EndedRun,
  { agents, space }: ArchiveRunDeps,
): Promise<boolean> {
  const others = entriesOf(journal, 'handed_off').map(({ to }) => String(to));
  for (const id of [request.agent, ...others]) {
    const own = agents.get(id)?.definition;
    if (own ? !isArchived(own) : await isLeftOut(id, space)) return false;
  }
  return true;
}

async function isLeftOut(agentId: string, { redis, keys }: RunKeySpace): Promise<boolean> {
  const announced = agentView.safeParse(jsonOr((await redis.hget(keys.agents, agentId)) ?? 'null'));
  return announced.data?.archive === false;
}

async function childrenOf({ runId, journal }: EndedRun, space: RunKeySpace): Promise<readonly ChildView[]> {
  const ids = new Set(entriesOf(journal, 'suspended').flatMap(childIds).filter(isRunId));
  if (ids.size === 0) return [];
  const found = await readChildren(space, runId, [...ids]);
  return [...ids].map((id) => childView(id, found.get(id)));
}

function childIds({ asks, children }: Record<string, unknown>): readonly unknown[] {
  const asked: readonly unknown[] = Array.isArray(asks) ? asks : [];
  const ofCalls = asked.flatMap((ask) => (isRecord(ask) && ask['kind'] === 'child' ? [ask['id']] : []));
  return Array.isArray(children) ? [...ofCalls, ...children] : ofCalls;
}

function isRunId(id: unknown): id is string {
  return runIdSchema.safeParse(id).success;
}

function childView(runId: string, fields: Readonly<Record<string, string>> = {}): ChildView {
  const { agent, status, startedAt, endedAt, costMicrocents } = fields;
  const cost = costMicrocents === undefined ? undefined : Number(costMicrocents);
  return defined({ runId, agent, status: runStatus.safeParse(status).data, startedAt, endedAt, costMicrocents: cost });
}

/** The entries of one kind; the others are not parsed. */
function entriesOf(journal: readonly string[], kind: string): Record<string, unknown>[] {
  const mark = `"t":"${kind}"`;
  return journal.flatMap((text) => {
    const entry = text.includes(mark) ? jsonOr(text) : undefined;
    return isRecord(entry) && entry['t'] === kind ? [entry] : [];
  });
}
