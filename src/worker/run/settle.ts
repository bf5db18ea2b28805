import { defined } from '../../shared/base/collections.ts';
import { assertNever, RunError, type ErrorInfo } from '../../shared/base/errors.ts';
import type { EventBody, RunResultBody } from '../../shared/contract/event.ts';
import { newNonce } from '../../shared/base/ids.ts';
import { jsonText } from '../../shared/base/json.ts';
import { clean } from '../../shared/contract/flow-label.ts';
import { textOf, type FlowLabel } from '../../shared/contract/message.ts';
import { cutText, type Redactor } from '../../shared/base/redact.ts';
import { workOf } from '../../shared/contract/run.ts';
import { journalVersion, type JournalEntry, type JournalEntryOf } from '../../shared/contract/journal/journal.ts';
import type { RecordPatch } from '../../shared/state/run/commit.ts';
import type { SuspendedWait } from '../turn/turn-ports.ts';
import type { TurnOutcome } from '../turn/turn.ts';
import type { StepCall } from '../../shared/contract/journal/turn-state.ts';
import { labelsOfRun, readBy } from '../guards/flow/run-labels.ts';
import { errorResult } from '../tools/tool-error.ts';
import { continueFrom, resultsSoFar, type TurnState } from '../../shared/contract/journal/fold.ts';
import { dropChildren } from './delegate.ts';
import { reportOf } from './leak-watch.ts';
import type { OpenRun } from './run-context.ts';
import { type JobOutcome, durationMs, totalsOf } from './outcome.ts';
import { unfinishedOf } from './unfinished.ts';
import { logOutcome } from './run-log.ts';
import { recordTurn, type TurnRecord } from './run-thread.ts';
import { keepsAsks, stopChildren, suspend, type Ending, type SettleDeps } from './suspend.ts';

const maxErrorBytes = 2_048;

/**
 * Writes the end of a segment: the terminal events and the record in one commit, or the release for a handover. The terminal
 * events wait for that commit: a worker that is lost before must not leave a log in which its run has ended.
 */
export async function settle(run: OpenRun, ending: TurnOutcome, deps: SettleDeps): Promise<JobOutcome> {
  try {
    const outcome = await endSegment(run, ending, deps);
    logOutcome(run, ending, outcome, deps.ports.clock);
    return outcome;
  } catch (thrown) {
    run.log.warn({ err: thrown }, 'run was released without an end');
    throw thrown;
  }
}

async function endSegment(run: OpenRun, ending: TurnOutcome, deps: SettleDeps): Promise<JobOutcome> {
  const { signals } = run;
  if (signals.lost) throw new RunError('lock_lost', 'another worker owns this run');
  if (signals.handOver && ending.status !== 'completed') return await handOver(run, ending.state);
  switch (ending.status) {
    case 'completed':
      return await complete(run, ending, deps);
    case 'failed':
      return await fail(run, ending, deps);
    case 'cancelled':
      return await cancelled(run, ending.state, { drained: false, partialText: ending.partialText }, deps);
    case 'stopped':
      if (ending.reason === 'hand_over') return await handOver(run, ending.state);
      return await cancelled(run, ending.state, { drained: true }, deps);
    case 'suspended':
      return await suspendOrCancel(run, ending, deps);
    case 'handed_off':
      throw new RunError('internal', 'a handoff is not the end of a run');
    default:
      return assertNever(ending);
  }
}

function usageOf(
  { record, assignment: { agent }, equipment }: OpenRun,
  { usage, costMicrocents, step: steps, counters: { toolCalls } }: TurnState,
  clock: SettleDeps['ports']['clock'],
): EventBody {
  const { mcpServers = {}, capabilities = [] } = agent?.definition ?? {};
  return {
    type: 'usage.recorded',
    usage,
    costMicrocents,
    durationMs: durationMs(record, clock),
    steps,
    toolCalls,
    promptChars: equipment.promptChars,
    mcpServers: Object.keys(mcpServers).length,
    capabilities: capabilities.length,
  };
}

