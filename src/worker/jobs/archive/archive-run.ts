import { setImmediate as turn } from 'node:timers/promises';
import { defined, settledValue } from '../../../shared/base/collections.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { runId as runIdSchema } from '../../../shared/base/ids.ts';
import { isRecord, jsonOr } from '../../../shared/base/json.ts';
import type { Redactor } from '../../../shared/base/redact.ts';
import { agentView, archiveTtlOf } from '../../../shared/contract/agent/agent.ts';
import { archivedText } from '../../../shared/contract/archive/archived-run.ts';
import type { ChildView } from '../../../shared/contract/archive/run-steps.ts';
import { legibleRequest } from '../../../shared/contract/run-record.ts';
import { runRecordVersion, runStatus } from '../../../shared/contract/run.ts';
import type { Tenants } from '../../../shared/contract/tenants.ts';
import type { ArchiveStore, WrittenRun } from '../../../shared/state/archive/archive.ts';
import { noteArchived, type SettledRun } from '../../../shared/state/archive/due-runs.ts';
import { type EndedRun, readChildren, readEnded } from '../../../shared/state/archive/ended-run.ts';
import type { RunKeySpace } from '../../../shared/state/script.ts';
import type { LoadedAgent } from '../../agents/loaded-agent.ts';
import { archivedLines, changedLabels } from './archived-lines.ts';
import { readEarlier } from './earlier-events.ts';

export interface ArchiveRunDeps {
  readonly space: RunKeySpace;
  readonly archive: Pick<ArchiveStore, 'read' | 'write' | 'dropErased' | 'ttlS'>;
  readonly tenants: Tenants;
  readonly agents: ReadonlyMap<string, LoadedAgent>;
  readonly redactor: Redactor;
}

/**
 * - written: it is in the archive, with so many bytes
 * - skipped: its agent is not archived, it was erased, or there is no room for it
 * - gone: there is nothing to write, or nothing yet, because it was redriven
 */
export type ArchivedAs = { readonly kind: 'written'; readonly bytes: number } | { readonly kind: 'skipped' | 'gone' };

/** Of these a millisecond or two is taken at once. */
const draftsAtOnce = 8;

/**
 * Writes ended runs into the archive; again does no harm. Then what they leave in Redis goes at its time. One that fails is rejected
 * alone. Throws `queue_unavailable` where none can be read or written.
 */
export async function archiveEnded(
  runIds: readonly string[],
  deps: ArchiveRunDeps,
): Promise<readonly PromiseSettledResult<ArchivedAs>[]> {
  const { space, archive } = deps;
  const found = await readEnded(space, runIds);
  const missing = runIds.filter((_, i) => found[i]?.status === 'fulfilled' && !found[i].value);
  if (missing.length > 0) await archive.dropErased(missing);
  const drafts: PromiseSettledResult<Draft | undefined>[] = [];
  for (let from = 0; from < found.length; from += draftsAtOnce) {
    const some = found.slice(from, from + draftsAtOnce);
    drafts.push(...(await Promise.allSettled(some.map(async (run) => await draftOf(settledValue(run), deps)))));
    // Whatever else this process does goes first.
    await turn();
  }
  const ended = drafts.flatMap((draft) => (draft.status === 'fulfilled' && draft.value) || []);
  const wanted = ended.flatMap(({ written }) => written ?? []);
  const results = await archive.write(wanted);
  const resultOf = new Map(wanted.map(({ runId }, i) => [runId, results[i]] as const));
  const settled = ended.filter(({ runId }) => resultOf.get(runId)?.status !== 'rejected');
  const noted = await noteArchived(space, settled);
  const notedOf = new Map(settled.map(({ runId }, i) => [runId, noted[i]] as const));
  return runIds.map((runId, i): PromiseSettledResult<ArchivedAs> => {
    const failures = [drafts[i], resultOf.get(runId), notedOf.get(runId)];
    const failure = failures.find((result) => result?.status === 'rejected');
    if (failure) return failure;
    if (!notedOf.has(runId)) return { status: 'fulfilled', value: { kind: 'gone' } };
    const written = resultOf.get(runId);
    const bytes = written?.status === 'fulfilled' ? written.value : 0;
    return { status: 'fulfilled', value: bytes === 0 ? { kind: 'skipped' } : { kind: 'written', bytes } };
  });
}

interface Draft extends SettledRun {
  /** Undefined: it is not to be in the archive. */
  readonly written: WrittenRun | undefined;
}

/** Undefined: there is nothing to write now. */
async function draftOf(found: EndedRun | undefined, deps: ArchiveRunDeps): Promise<Draft | undefined> {
  if (!found) return undefined;
  const { runId, facts } = found;
  const { v, tenant, createdAt, endedAt, definition, unarchived } = facts;
  if (!tenant || !createdAt || !endedAt || unarchived === undefined) return undefined;
  if (v !== String(runRecordVersion))
    throw new RunError('run_state_version_unsupported', `the record of run ${runId} has version ${v}`);
  const ttlS = await ttlOf(found, deps);
  if (ttlS === 0) return { runId, endedAt, written: undefined };
  const [children, earlier] = await Promise.all([childrenOf(found, deps.space), readEarlier(found, deps.archive)]);
  const { lines, isCut } = archivedLines(found, deps.redactor);
  const firstTokens = { ...earlier?.firstTokens, ...found.firstTokens };
  const truncated = isCut || earlier?.isCut ? (true as const) : undefined;
  const about = {
    runId,
    tenant,
    definition,
    children,
    firstTokens,
    truncated,
    changedLabels: changedLabels(found, lines),
  };
  const text = archivedText(about, lines + (earlier?.lines ?? ''));
  return { runId, endedAt, written: { runId, createdAt, endedAt, ttlS, text } };
}

/**
 * Seconds for which the archive keeps it: the shortest time of its tenant and of every agent that had a part in it, 0 for not at all.
 * Agents that this worker does not have are as others announce them.
 */
async function ttlOf(
  { facts, journal }: EndedRun,
  { archive, tenants, agents, space }: ArchiveRunDeps,
): Promise<number> {
  const others = entriesOf(journal, 'handed_off').map(({ to }) => String(to));
  const times = [facts.agent || legibleRequest(facts).agent, ...others].map(async (id) => {
    const own = agents.get(id)?.definition;
    return own ? archiveTtlOf(own) : await announcedTtl(id, space);
  });
  const { archiveTtlS = archive.ttlS } = tenants.of(facts.tenant ?? '');
  return Math.min(archive.ttlS, archiveTtlS, ...(await Promise.all(times)));
}

async function announcedTtl(agentId: string, { redis, keys }: RunKeySpace): Promise<number> {
  const { data } = agentView.safeParse(jsonOr((await redis.hget(keys.agents, agentId)) ?? 'null'));
  return data?.archive === false ? 0 : (data?.archiveTtlS ?? Number.POSITIVE_INFINITY);
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

/** The entries of a journal of one kind; the others are not parsed. */
function entriesOf(journal: readonly string[], kind: string): Record<string, unknown>[] {
  const mark = `"t":"${kind}"`;
  return journal.flatMap((text) => {
    const entry = text.includes(mark) && jsonOr(text);
    return isRecord(entry) && entry['t'] === kind ? [entry] : [];
  });
}
