import { canonicalJson } from '../../shared/base/json.ts';
import { queueOf, type NewRun } from '../../shared/state/run/create-runs.ts';
import { deadlineOf } from '../../shared/contract/deadline.ts';
import { quarantineQueue } from '../../shared/contract/queues.ts';
import { newNonce, runIdForChild, sha256 } from '../../shared/base/ids.ts';
import { lineage, runRequest, workOf, type RunRecord } from '../../shared/contract/run.ts';
import { stampOf } from '../../shared/state/script.ts';
import type { PlannedRun } from '../tools/tool.ts';
import type { WaitingGroup } from '../turn/turn-ports.ts';
import { watchFor } from './leak-watch.ts';
import type { OpenRun } from './run-context.ts';
import type { Ports } from './ports.ts';
import type { TurnState } from '../../shared/contract/journal/fold.ts';
import type { Accounts } from '../../shared/state/money/accounts.ts';

/** The parent of the runs to start. */
type ParentRun = Pick<OpenRun, 'record' | 'accounts' | 'state' | 'assignment'>;

/** How many parents and handoffs came before this agent. */
export function depthOf({ parent }: Pick<RunRecord, 'parent'>, { handoffs }: Pick<TurnState, 'handoffs'>): number {
  return (parent?.depth ?? 0) + handoffs.length;
}

/** The id of the child for one call of a run: the same on every worker. */
export function childIdFor(runId: string, step: number, index: number): string {
  return runIdForChild(runId, `s${step}:t${index}`);
}

/** A child of a run: it pays from the same accounts, and its events are published to the parents. */
function childRunOf(
  { record, accounts, state, assignment }: ParentRun,
  nowMs: number,
  { id, spec }: PlannedRun,
): NewRun {
  const { tenant, requestId, request: own, parent } = record;
  const stamp = stampOf(record);
  const batch = own.batch ?? parent?.batch;
  const deadlineMs = deadlineOf(record);
  const secrets = secretsOf(spec.secrets, parent?.secrets);
  const request = runRequest.parse({
    agent: spec.agentId,
    input: spec.input,
    sessionId: own.sessionId,
    metadata: own.metadata,
    deadlineMs: deadlineMs === undefined ? undefined : Math.max(1, deadlineMs - nowMs),
    overrides: own.overrides?.background ? { background: true } : undefined,
  });
  return {
    runId: id,
    tenant,
    kind: workOf(own).kind === 'fanOut' ? 'fanout.child' : 'agent.turn',
    queue: record.queue === quarantineQueue ? queueOf(own) : record.queue,
    request,
    requestId,
    parent: lineage.parse({
      runId: record.runId,
      depth: depthOf(record, state) + 1,
      expose: spec.expose,
      ancestors: spec.expose === 'none' ? [] : [stamp, ...(parent?.ancestors ?? [])],
      payers: [...payerOf(accounts), ...(parent?.payers ?? [])],
      batch,
      secrets,
      history: spec.history,
      flow: spec.flow,
      maxWorkMs: spec.maxWorkMs,
      leaks: watchFor(record, assignment.agent?.definition, state),
    }),
    bodyHash: sha256(canonicalJson({ agent: spec.agentId, input: spec.input })),
    nonce: newNonce(),
  };
}

/** A child gets no secret that its parent does not have. */
function secretsOf(given: readonly string[] | undefined, own: readonly string[] | undefined): string[] | undefined {
  if (!given) return own && [...own];
  return own ? given.filter((name) => own.includes(name)) : [...given];
}

/** The cap of the parent applies to the child, too. */
function payerOf({ runId, run }: Accounts) {
  return run ? [{ runId, capMicrocents: run.capMicrocents, onExceed: run.onExceed }] : [];
}

/** Creates and queues children of a run that is suspended. */
export async function startPlannedChildren(
  run: ParentRun,
  planned: readonly PlannedRun[],
  group: WaitingGroup | undefined,
  { children, clock }: Pick<Ports, 'children' | 'clock'>,
): Promise<void> {
  const nowMs = clock.now();
  const runOf = (child: PlannedRun) => childRunOf(run, nowMs, child);
  const { segment } = run.record;
  const waits = group && { segment, first: group.first, later: group.later.map(runOf) };
  await children.start(planned.map(runOf), waits);
}

/** The children of a run that have not ended, each with the tool that asked for it. */
export function openChildren(state: TurnState): { readonly id: string; readonly toolName?: string }[] {
  const { calls, orchestration, childEnds, closing } = state;
  const forCalls = calls.flatMap(({ name: toolName, child, status }) =>
    child && !child.end && status !== 'tool_result' ? [{ id: child.id, toolName }] : [],
  );
  const others = [...orchestration.children.keys(), ...(closing?.left ?? [])];
  return [...forCalls, ...others.filter((id) => !childEnds.has(id)).map((id) => ({ id }))];
}

/** Stops the children of a run that ends before them. */
export async function dropChildren(state: TurnState, { children }: Pick<Ports, 'children'>): Promise<void> {
  const open = openChildren(state).map(({ id }) => id);
  if (open.length > 0) await children.stop(open, { drain: false, onPendingApprovals: 'deny', reason: parentEnded });
}

const parentEnded = 'the run that it worked for has ended';
