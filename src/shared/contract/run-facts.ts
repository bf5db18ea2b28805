import { defined } from '../base/collections.ts';
import type { ErrorCode } from '../base/errors.ts';
import type { RunRecord } from './run.ts';

/** Whose run a line of a log is about, the same in every process. */
export interface RunFacts {
  readonly runId: string;
  readonly agent: string;
  readonly tenant: string;
  readonly queue: string;
  /** The id of the request that asked for it. */
  readonly requestId?: string;
  /** The run that it works for. */
  readonly parentRunId?: string;
}

export function factsOf({
  runId,
  tenant,
  queue,
  requestId,
  request,
  parent,
}: Pick<RunRecord, 'runId' | 'tenant' | 'queue' | 'requestId' | 'request' | 'parent'>): RunFacts {
  return defined({ runId, agent: request.agent, tenant, queue, requestId, parentRunId: parent?.runId });
}

/** The events of the end of a run that no worker had. */
export interface EndFacts {
  readonly status: RunRecord['status'];
  /** Of its error. */
  readonly code: ErrorCode | undefined;
  /** Since its first start; 0 for one that never began. */
  readonly durationMs: number;
  readonly workedMs: number;
  readonly costMicrocents: number;
  readonly steps: number;
}

export function endFactsOf(record: RunRecord): EndFacts {
  const { status, error, startedAt, endedAt, workedMs = 0, costMicrocents, steps } = record;
  const durationMs = startedAt && endedAt ? Math.max(0, Date.parse(endedAt) - Date.parse(startedAt)) : 0;
  return { status, code: error?.code, durationMs, workedMs, costMicrocents, steps };
}
