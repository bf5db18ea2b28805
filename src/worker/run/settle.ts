import { pendingViewOf } from '../../shared/contract/decisions.ts';
import { assertNever, RunError, type ErrorInfo } from '../../shared/base/errors.ts';
import type { RunResultBody } from '../../shared/contract/event.ts';
import { newNonce } from '../../shared/base/ids.ts';
import { textOf } from '../../shared/contract/message.ts';
import type { RunUsage } from '../../shared/contract/money.ts';
import { cutText } from '../../shared/base/redact.ts';
import type { RunStatus } from '../../shared/contract/run.ts';
import type { JournalEntryOf } from '../../shared/contract/journal/journal.ts';
import type { RecordPatch } from '../../shared/state/run/run-store.ts';
import type { SuspendedWait } from '../turn/contract.ts';
import type { TurnOutcome } from '../turn/turn.ts';
import type { StepCall } from '../../shared/contract/journal/call.ts';
import { errorResult } from '../tools/tool-error.ts';
import { continueFrom, type TurnState } from '../../shared/contract/journal/fold.ts';
import type { OpenRun } from './open.ts';
import type { JobOutcome } from './outcome.ts';
import { logOutcome } from './run-log.ts';
import { recordTurn, type TurnRecord } from './run-thread.ts';

const maxErrorBytes = 2_048;

/**
 * Writes the end of a segment: the terminal events and the record in one commit, or the release for a hand-over. The events of
 * an end are held back until then: a worker that is lost before must not leave a log that says that its run is over.
 */
export async function settle(run: OpenRun, ending: TurnOutcome): Promise<JobOutcome> {
  try {
    const outcome = await endSegment(run, ending);
    logOutcome(run, ending, outcome);
    return outcome;
  } catch (thrown) {
    run.log.warn({ err: thrown }, 'run was let go without an end');
    throw thrown;
  }
}

async function endSegment(run: OpenRun, ending: TurnOutcome): Promise<JobOutcome> {
  const { signals } = run;
  if (signals.lost) throw new RunError('lock_lost', 'another worker owns this run');
  if (signals.handOver && ending.status !== 'completed') return await handOver(run, ending.state);
  switch (ending.status) {
    case 'completed':
      return await complete(run, ending);
    case 'failed':
      return await fail(run, ending);
    case 'cancelled':
      return await cancelled(run, ending.state, false);
    case 'stopped':
      return ending.reason === 'drain' ? await cancelled(run, ending.state, true) : await handOver(run, ending.state);
    case 'suspended':
      return await suspend(run, ending);
    case 'handed_off':
      throw new RunError('internal', 'a handoff is not the end of a run');
    default:
      return assertNever(ending);
  }
}

async function complete(run: OpenRun, ending: Extract<TurnOutcome, { status: 'completed' }>): Promise<JobOutcome> {
  const status = ending.blocked ? 'blocked' : ending.degraded ? 'degraded' : 'completed';
  // A denial may have ended the run while others still worked for it.
  if (ending.degraded) await dropChildren(run, ending.state);
  const result: RunResultBody = {
    text: ending.text,
    finishReason: ending.finishReason,
    ...(ending.structured !== undefined && { structured: ending.structured, output: ending.structured }),
    ...(ending.output !== undefined && { output: ending.output }),
    ...(ending.media && { media: [...ending.media], output: { text: '', media: ending.media } }),
    ...(ending.emptyResponse && { emptyResponse: true }),
  };
  const end = totals(ending.state);
  const { usage, costMicrocents, steps } = end;
  run.writer.hold({ type: 'usage.recorded', usage, costMicrocents });
  if (!run.record.request.overrides?.background) run.writer.emit({ type: 'agent.response', text: ending.text });
  run.writer.emit({ type: 'agent.end', output: ending.text, status });
  if (run.record.request.node) {
    const { serving } = ending.state;
    const tokensUsed = { input: usage.input, output: usage.output, model: serving?.model ?? '' };
    run.writer.emit({ type: 'node.completed', output: result.output ?? result.text, tokensUsed });
  }
  run.writer.emit({ type: 'run.completed', status, result, usage, costMicrocents, durationMs: durationMs(run), steps });
  await keepTurn(run, { status, state: ending.state, ...unsaid(ending) });
  await close(run, status, { ...end, result });
  return { kind: 'ended', status };
}

