import { RunError, type ErrorCode } from '../base/errors.ts';
import { pendingItem } from './event.ts';
import { storedJson } from '../base/json.ts';
import {
  durationOf,
  lineage,
  recordFromHash,
  runRecord,
  runRequest,
  type Lineage,
  type RunRecord,
  type RunRequest,
} from './run.ts';
import { defined } from '../base/collections.ts';

/**
 * A record as far as it can be read, for code that stops a run, decides about it or starts it again: no part of it that was
 * damaged, or that another version wrote, keeps the run from its end. Throws `run_state_version_unsupported`, and
 * `run_state_malformed` where not even the run and its tenant are known.
 */
export function legibleRecord(hash: Record<string, string>): RunRecord {
  try {
    return recordFromHash(hash);
  } catch (error) {
    const { runId, tenant } = hash;
    if (!(error instanceof RunError) || error.code !== 'run_state_malformed' || !runId || !tenant) throw error;
    return { ...withoutWhatIsOptional(runId, tenant, hash), ...readable(hash) };
  }
}

/** What was asked for, or as much of it as every event of the run says. */
export function legibleRequest(hash: { readonly [field: string]: string | null | undefined }): RunRequest {
  const parsed = runRequest.safeParse(valueOf(hash['request']));
  if (parsed.success) return parsed.data;
  const { agent, thread } = hash;
  return { agent: agent || 'unknown', input: '', ...(thread && { thread }) };
}

/** The run that it works for. Undefined for none, and for one that cannot be read. */
export function legibleLineage(text: string | null | undefined): Lineage | undefined {
  return text ? lineage.safeParse(valueOf(text)).data : undefined;
}

function withoutWhatIsOptional(runId: string, tenant: string, hash: Record<string, string>): RunRecord {
  return {
    v: 1,
    runId,
    tenant,
    kind: 'agent.turn',
    status: 'suspended',
    request: legibleRequest(hash),
    queue: 'runs',
    segment: 0,
    createdAt: '',
    updatedAt: '',
    lastSequence: 0,
    epoch: 0,
    crashes: 0,
    steps: 0,
    costMicrocents: 0,
    attempts: [],
    pending: pendingOf(valueOf(hash['pending'])),
  };
}

/** The fields that are what they should be. */
function readable(hash: Record<string, string>): Partial<RunRecord> {
  const fields = Object.entries(runRecord.shape).flatMap(([field, schema]) => {
    const text = hash[field];
    if (text === undefined) return [];
    const parsed = [text, valueOf(text)].map((value) => schema.safeParse(value)).find(({ success }) => success);
    return parsed ? [[field, parsed.data] as const] : [];
  });
  return Object.fromEntries(fields);
}

function pendingOf(items: unknown): RunRecord['pending'] {
  if (!Array.isArray(items)) return [];
  return items.flatMap((item) => pendingItem.safeParse(item).data ?? []);
}

function valueOf(text: string | null | undefined): unknown {
  try {
    return storedJson(text ?? '');
  } catch {
    return undefined;
  }
}

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

type Counted = Pick<RunRecord, 'runId' | 'tenant' | 'queue' | 'requestId' | 'request' | 'parent'>;

export function factsOf({ runId, tenant, queue, requestId, request, parent }: Counted): RunFacts {
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
  const { status, error, workedMs = 0, costMicrocents, steps } = record;
  return { status, code: error?.code, durationMs: durationOf(record) ?? 0, workedMs, costMicrocents, steps };
}
