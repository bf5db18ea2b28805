import { z } from 'zod';
import type { ErrorInfo } from '../../base/errors.ts';
import type { RunUsage } from '../money.ts';
import type { LedgerRow } from './task.ts';

/** What the row says of a task whose run has this status. */
const statuses = {
  queued: 'running',
  running: 'running',
  suspended: 'running',
  completed: 'completed',
  degraded: 'completed',
  blocked: 'completed',
  failed: 'failed',
  cancelled: 'cancelled',
} as const satisfies Record<string, LedgerRow['status']>;

/** What the row is made of; the record of a run has it. */
interface TaskRun {
  readonly runId: string;
  readonly status: keyof typeof statuses;
  readonly usage?: RunUsage | undefined;
  readonly costMicrocents: number;
  readonly workedMs?: number | undefined;
  readonly createdAt: string;
  readonly startedAt?: string | undefined;
  readonly endedAt?: string | undefined;
  readonly error?: ErrorInfo | undefined;
  readonly result?: { readonly output?: unknown } | undefined;
}

const ownEnd = z.object({ status: z.string(), wallMs: z.int().min(0) });

/**
 * The ledger row of a run that is a task, as `runAgentTask` keeps one: its cost is the sum of what the events say. There is
 * one for each, because it is another view of the record.
 */
export function taskLedgerOf(run: TaskRun): LedgerRow {
  const { runId, usage, costMicrocents, createdAt, startedAt = createdAt, endedAt, error, result } = run;
  const end = ownEnd.safeParse(result?.output).data;
  const models = Object.values(usage?.byModel ?? {});
  return {
    id: runId,
    taskId: runId,
    // A run that came to its end has failed as a task where that did not pass.
    status: end?.status === 'failed' ? 'failed' : statuses[run.status],
    tokensIn: models.reduce((sum, { input, cached, cacheWrite }) => sum + input + cached + cacheWrite, 0),
    tokensOut: models.reduce((sum, { output }) => sum + output, 0),
    costMicrocents,
    llmCalls: models.reduce((sum, { attemptCount }) => sum + attemptCount, 0),
    wallMs: end?.wallMs ?? run.workedMs ?? 0,
    startedAt,
    ...(endedAt !== undefined && { completedAt: endedAt }),
    ...(error && { error: error.code }),
  };
}