async function fail(run: OpenRun, ending: Extract<TurnOutcome, { status: 'failed' }>): Promise<JobOutcome> {
  const { error, partialText } = ending;
  // Infrastructure, not the run: the job layer tries again from the journal.
  if (error.code === 'lock_lost' || error.code === 'queue_unavailable') throw error;
  await dropChildren(run, ending.state);
  const info = errorInfoOf(run, error);
  const end = totals(ending.state);
  const { usage, costMicrocents } = end;
  if (error.code === 'run_timeout') {
    run.writer.hold({ type: 'run.timeout', elapsedMs: run.workedMs(), timeoutMs: run.signals.wallTimeMs });
  }
  run.writer.hold({ type: 'usage.recorded', usage, costMicrocents });
  run.writer.emit({ type: 'agent.error', code: info.code, message: info.message });
  if (run.record.request.node) run.writer.emit({ type: 'node.failed', error: info });
  run.writer.emit({
    type: 'run.failed',
    error: info,
    usage,
    costMicrocents,
    durationMs: durationMs(run),
    ...(partialText && { partial: partialText }),
  });
  await keepTurn(run, {
    status: 'failed',
    state: ending.state,
    closing: `(error: ${info.message})`,
    error: info.code,
  });
  await close(run, 'failed', { ...end, error: info });
  return { kind: 'ended', status: 'failed', error };
}

async function cancelled(
  run: OpenRun,
  state: TurnState,
  drained: boolean,
  undecided: readonly StepCall[] = state.calls.filter(isUndecided),
  awaitsMoney = state.awaitsMoney,
): Promise<JobOutcome> {
  if ((undecided.length > 0 || awaitsMoney) && run.signals.cancelRequest?.onPendingApprovals === 'fail') {
    const error = new RunError('run_aborted', 'aborted while approvals were pending');
    return await fail(run, { status: 'failed', error, engaged: true, partialText: '', state });
  }
  if (undecided.length > 0 && run.signals.cancelRequest?.onPendingApprovals === 'hold')
    return await suspend(run, { status: 'suspended', wait: stillAsked(run, undecided), state });
  const left = await denyAll(run, state, undecided);
  const waiting = await stopChildren(run, left);
  if (waiting) return waiting;
  const reason = run.signals.cancelRequest?.reason;
  const end = totals(left);
  const { usage, costMicrocents } = end;
  run.writer.hold({ type: 'usage.recorded', usage, costMicrocents });
  run.writer.emit({ type: 'agent.end', output: '', status: 'cancelled' });
  const totalled = { usage, costMicrocents, durationMs: durationMs(run) };
  run.writer.emit({ type: 'run.cancelled', drained, ...totalled, ...(reason && { reason }) });
  await keepTurn(run, { status: 'cancelled', state: left, closing: '(stopped by user)' });
  await close(run, 'cancelled', end);
  return { kind: 'ended', status: 'cancelled' };
}

function isUndecided({ ask, decision, status }: StepCall): boolean {
  return ask !== undefined && decision === undefined && status !== 'called';
}

/** What people were asked before, and have not decided. */
function stillAsked({ record }: OpenRun, calls: readonly StepCall[]): SuspendedWait {
  const asks = calls.flatMap(({ ask }) => (ask ? [ask] : []));
  const pending = record.pending.filter(({ id }) => asks.some((ask) => ask.id === id));
  const reason = pending[0]?.kind ?? 'approval';
  return { reason, pending, asks, resumeAtMs: Math.min(...asks.map(({ expiresAtMs }) => expiresAtMs)) };
}

/** Whoever reads the conversation later finds an answer to each of its calls. */
async function denyAll(run: OpenRun, state: TurnState, calls: readonly StepCall[]): Promise<TurnState> {
  if (calls.length === 0) return state;
  const reason = 'the run was cancelled';
  for (const { id: toolCallId, name: toolName } of calls)
    run.writer.emit({ type: 'tool.approval.denied', toolCallId, toolName, reason });
  const entries = calls.map(({ index, id: toolCallId, name: toolName }): JournalEntryOf<'called'> => {
    const { content } = errorResult({ kind: 'approval_denied', message: `it was not approved: ${reason}` }, toolName);
    return { v: 1, t: 'called', step: state.step, index, toolCallId, toolName, content, errorKind: 'approval_denied' };
  });
  const growing = continueFrom(state);
  for (const entry of entries) growing.add(entry);
  await run.writer.commit({ entries });
  return growing.state;
}

