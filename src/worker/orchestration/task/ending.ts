import type { ErrorInfo } from '../../../shared/base/errors.ts';
import { microcentsPerUsd } from '../../../shared/contract/money.ts';
import type { LedgerRow, TaskResult, TaskStoppedBy } from '../../../shared/contract/orchestration/task.ts';
import type { ActionFailure } from './call.ts';
import type { LedgerRows } from './ledger.ts';
import { type Readiness, meanScore } from './answers.ts';
import type { RunningTask } from './task-run.ts';

export interface TaskEnding {
  readonly stoppedBy: TaskStoppedBy;
  readonly completed: boolean;
  readonly pass: boolean;
  readonly reason: string;
  readonly score?: number | undefined;
  readonly error?: ErrorInfo;
  /** It never began. */
  readonly blocked?: Readiness;
}

/** Nothing was done, because something has to be known first. */
export function blockedBy(readiness: Readiness): TaskEnding {
  const reason = `required knowledge is missing: ${readiness.missing.join(', ')}`;
  return { stoppedBy: 'policy', completed: false, pass: false, reason, blocked: readiness };
}

export function abortedBy({ host: { signal } }: RunningTask): TaskEnding {
  const { reason } = signal;
  const why = typeof reason === 'string' ? reason : 'the task was cancelled';
  return { stoppedBy: 'abort', completed: false, pass: false, reason: why };
}

export function exhausted(reason: string): TaskEnding {
  return { stoppedBy: 'budget', completed: false, pass: false, reason };
}

/** The adapter has failed. One that only took too long has used up the time of the task. */
export function broken({ code, message, retryable, kind }: ActionFailure): TaskEnding {
  if (kind === 'late') return exhausted(message);
  const error = { code, message, retryable };
  return { stoppedBy: 'runtime-error', completed: false, pass: false, reason: message, error };
}

/** Emits the end, completes the ledger row and keeps it. Rejects with what the store of rows rejects with. */
export async function endTask(run: RunningTask, ending: TaskEnding, rows: LedgerRows | undefined): Promise<TaskResult> {
  const wallMs = run.elapsedMs();
  const result = resultOf(run, ending, wallMs);
  const { status, pass, score, reason, stoppedBy } = result;
  const end = { status, pass, reason, stoppedBy, ...(score !== undefined && { score }) };
  await run.emit({ type: 'task.end', ...end });
  const { ledger } = run;
  ledger.complete(rowStatus(status), { wallMs, ...(ending.error && { error: ending.error.code }) });
  if (rows) {
    await run.host.step('ledger', async () => {
      await ledger.save(rows);
      return null;
    });
  }
  return result;
}

function resultOf(run: RunningTask, ending: TaskEnding, wallMs: number): TaskResult {
  const { stoppedBy, completed, pass, reason, error, blocked } = ending;
  const score = ending.score ?? meanScore(run.evals);
  const costMicrocents = run.spentMicrocents;
  const ended = {
    taskId: run.taskId,
    pass,
    completed,
    reason,
    ...(score !== undefined && { score }),
    steps: [...run.history],
    finalState: run.state,
    finalEvals: [...run.evals],
    wallMs,
    spentCostUsd: costMicrocents / microcentsPerUsd,
    costMicrocents,
    stoppedBy,
  };
  if (blocked) {
    const { missing, questions, acquisitionPlan } = blocked;
    const lists = { missing: [...missing], questions: [...questions], acquisitionPlan: [...acquisitionPlan] };
    return { status: 'blocked', ...ended, ...lists };
  }
  if (stoppedBy === 'abort') return { status: 'aborted', ...ended };
  return pass ? { status: 'completed', ...ended } : { status: 'failed', ...ended, ...(error && { error }) };
}

function rowStatus(status: TaskResult['status']): Exclude<LedgerRow['status'], 'running'> {
  if (status === 'aborted') return 'cancelled';
  return status === 'failed' ? 'failed' : 'completed';
}
