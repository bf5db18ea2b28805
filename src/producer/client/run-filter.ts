import { z } from 'zod';
import { storedJson } from '../../shared/base/json.ts';
import { errorCode } from '../../shared/base/errors.ts';
import { publicId, runId as runIdSchema } from '../../shared/base/ids.ts';
import type { RedisConnection } from '../../shared/state/connect.ts';
import type { Keys } from '../../shared/state/keys.ts';
import { microcents } from '../../shared/contract/money.ts';
import { hasLabels, type Labelled } from '../../shared/contract/archive/labels.ts';
import { metadata, runStatus, type RunRequest } from '../../shared/contract/run.ts';
import type { ListedRun } from './record/archived-list.ts';

/** A time with its zone. */
export const runTime = z.iso.datetime({ offset: true, error: 'must be a time like 2026-11-21T09:00:00Z' });

/** Which runs of a tenant are meant: those that every field given fits. */
export const runFilter = z.strictObject({
  status: runStatus.optional(),
  agent: publicId.optional(),
  thread: publicId.optional(),
  batch: publicId.optional(),
  /** Only children of this run. */
  parent: runIdSchema.optional(),
  /** Only runs that failed with this code. */
  errorCode: errorCode.optional(),
  /** Only runs that have cost at least so much by now. */
  minCostMicrocents: microcents.optional(),
  /** Only runs whose metadata has each of these keys with exactly this value. */
  metadata: metadata.optional(),
  /** Only runs created at this time or later, and before this time. ISO 8601 with a zone. */
  after: runTime.optional(),
  before: runTime.optional(),
});
export type RunFilter = Readonly<z.input<typeof runFilter>>;

/** What is known of a run without reading all of its record. */
export interface RunFacts {
  readonly status: string;
  readonly tenant: string | null;
}

/**
 * Reads what the filter asks about of each run, in order: the facts of one that fits, `other` for one that does not, `gone` for a record
 * that has expired. The time of creation is not looked at.
 */
export async function whichFit(
  runIds: readonly string[],
  filter: RunFilter,
  { redis, keys }: { readonly redis: RedisConnection; readonly keys: Keys },
): Promise<readonly (RunFacts | 'other' | 'gone')[]> {
  // What was asked of a run, and what became of it, are larger than all other facts: read only where the filter asks about them.
  const asksRequest = filter.batch !== undefined || filter.metadata !== undefined;
  const fields = [
    'status',
    'tenant',
    'agent',
    'thread',
    'parentRunId',
    ...(asksRequest ? ['listedRequest'] : []),
    ...(filter.errorCode === undefined ? [] : ['error']),
    ...(filter.minCostMicrocents === undefined ? [] : ['costMicrocents']),
  ];
  const found = await Promise.all(runIds.map((runId) => redis.hmget(keys.run(runId), ...fields)));
  return found.map((values, at) => {
    const facts = Object.fromEntries(fields.map((field, i) => [field, values[i] ?? null]));
    const { status = null, tenant = null } = facts;
    if (status === null) return 'gone';
    const { agent, thread, parentRunId: parent, listedRequest, error } = facts;
    const { batch, metadata: labels } = parsed<Pick<RunRequest, 'batch' | 'metadata'>>(listedRequest);
    const { code: errorCode } = parsed<{ code: string }>(error);
    const cost = Number(facts['costMicrocents'] ?? 0);
    const labelled = { runId: runIds[at] ?? '', metadata: labels };
    const about = { status, agent, thread, parent, batch, errorCode, labelled, cost };
    return fits(about, filter) ? { status, tenant } : 'other';
  });
}

/** Does the filter fit this run of the archive? The time of creation is not looked at. */
export function fitsArchived({ record, changedLabels: changed }: ListedRun, filter: RunFilter): boolean {
  const { runId, status, request, error, costMicrocents: cost } = record;
  const { agent, thread, batch } = request;
  const parent = record.parent?.runId;
  const labelled = { runId, metadata: request.metadata, changed };
  return fits({ status, agent, thread, parent, batch, errorCode: error?.code, labelled, cost }, filter);
}

interface Filtered extends Readonly<Record<FilteredName, string | null | undefined>> {
  readonly labelled: Labelled;
  readonly cost: number;
}
type FilteredName = 'status' | 'agent' | 'thread' | 'parent' | 'batch' | 'errorCode';

function fits({ labelled, cost, ...plain }: Filtered, filter: RunFilter): boolean {
  const names = ['status', 'agent', 'thread', 'parent', 'batch', 'errorCode'] as const;
  return (
    cost >= (filter.minCostMicrocents ?? 0) &&
    names.every((name) => filter[name] === undefined || filter[name] === plain[name]) &&
    hasLabels(labelled, filter.metadata ?? {})
  );
}

/** One that cannot be read fits nothing that is asked about it. */
function parsed<T>(text: string | null | undefined): Partial<T> {
  if (!text) return {};
  try {
    return storedJson(text) as Partial<T>;
  } catch {
    return {};
  }
}