/**
 * A cancelled run ends after those that work for it: only then does it know what they cost. It waits for them like for
 * anything else, with the cancel still in force.
 */
async function stopChildren(run: OpenRun, state: TurnState): Promise<JobOutcome | undefined> {
  const open = openChildren(state);
  const { cancelRequest } = run.signals;
  if (open.length === 0 || !cancelRequest) return undefined;
  const gone = await run.children.stop(
    open.map(({ id }) => id),
    cancelRequest,
  );
  const left = open.filter(({ id }) => !gone.includes(id));
  if (left.length === 0) return undefined;
  const { clock, waits, record } = run;
  const now = clock.now();
  const at = new Date(now).toISOString();
  const pending = left.map((child) => ({ kind: 'child' as const, ...child, requestedAt: at }));
  await waits.at(record.runId, now + lookAgainMs);
  run.writer.emit({ type: 'run.suspended', reason: 'child', pending: pending.map(pendingViewOf) });
  await run.writer.commit({
    entries: [{ v: 1, t: 'suspended', seq: state.suspensions + 1, reason: 'child', at }],
    patch: { ...totals(state), status: 'suspended', pending, isCancelling: true },
    release: 'suspended',
  });
  if (await waits.hasDecisions(record.runId)) run.wake('what it waited for has come');
  return { kind: 'suspended' };
}

/** The runs that work for this one, and for which call. */
function openChildren({ calls, program, childEnds }: TurnState): { readonly id: string; readonly toolName?: string }[] {
  const forCalls = calls.flatMap(({ name: toolName, child, status }) =>
    child && !child.end && status !== 'called' ? [{ id: child.id, toolName }] : [],
  );
  return [...forCalls, ...[...program.children.keys()].filter((id) => !childEnds.has(id)).map((id) => ({ id }))];
}

/** Whoever still works for the run has no more reason to. */
async function dropChildren({ children }: OpenRun, state: TurnState): Promise<void> {
  const open = openChildren(state).map(({ id }) => id);
  if (open.length > 0) await children.stop(open, { drain: false, onPendingApprovals: 'deny', reason: nobodyWaits });
}

const nobodyWaits = 'the run that it worked for has ended';

/** Whoever works for a cancelled run has a worker that ends it, or none: then the next one does, when the lock is over. */
const lookAgainMs = 10_000;

/** Wakes a run whose worker dies after the suspension and before it stands in line. */
const lostInBetweenMs = 60_000;

