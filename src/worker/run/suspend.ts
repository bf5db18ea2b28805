import { defined } from '../../shared/base/collections.ts';
import { jsonText } from '../../shared/base/json.ts';
import type { PendingItem } from '../../shared/contract/event.ts';
import { pendingViewOf } from '../../shared/contract/decisions.ts';
import type { TurnState } from '../../shared/contract/journal/fold.ts';
import type { JournalEntryOf } from '../../shared/contract/journal/journal.ts';
import type { PlannedRun } from '../tools/tool.ts';
import { loopAskPrefix } from '../turn/loop.ts';
import type { SuspendedWait } from '../turn/turn-ports.ts';
import type { TurnOutcome } from '../turn/turn.ts';
import { openChildren, startPlannedChildren } from './delegate.ts';
import type { RunDeps, OpenRun } from './run-context.ts';
import { type JobOutcome, totalsOf } from './outcome.ts';
import type { Ports } from './ports.ts';

export type Ending<Status extends TurnOutcome['status']> = Extract<TurnOutcome, { status: Status }>;

/** What the end of a segment needs beside its run. */
export interface SettleDeps extends Pick<RunDeps, 'wake'> {
  readonly ports: Pick<Ports, 'clock' | 'redactor' | 'waits' | 'threads' | 'children' | 'ledger'>;
}

/** When a cancelled run checks again whether its children have ended. */
const lookAgainMs = 10_000;

/** Resumes a run whose worker dies after the suspension and before it enters a wait queue. */
const lostInBetweenMs = 60_000;

/** Does the cancel keep open what people were asked? The run then goes on once they have decided. */
export function keepsAsks({ signals }: OpenRun, { asks = [], reason, pending }: SuspendedWait): boolean {
  const isAboutLoop = pending.some(({ id }) => id.startsWith(loopAskPrefix));
  return (
    (asks.length > 0 || reason === 'budget' || isAboutLoop) && signals.cancelRequest?.onPendingApprovals === 'hold'
  );
}

/** Journals what the run waits for and releases it. Only then its children start and it enters a wait queue. */
export async function suspend(run: OpenRun, ending: Ending<'suspended'>, deps: SettleDeps): Promise<JobOutcome> {
  const { wait, state } = ending;
  const { clock, waits, threads } = deps.ports;
  const { runId } = run.record;
  const { reason, resumeAtMs, joinWaitQueue, children = [], events = [], orchestration } = wait;
  const isKept = keepsAsks(run, wait);
  const pending = withinRoom(wait.pending);
  const at = new Date(clock.now()).toISOString();
  const planned = [...children, ...(orchestration?.children ?? [])];
  const safeMs = clock.now() + lostInBetweenMs;
  const isEarly = planned.length > 0 && resumeAtMs !== undefined && resumeAtMs > safeMs;
  if (resumeAtMs ?? joinWaitQueue) await waits.at(runId, isEarly ? safeMs : (resumeAtMs ?? safeMs));
  // The thread first: a reader that sees the run suspended must also see its thread suspended.
  if (run.thread) await threads.suspend(run.thread.lock);
  for (const event of events) run.writer.emit(event);
  const expiresAt = firstExpiry(pending);
  run.writer.emit({ type: 'run.suspended', reason, pending: pending.map(pendingViewOf), expiresAt });
  await run.writer.commit({
    entries: [
      ...(wait.entries ?? []),
      { v: 1, t: 'suspended', seq: state.suspensions + 1, reason, at, ...askedIn(wait), ...orchestrationIn(wait) },
    ],
    patch: defined({ ...totalsOf(state), status: 'suspended', pending, cancel: isKept ? '' : undefined }),
    release: 'suspended',
  });
  const hasCome = await startWaiting({ ...run, state }, wait, planned, deps);
  if (isEarly) await waits.at(runId, resumeAtMs);
  // Another cancel may have come meanwhile.
  const cancelNow = run.signals.cancelRequest;
  if (cancelNow && !(isKept && cancelNow.onPendingApprovals === 'hold')) deps.wake(runId, 'a cancel was asked for');
  else await rest(runId, wait, hasCome, deps);
  return { kind: 'suspended' };
}

/** When the wait for the first of it ends by itself. */
function firstExpiry(pending: readonly PendingItem[]): string | undefined {
  return pending.flatMap(({ expiresAt }) => expiresAt ?? []).toSorted()[0];
}