/** The output beside the text, or in its place. */
function outputOf({ media, output, structured }: Completed): unknown {
  if (media) return { text: '', media };
  return output === undefined ? structured : output;
}

type Completed = Ending<'completed'>;

async function complete(run: OpenRun, ending: Completed, deps: SettleDeps): Promise<JobOutcome> {
  const status = ending.blocked ? 'blocked' : ending.degraded ? 'degraded' : 'completed';
  // A denial, or a limit, may have ended the run while children still work for it.
  if (ending.degraded || ending.incomplete) await dropChildren(ending.state, deps.ports);
  const result: RunResultBody = defined({
    text: ending.text,
    finishReason: ending.finishReason,
    structured: ending.structured,
    output: outputOf(ending),
    media: ending.media && [...ending.media],
    emptyResponse: ending.emptyResponse ? true : undefined,
    incomplete: ending.incomplete,
  });
  const { usage, costMicrocents, step: steps } = ending.state;
  run.writer.emitWithCommit(usageOf(run, ending.state, deps.ports.clock));
  if (!run.record.request.overrides?.background) run.writer.emit({ type: 'agent.response', text: ending.text });
  run.writer.emit({ type: 'agent.end', output: ending.text, status });
  if (workOf(run.record.request).kind === 'node') {
    const { serving } = ending.state;
    const tokensUsed = { input: usage.input, output: usage.output, model: serving?.model ?? '' };
    run.writer.emit({ type: 'node.completed', output: result.output ?? result.text, tokensUsed });
  }
  const ms = durationMs(run.record, deps.ports.clock);
  run.writer.emit({ type: 'run.completed', status, result, usage, costMicrocents, durationMs: ms, steps });
  await close(run, { status, state: ending.state, ...closingOf(ending) }, { result }, deps);
  return { kind: 'ended', status };
}

async function fail(run: OpenRun, ending: Ending<'failed'>, deps: SettleDeps): Promise<JobOutcome> {
  const { error, partialText } = ending;
  // Infrastructure, not the run: the job layer tries again from the journal.
  if (error.code === 'lock_lost' || error.code === 'queue_unavailable') throw error;
  await dropChildren(ending.state, deps.ports);
  const info = errorInfoOf(run, error, deps.ports.redactor);
  const { usage, costMicrocents } = ending.state;
  if (error.code === 'run_timeout') {
    run.writer.emitWithCommit({ type: 'run.timeout', elapsedMs: run.workedMs(), timeoutMs: run.signals.wallTimeMs });
  }
  run.writer.emitWithCommit(usageOf(run, ending.state, deps.ports.clock));
  run.writer.emit({ type: 'agent.error', code: info.code, message: info.message });
  if (workOf(run.record.request).kind === 'node') run.writer.emit({ type: 'node.failed', error: info });
  const ms = durationMs(run.record, deps.ports.clock);
  const partial = partialText === '' ? undefined : partialText;
  run.writer.emit({ type: 'run.failed', error: info, usage, costMicrocents, durationMs: ms, partial });
  const closing = `(error: ${info.message})`;
  const unfinished = unfinishedOf(ending.state, partialText, deps.ports.redactor);
  await close(run, { status: 'failed', state: ending.state, closing }, { error: info, unfinished }, deps);
  return { kind: 'ended', status: 'failed', error };
}

/** A cancel ends a run that would wait, unless it keeps open what people were asked. */
async function suspendOrCancel(run: OpenRun, ending: Ending<'suspended'>, deps: SettleDeps): Promise<JobOutcome> {
  const { wait, state } = ending;
  if (!run.signals.cancelRequest || keepsAsks(run, wait)) return await suspend(run, ending, deps);
  for (const event of wait.events ?? []) run.writer.emit(event);
  const undecided = state.calls.filter(({ index }) => wait.asks?.some((ask) => ask.index === index));
  return await cancelled(run, state, { drained: true, undecided, awaitsMoney: wait.reason === 'budget' }, deps);
}