async function suspend(
  run: OpenRun,
  { wait, state }: Extract<TurnOutcome, { status: 'suspended' }>,
): Promise<JobOutcome> {
  const { clock, waits, record } = run;
  const { reason, resumeAtMs, recheckMs, standInLine, asks = [], children = [], events = [], program } = wait;
  const { cancelRequest } = run.signals;
  // What people were asked stays open: the run goes on as if nobody had cancelled it once they have decided.
  const held = (asks.length > 0 || reason === 'budget') && cancelRequest?.onPendingApprovals === 'hold';
  if (cancelRequest && !held) {
    for (const event of events) run.writer.emit(event);
    const undecided = state.calls.filter(({ index }) => asks.some((ask) => ask.index === index));
    return await cancelled(run, state, true, undecided, reason === 'budget');
  }
  const pending = [...wait.pending];
  const at = new Date(clock.now()).toISOString();
  const planned = [...children, ...(program?.children ?? [])];
  const safeMs = clock.now() + lostInBetweenMs;
  const isEarly = planned.length > 0 && resumeAtMs !== undefined && resumeAtMs > safeMs;
  if (resumeAtMs ?? standInLine) await waits.at(record.runId, isEarly ? safeMs : (resumeAtMs ?? safeMs));
  // Who sees that the run is suspended finds its thread so, too.
  if (run.thread) await run.threads.suspend(run.thread.hold);
  for (const event of events) run.writer.emit(event);
  run.writer.emit({ type: 'run.suspended', reason, pending: pending.map(pendingViewOf) });
  await run.writer.commit({
    entries: [{ v: 1, t: 'suspended', seq: state.suspensions + 1, reason, at, ...askedIn(wait), ...programIn(wait) }],
    patch: { ...totals(state), status: 'suspended', pending, ...(held && { cancel: '' as const }) },
    release: 'suspended',
  });
  // An end that came while the run was at work; those to come find it suspended.
  const hasCome = program !== undefined && (await standInLine?.()) === true;
  // Nobody works for a run that is not suspended: their events would meet its own.
  if (planned.length > 0) await run.children.start(planned, program?.group);
  if (isEarly) await waits.at(record.runId, resumeAtMs);
  // One that came meanwhile may be another one.
  const cancelNow = run.signals.cancelRequest;
  if (cancelNow && !(held && cancelNow.onPendingApprovals === 'hold')) run.wake('a cancel was asked for');
  else if (hasCome || (!program && (await standInLine?.()))) run.wake('what it waited for has come');
  else if (resumeAtMs === undefined && standInLine) {
    if (recheckMs === undefined) await waits.clear(record.runId);
    else await waits.at(record.runId, clock.now() + recheckMs);
  }
  return { kind: 'suspended' };
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

function programIn({ program }: SuspendedWait): Pick<JournalEntryOf<'suspended'>, 'children' | 'told'> {
  return program ? { children: program.children.map(({ id }) => id), told: program.told } : {};
}

async function handOver(run: OpenRun, state: TurnState): Promise<JobOutcome> {
  await run.writer.commit({ patch: totals(state), release: 'handed_over' });
  return { kind: 'handed_over' };
}

/** The answer, where no message of the turn is it: it is empty, stands in for one, or many have made it. */
function unsaid({
  text,
  media,
  emptyResponse,
  state,
}: Extract<TurnOutcome, { status: 'completed' }>): Pick<TurnRecord, 'closing' | 'emptyResponse'> {
  const last = state.own.at(-1);
  const isSaid = last?.role === 'assistant' && text !== '' && textOf(last) === text;
  if (isSaid || media) return {};
  return { closing: text, ...(emptyResponse && { emptyResponse }) };
}

/** Into the thread of the run, if it has one. */
async function keepTurn(run: OpenRun, end: Omit<TurnRecord, 'durationMs'>): Promise<void> {
  if (!run.thread) return;
  await recordTurn(run.thread, { ...end, durationMs: durationMs(run) }, run);
}

async function close(run: OpenRun, status: RunStatus, patch: RecordPatch): Promise<void> {
  await run.writer.commit({
    entries: [{ v: 1, t: 'closed', status, ...(patch.error && { error: patch.error }) }],
    patch: { ...patch, status, pending: [], endedAt: new Date(run.clock.now()).toISOString() },
    release: 'terminal',
    // All of it is in the thread. A run that failed may be driven again, and goes on from its journal.
    ...(run.thread && status === 'completed' && { dropsJournal: true as const }),
  });
}

function totals(state: TurnState): {
  usage: RunUsage;
  costMicrocents: number;
  steps: number;
  attempts: TurnState['attempts'];
  toolCalls: number;
  childCostMicrocents?: number;
} {
  const { usage, costMicrocents, step: steps, attempts, counters } = state;
  return { usage, costMicrocents, steps, attempts, toolCalls: counters.toolCalls, ...childCosts(state) };
}

function childCosts({ childEnds }: TurnState): { childCostMicrocents?: number } {
  if (childEnds.size === 0) return {};
  let sum = 0;
  for (const { costMicrocents } of childEnds.values()) sum += costMicrocents;
  return { childCostMicrocents: sum };
}

function durationMs(run: OpenRun): number {
  return run.record.startedAt ? Math.max(0, Math.round(run.clock.now() - Date.parse(run.record.startedAt))) : 0;
}

/** Safe to show: scrubbed, bounded, and joined to the log line by its correlation id. */
export function errorInfoOf(run: OpenRun, error: RunError): ErrorInfo {
  const correlationId = newNonce();
  run.log.warn({ correlationId, code: error.code, err: error }, 'run failed');
  return {
    code: error.code,
    message: cutText(run.redactor.text(error.message), maxErrorBytes),
    retryable: error.retryable,
    correlationId,
    ...(run.record.request.node && { nodeId: run.record.request.node.id }),
    ...(error.details !== undefined && { details: run.redactor.value(error.details) }),
  };
}