/** Of all schemas in one record; a step may make many calls. */
const maxSchemasChars = 65_536;

/** What the run waits for, without the schemas for which a record has no room. */
function withinRoom(items: SuspendedWait['pending']): PendingItem[] {
  let room = maxSchemasChars;
  return items.map((item) => {
    const chars = item.argsSchema === undefined ? 0 : jsonText(item.argsSchema).length;
    if (chars > room) return { ...item, argsSchema: undefined };
    room -= chars;
    return item;
  });
}

/** Starts the children of a suspended run. True when what an orchestration waits for came while it was running. */
async function startWaiting(
  run: Parameters<typeof startPlannedChildren>[0],
  { orchestration, joinWaitQueue }: SuspendedWait,
  planned: readonly PlannedRun[],
  { ports }: SettleDeps,
): Promise<boolean> {
  // For an end that came while the run was running: later ones find it suspended, and resume it.
  const hasCome = orchestration !== undefined && (await joinWaitQueue?.()) === true;
  // A child starts only when its parent is suspended: their events would mix in the log.
  if (planned.length > 0) await startPlannedChildren(run, planned, orchestration?.group, ports);
  return hasCome;
}

/** Enters the wait queue, or resumes at once when there is nothing to wait for. */
async function rest(
  runId: string,
  { orchestration, joinWaitQueue, resumeAtMs, recheckMs }: SuspendedWait,
  hasCome: boolean,
  { ports: { waits, clock }, wake }: SettleDeps,
): Promise<void> {
  if (hasCome || (!orchestration && (await joinWaitQueue?.()))) wake(runId, 'what it waited for has come');
  else if (resumeAtMs === undefined && joinWaitQueue) {
    if (recheckMs === undefined) await waits.clear(runId);
    else await waits.at(runId, clock.now() + recheckMs);
  }
}

function askedIn({ asks = [], children = [] }: SuspendedWait): Pick<JournalEntryOf<'suspended'>, 'asks'> {
  if (asks.length + children.length === 0) return {};
  const iso = (ms: number) => new Date(ms).toISOString();
  return {
    asks: [
      ...asks.map(({ requestedAtMs, expiresAtMs, ...ask }) => ({
        ...ask,
        requestedAt: iso(requestedAtMs),
        expiresAt: iso(expiresAtMs),
      })),
      ...children.map(({ id, index, requestedAtMs }) => ({
        id,
        index,
        kind: 'child' as const,
        requestedAt: iso(requestedAtMs),
        expiresAt: iso(requestedAtMs),
      })),
    ],
  };
}

function orchestrationIn({ orchestration }: SuspendedWait): Pick<JournalEntryOf<'suspended'>, 'children' | 'emitted'> {
  return orchestration ? { children: orchestration.children.map(({ id }) => id), emitted: orchestration.emitted } : {};
}

/**
 * A cancelled run ends after its children: only then does it know what they cost. It is suspended until then, with the cancel
 * still in force. Undefined where it has no open child.
 */
export async function stopChildren(run: OpenRun, state: TurnState, deps: SettleDeps): Promise<JobOutcome | undefined> {
  const open = openChildren(state);
  const { cancelRequest } = run.signals;
  if (open.length === 0 || !cancelRequest) return undefined;
  const ended = await deps.ports.children.stop(
    open.map(({ id }) => id),
    cancelRequest,
  );
  const remaining = open.filter(({ id }) => !ended.includes(id));
  if (remaining.length === 0) return undefined;
  const { clock, waits } = deps.ports;
  const { record } = run;
  const now = clock.now();
  const at = new Date(now).toISOString();
  const pending = remaining.map((child) => ({ kind: 'child' as const, ...child, requestedAt: at }));
  await waits.at(record.runId, now + lookAgainMs);
  run.writer.emit({ type: 'run.suspended', reason: 'child', pending: pending.map(pendingViewOf) });
  await run.writer.commit({
    entries: [{ v: 1, t: 'suspended', seq: state.suspensions + 1, reason: 'child', at }],
    patch: { ...totalsOf(state), status: 'suspended', pending, isCancelling: true },
    release: 'suspended',
  });
  if (await waits.hasDecisions(record.runId)) deps.wake(record.runId, 'what it waited for has come');
  return { kind: 'suspended' };
}