interface Cancelled {
  /** It ended at a step boundary. */
  readonly drained: boolean;
  /** The calls that wait for people. Default: those in the state. */
  readonly undecided?: readonly StepCall[];
  readonly awaitsMoney?: boolean;
  /** What subscribers saw of the answer that it broke off. */
  readonly partialText?: string;
}

async function cancelled(
  run: OpenRun,
  state: TurnState,
  {
    drained,
    undecided = state.calls.filter(isUndecided),
    awaitsMoney = state.awaitsMoney,
    partialText = '',
  }: Cancelled,
  deps: SettleDeps,
): Promise<JobOutcome> {
  const { ask } = state.loop;
  const isAsked = undecided.length > 0 || (ask !== undefined && ask.decision === undefined);
  if ((isAsked || awaitsMoney) && run.signals.cancelRequest?.onPendingApprovals === 'fail') {
    const error = new RunError('run_aborted', 'aborted while approvals were pending');
    return await fail(run, { status: 'failed', error, engaged: true, partialText: '', state }, deps);
  }
  if (undecided.length > 0 && run.signals.cancelRequest?.onPendingApprovals === 'hold')
    return await suspend(run, { status: 'suspended', wait: stillAsked(run, undecided), state }, deps);
  const denied = await denyAll(run, state, undecided);
  const waiting = await stopChildren(run, denied, deps);
  if (waiting) return waiting;
  const reason = run.signals.cancelRequest?.reason;
  const { usage, costMicrocents } = denied;
  run.writer.emitWithCommit(usageOf(run, denied, deps.ports.clock));
  run.writer.emit({ type: 'agent.end', output: '', status: 'cancelled' });
  const ms = durationMs(run.record, deps.ports.clock);
  const partial = partialText === '' ? undefined : partialText;
  run.writer.emit({ type: 'run.cancelled', drained, usage, costMicrocents, durationMs: ms, reason, partial });
  const unfinished = unfinishedOf(denied, partialText, deps.ports.redactor);
  await close(run, { status: 'cancelled', state: denied, closing: '(stopped by user)' }, { unfinished }, deps);
  return { kind: 'ended', status: 'cancelled' };
}

function isUndecided({ ask, decision, status }: StepCall): boolean {
  return ask !== undefined && decision === undefined && status !== 'tool_result';
}

/** The wait for what people were asked before, and have not decided. */
function stillAsked({ record }: OpenRun, calls: readonly StepCall[]): SuspendedWait {
  const asks = calls.flatMap(({ ask }) => (ask ? [ask] : []));
  const pending = record.pending.filter(({ id }) => asks.some((ask) => ask.id === id));
  const reason = pending[0]?.kind ?? 'approval';
  return { reason, pending, asks, resumeAtMs: Math.min(...asks.map(({ expiresAtMs }) => expiresAtMs)) };
}

/** Denies the undecided calls, so that each call of the conversation has a result. */
async function denyAll(run: OpenRun, state: TurnState, calls: readonly StepCall[]): Promise<TurnState> {
  if (calls.length === 0) return state;
  const reason = 'the run was cancelled';
  const errorKind = 'approval_denied' as const;
  for (const { id: toolCallId, name: toolName } of calls)
    run.writer.emit({ type: 'tool.approval.denied', toolCallId, toolName, reason });
  const entries = calls.map(({ index, id: toolCallId, name: toolName }): JournalEntryOf<'tool_result'> => {
    const { content } = errorResult({ kind: errorKind, message: `it was not approved: ${reason}` }, toolName);
    return { v: 1, t: 'tool_result', step: state.step, index, toolCallId, toolName, content, errorKind };
  });
  const growing = continueFrom(state);
  for (const entry of entries) growing.add(entry);
  await run.writer.commit({ entries });
  return growing.state;
}

