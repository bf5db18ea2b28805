import type { RunError } from '../../shared/base/errors.ts';
import type { JournalEntryOf } from '../../shared/contract/journal/journal.ts';
import { nodeRetryDelayMs, type NodeRetry, type RunNode } from '../../shared/contract/node.ts';
import { failedCalls } from '../turn/next-move.ts';
import { continueFrom, type TurnState } from '../../shared/contract/journal/fold.ts';
import type { TurnOutcome } from '../turn/turn.ts';
import { boundsOf } from './limits.ts';
import type { Ports } from './ports.ts';
import type { RunDeps, OpenRun } from './run-context.ts';
import { errorInfoOf } from './settle.ts';

/**
 * Runs the turn of a node, and retries it by its policy: from where it failed, with a fresh chain of models. What was
 * finished stays finished. A node without a policy has no retries. A wait longer than `deps.maxInlineWaitMs` is a suspension.
 */
export async function withNodeRetries(
  run: OpenRun,
  { id, nodeRetry: policy }: RunNode,
  deps: Pick<RunDeps, 'maxInlineWaitMs' | 'ports'>,
  take: (run: OpenRun) => Promise<TurnOutcome>,
): Promise<TurnOutcome> {
  if (!policy) return await take(run);
  let { state } = run;
  for (;;) {
    const suspended = await untilRetry(run, id, state, deps);
    if (suspended) return suspended;
    const outcome = await take({ ...run, state });
    const again = retryAfter(outcome, run, policy, deps.ports);
    if (!again) return outcome;
    const growing = continueFrom(outcome.state);
    growing.add(again.entry);
    ({ state } = growing);
    // Readers have seen the beginning of an answer that will be asked for again.
    if (outcome.status === 'failed' && !isOfTool(outcome.error))
      run.writer.emit({ type: 'step.reset', stepNumber: state.step + 1, reason: 'stream_broke' });
    run.writer.emit(again.event);
    await run.writer.commit({ entries: [again.entry] });
  }
}

/** The wait before a retry: here when it is short, else as a suspension. A stop ends it; the turn then ends the run. */
async function untilRetry(
  { signals: { signal } }: OpenRun,
  id: string,
  state: TurnState,
  { ports, maxInlineWaitMs }: Pick<RunDeps, 'maxInlineWaitMs' | 'ports'>,
): Promise<TurnOutcome | undefined> {
  const { clock } = ports;
  const { retryAtMs = 0, retries } = state;
  const waitMs = retryAtMs - clock.now();
  if (waitMs <= 0 || signal.aborted) return undefined;
  if (waitMs <= maxInlineWaitMs) {
    await clock.sleep(waitMs, signal).catch(() => {});
    return undefined;
  }
  const item = {
    kind: 'retry' as const,
    id,
    requestedAt: new Date(clock.now()).toISOString(),
    reason: `retry ${retries} of the node`,
  };
  return { status: 'suspended', wait: { reason: 'retry', pending: [item], resumeAtMs: retryAtMs }, state };
}

function retryAfter(outcome: TurnOutcome, run: OpenRun, policy: NodeRetry, ports: Pick<Ports, 'clock' | 'redactor'>) {
  const { clock, redactor } = ports;
  const { record, signals } = run;
  const { agent } = run.assignment;
  if (outcome.status !== 'failed' || !agent || signals.handOver || signals.lost) return undefined;
  const { state, error } = outcome;
  const number = state.retries + 1;
  const boundOf = boundsOf(agent.definition, record.request);
  if (!mayRetry(error, policy) || number >= boundOf('maxNodeTries', policy.max)) return undefined;
  const longestMs = boundOf('maxNodeBackoffMs', nodeRetryDelayMs(policy, Math.max(1, policy.max - 1)));
  const delayMs = Math.min(nodeRetryDelayMs(policy, number), longestMs);
  const entry: JournalEntryOf<'retrying'> = {
    v: 1,
    t: 'retrying',
    number,
    resumeAt: new Date(clock.now() + delayMs).toISOString(),
    calls: isOfTool(error) ? failedCalls(state) : [],
  };
  return {
    entry,
    event: { type: 'node.retrying' as const, attemptNumber: number, error: errorInfoOf(run, error, redactor), delayMs },
  };
}

/** Did a call end the run, and not a model? */
function isOfTool({ code }: RunError): boolean {
  return code === 'tool_failed' || code === 'sandbox_error';
}

function mayRetry({ code, retryable }: RunError, { retry_on: codes }: NodeRetry): boolean {
  return retryable && codes.some((one) => one === code);
}
