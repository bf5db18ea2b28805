import { assertNever, RunError, type ErrorInfo } from '../../shared/errors.ts';
import type { RunResultBody } from '../../shared/event.ts';
import { newNonce } from '../../shared/ids.ts';
import type { RunUsage } from '../../shared/money.ts';
import { cutText } from '../../shared/redact.ts';
import type { RunStatus } from '../../shared/run.ts';
import type { RecordPatch } from '../ports.ts';
import type { TurnOutcome } from '../turn/turn.ts';
import type { TurnState } from '../turn/state.ts';
import type { OpenRun } from './open.ts';
import type { JobOutcome } from './outcome.ts';

const maxErrorBytes = 2_048;

/** Writes the end of a segment: the terminal events and the record in one commit, or the release for a hand-over. */
export async function settle(run: OpenRun, ending: TurnOutcome): Promise<JobOutcome> {
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
    default:
      return assertNever(ending);
  }
}

async function complete(run: OpenRun, ending: Extract<TurnOutcome, { status: 'completed' }>): Promise<JobOutcome> {
  const status = ending.degraded ? 'degraded' : 'completed';
  const result: RunResultBody = {
    text: ending.text,
    finishReason: ending.finishReason,
    ...(ending.structured !== undefined && { structured: ending.structured, output: ending.structured }),
    ...(ending.media && { media: [...ending.media], output: { text: '', media: ending.media } }),
    ...(ending.emptyResponse && { emptyResponse: true }),
  };
  const end = totals(ending.state);
  const { usage, costMicrocents, steps } = end;
  run.writer.emit({ type: 'agent.end', output: ending.text, status });
  if (run.record.request.node) {
    const { serving } = ending.state;
    const tokensUsed = { input: usage.input, output: usage.output, model: serving?.model ?? '' };
    run.writer.emit({ type: 'node.completed', output: result.output ?? result.text, tokensUsed });
  }
  run.writer.emit({ type: 'run.completed', status, result, usage, costMicrocents, durationMs: durationMs(run), steps });
  await close(run, status, { ...end, result });
  return { kind: 'ended', status };
}

async function fail(run: OpenRun, ending: Extract<TurnOutcome, { status: 'failed' }>): Promise<JobOutcome> {
  const { error, partialText } = ending;
  // Infrastructure, not the run: the job layer tries again from the journal.
  if (error.code === 'lock_lost' || error.code === 'queue_unavailable') throw error;
  const info = errorInfoOf(run, error);
  const end = totals(ending.state);
  const { usage, costMicrocents } = end;
  if (error.code === 'run_timeout') {
    run.writer.emit({ type: 'run.timeout', elapsedMs: durationMs(run), timeoutMs: run.signals.wallTimeMs });
  }
  run.writer.emit({ type: 'agent.error', code: info.code, message: info.message });
  if (run.record.request.node) run.writer.emit({ type: 'node.failed', error: info });
  run.writer.emit({
    type: 'run.failed',
    error: info,
    usage,
    costMicrocents,
    ...(partialText && { partial: partialText }),
  });
  await close(run, 'failed', { ...end, error: info });
  return { kind: 'ended', status: 'failed', error };
}

async function cancelled(run: OpenRun, state: TurnState, drained: boolean): Promise<JobOutcome> {
  const reason = run.signals.cancelRequest?.reason;
  const end = totals(state);
  const { usage, costMicrocents } = end;
  run.writer.emit({ type: 'agent.end', output: '', status: 'cancelled' });
  run.writer.emit({ type: 'run.cancelled', drained, usage, costMicrocents, ...(reason && { reason }) });
  await close(run, 'cancelled', end);
  return { kind: 'ended', status: 'cancelled' };
}

/** Wakes a run whose worker dies after the suspension and before it stands in line. */
const lostInBetweenMs = 60_000;

async function suspend(
  run: OpenRun,
  { wait, state }: Extract<TurnOutcome, { status: 'suspended' }>,
): Promise<JobOutcome> {
  const { clock, waits, record } = run;
  if (run.signals.cancelRequest) return await cancelled(run, state, true);
  const { reason, resumeAtMs, recheckMs, standInLine } = wait;
  const pending = [...wait.pending];
  const at = new Date(clock.now()).toISOString();
  if (resumeAtMs ?? standInLine) await waits.at(record.runId, resumeAtMs ?? clock.now() + lostInBetweenMs);
  run.writer.emit({ type: 'run.suspended', reason, pending });
  await run.writer.commit({
    entries: [{ v: 1, t: 'suspended', seq: state.suspensions + 1, reason, at }],
    patch: { ...totals(state), status: 'suspended', pending },
    release: 'suspended',
  });
  if (run.signals.cancelRequest) run.wake('a cancel was asked for');
  else if (await standInLine?.()) run.wake('what it waited for has come');
  else if (resumeAtMs === undefined && standInLine) {
    if (recheckMs === undefined) await waits.clear(record.runId);
    else await waits.at(record.runId, clock.now() + recheckMs);
  }
  return { kind: 'suspended' };
}

async function handOver(run: OpenRun, state: TurnState): Promise<JobOutcome> {
  await run.writer.commit({ patch: totals(state), release: 'handed_over' });
  return { kind: 'handed_over' };
}

async function close(run: OpenRun, status: RunStatus, patch: RecordPatch): Promise<void> {
  await run.writer.commit({
    entries: [{ v: 1, t: 'closed', status, ...(patch.error && { error: patch.error }) }],
    patch: { ...patch, status, pending: [], endedAt: new Date(run.clock.now()).toISOString() },
    release: 'terminal',
  });
}

function totals(state: TurnState): {
  usage: RunUsage;
  costMicrocents: number;
  steps: number;
  attempts: TurnState['attempts'];
} {
  const { usage, costMicrocents, step: steps, attempts } = state;
  return { usage, costMicrocents, steps, attempts };
}

function durationMs(run: OpenRun): number {
  return run.record.startedAt ? Math.max(0, Math.round(run.clock.now() - Date.parse(run.record.startedAt))) : 0;
}

/** Safe to show: scrubbed, bounded, and joined to the log line by its correlation id. */
export function errorInfoOf(run: OpenRun, error: RunError): ErrorInfo {
  const correlationId = newNonce();
  run.log.warn({ runId: run.record.runId, correlationId, code: error.code, err: error }, 'run failed');
  return {
    code: error.code,
    message: cutText(run.redactor.text(error.message), maxErrorBytes),
    retryable: error.retryable,
    correlationId,
    ...(run.record.request.node && { nodeId: run.record.request.node.id }),
    ...(error.details !== undefined && { details: run.redactor.value(error.details) }),
  };
}