async function handOver(run: OpenRun, state: TurnState): Promise<JobOutcome> {
  await run.writer.commit({ patch: totalsOf(state), release: 'handed_over' });
  return { kind: 'handed_over' };
}

/** The answer, where it is not the last message of the turn: it is empty, replaced, or made of several. */
function closingOf({ text, media, emptyResponse, state }: Completed): Pick<TurnRecord, 'closing' | 'emptyResponse'> {
  const last = state.own.at(-1);
  const isLast = last?.role === 'assistant' && text !== '' && textOf(last) === text;
  if (isLast || media) return {};
  return { closing: text, emptyResponse };
}

/** Writes the turn into the thread of the run, if it has one, and then its end. */
async function close(
  run: OpenRun,
  turn: Omit<TurnRecord, 'durationMs' | 'error'>,
  ended: Pick<RecordPatch, 'result' | 'error' | 'unfinished'>,
  { ports, wake }: SettleDeps,
): Promise<void> {
  const { status, state } = turn;
  // Before the end: no worker comes back to a run that has ended.
  if (state.holdsMoney)
    for (const runId of await ports.ledger.releaseHold(run.accounts)) wake(runId, 'there is money for it now');
  const { thread, record } = run;
  const last = forRedrive(state, ended.error?.code);
  const end = { ...turn, error: ended.error?.code, durationMs: durationMs(record, ports.clock) };
  if (thread) await recordTurn(thread, end, ports);
  const endedAt = new Date(ports.clock.now()).toISOString();
  await run.writer.commit({
    entries: [...last, { v: 1, t: 'closed', status, error: ended.error }],
    patch: defined({
      ...totalsOf(state),
      ...ended,
      status,
      pending: [],
      endedAt,
      flow: answerLabel(run, state, ended),
      leaks: reportOf(record, state, ended.error?.code),
    }),
    release: 'terminal',
    // All of it is in the thread. A failed run may be redriven, and then continues from its journal.
    dropsJournal: thread !== undefined && status === 'completed',
    store: record.request.store,
  });
}

/** Of what a child gives its parent, or a response the one that continues it: the answer, or why there is none. */
function answerLabel(
  { record, assignment: { agent } }: OpenRun,
  state: TurnState,
  { result, error }: Pick<RecordPatch, 'result' | 'error'>,
): FlowLabel | undefined {
  if (!record.parent && record.request.wire?.endpoint !== '/v1/responses') return undefined;
  const { text = error?.message ?? '', structured } = result ?? {};
  const labels = labelsOfRun([...readBy(state), ...resultsSoFar(state)], [agent?.definition.instructions ?? '']);
  return labels.of(structured === undefined ? text : `${text}\n${jsonText(structured)}`) ?? clean;
}

/** What a failed run must not meet again when it is redriven, and goes on from its journal. */
function forRedrive({ closing, step }: TurnState, code: ErrorInfo['code'] | undefined): JournalEntry[] {
  if (code === undefined || step === 0) return [];
  return [
    ...(closing ? [{ v: journalVersion, t: 'closing_failed' } as const] : []),
    ...(code === 'no_progress' ? [{ v: journalVersion, t: 'loop_cleared', step } as const] : []),
  ];
}

/** The error as callers may see it: redacted, bounded, with the correlation id of its log line. */
export function errorInfoOf({ record, log }: OpenRun, error: RunError, redactor: Redactor): ErrorInfo {
  const correlationId = newNonce();
  const work = workOf(record.request);
  log.warn({ correlationId, code: error.code, err: error }, 'run failed');
  return {
    code: error.code,
    message: cutText(redactor.text(error.message), maxErrorBytes),
    retryable: error.retryable,
    correlationId,
    nodeId: work.kind === 'node' ? work.node.id : undefined,
    details: error.details === undefined ? undefined : redactor.value(error.details),
  };
}
