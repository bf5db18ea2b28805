import { defined } from '../../shared/base/defined.ts';
import { pendingViewOf } from '../../shared/contract/decisions.ts';
import type { TurnState } from '../../shared/contract/journal/fold.ts';
import type { JournalEntryOf } from '../../shared/contract/journal/journal.ts';
import type { PlannedRun } from '../tools/call.ts';
import type { SuspendedWait } from '../turn/contract.ts';
import type { TurnOutcome } from '../turn/turn.ts';
import { openChildren, startPlannedChildren } from './delegate.ts';
import type { RunDeps, OpenRun } from './open-run.ts';
import type { JobOutcome } from './outcome.ts';
import type { Ports } from './ports.ts';
import { totalsOf } from './totals.ts';

/** What the end of a segment needs beside its run. */
export interface SettleDeps extends Pick<RunDeps, 'wake'> {
  readonly ports: Pick<Ports, 'clock' | 'redactor' | 'waits' | 'threads' | 'children'>;
}

/** The child of a cancelled run has a worker that ends it, or lost it: then the next one does, once the lock is over. */
const lookAgainMs = 10_000;

/** Resumes a run whose worker dies after the suspension and before it enters a wait queue. */
const lostInBetweenMs = 60_000;

/** What people were asked stays open: the run goes on as if it had not been cancelled once they have decided. */
export function isHeld({ signals }: OpenRun, { asks = [], reason }: SuspendedWait): boolean {
  return (asks.length > 0 || reason === 'budget') && signals.cancelRequest?.onPendingApprovals === 'hold';
}

/** Journals what the run waits for and releases it. What it waits for begins only then. */
export async function suspend(
  run: OpenRun,
  { wait, state }: Extract<TurnOutcome, { status: 'suspended' }>,
  deps: SettleDeps,
): Promise<JobOutcome> {
  const { clock, waits, threads } = deps.ports;
  const { runId } = run.record;
  const { reason, resumeAtMs, joinWaitQueue, children = [], events = [], orchestration } = wait;
  const held = isHeld(run, wait);
  const pending = [...wait.pending];
  const at = new Date(clock.now()).toISOString();
  const planned = [...children, ...(orchestration?.children ?? [])];
  const safeMs = clock.now() + lostInBetweenMs;
  const isEarly = planned.length > 0 && resumeAtMs !== undefined && resumeAtMs > safeMs;
  if (resumeAtMs ?? joinWaitQueue) await waits.at(runId, isEarly ? safeMs : (resumeAtMs ?? safeMs));
  // The thread first: a reader that sees the run suspended must also see its thread suspended.
  if (run.thread) await threads.suspend(run.thread.hold);
  for (const event of events) run.writer.emit(event);
  run.writer.emit({ type: 'run.suspended', reason, pending: pending.map(pendingViewOf) });
  await run.writer.commit({
    entries: [
      { v: 1, t: 'suspended', seq: state.suspensions + 1, reason, at, ...askedIn(wait), ...orchestrationIn(wait) },
    ],
    patch: defined({ ...totalsOf(state), status: 'suspended', pending, cancel: held ? '' : undefined }),
    release: 'suspended',
  });
  const hasCome = await begin(run, wait, planned, deps);
  if (isEarly) await waits.at(runId, resumeAtMs);
  // One that came meanwhile may be another one.
  const cancelNow = run.signals.cancelRequest;
  if (cancelNow && !(held && cancelNow.onPendingApprovals === 'hold')) deps.wake(runId, 'a cancel was asked for');
  else await rest(runId, wait, hasCome, deps);
  return { kind: 'suspended' };
}

/** Starts the children of a suspended run. True when what a program waits for has come while it was running. */
async function begin(
  run: OpenRun,
  { orchestration, joinWaitQueue }: SuspendedWait,
  planned: readonly PlannedRun[],
  { ports }: SettleDeps,
): Promise<boolean> {
  // An end that came while the run was at work; those to come find it suspended.
  const hasCome = orchestration !== undefined && (await joinWaitQueue?.()) === true;
  // A child begins only when its parent is suspended: their events would meet in the log.
  if (planned.length > 0) await startPlannedChildren(run, planned, orchestration?.group, ports);
  return hasCome;
}

/** Enters the wait queue, or goes on at once when there is no need to. */
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
 * still in force. Undefined where it has none.
 */
export async function stopChildren(
  run: OpenRun,
  state: TurnState,
  { ports, wake }: SettleDeps,
): Promise<JobOutcome | undefined> {
  const open = openChildren(state);
  const { cancelRequest } = run.signals;
  if (open.length === 0 || !cancelRequest) return undefined;
  const gone = await ports.children.stop(
    open.map(({ id }) => id),
    cancelRequest,
  );
  const left = open.filter(({ id }) => !gone.includes(id));
  if (left.length === 0) return undefined;
  const { clock, waits } = ports;
  const { record } = run;
  const now = clock.now();
  const at = new Date(now).toISOString();
  const pending = left.map((child) => ({ kind: 'child' as const, ...child, requestedAt: at }));
  await waits.at(record.runId, now + lookAgainMs);
  run.writer.emit({ type: 'run.suspended', reason: 'child', pending: pending.map(pendingViewOf) });
  await run.writer.commit({
    entries: [{ v: 1, t: 'suspended', seq: state.suspensions + 1, reason: 'child', at }],
    patch: { ...totalsOf(state), status: 'suspended', pending, isCancelling: true },
    release: 'suspended',
  });
  if (await waits.hasDecisions(record.runId)) wake(record.runId, 'what it waited for has come');
  return { kind: 'suspended' };
}
