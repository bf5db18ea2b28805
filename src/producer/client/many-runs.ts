import { z } from 'zod';
import { asRunError, RunError, type ErrorCode } from '../../shared/base/errors.ts';
import { parseAs } from '../../shared/base/problems.ts';
import { cleanJson } from '../../shared/base/text.ts';
import { cancelRequest } from '../../shared/contract/control.ts';
import { isTerminalStatus, runStatus, type RunStatus } from '../../shared/contract/run.ts';
import { safeInput } from './accept/validate.ts';
import { cancelRun } from './cancel.ts';
import { reach, type TenantClient } from './client-core.ts';
import { cursorOf, entriesAfter, runListCursor, startOf, type IndexEntry } from './list-runs.ts';
import { inGroups } from './read-run.ts';
import { archivedRuns } from './record/archived-list.ts';
import { fitsArchived, runFilter, whichFit, type RunFacts, type RunFilter } from './run-filter.ts';

const groupSize = 500;
/** Runs that one count reads from the archive. */
const maxArchivedRead = 2_000;
/** Runs of the tenant that one call looks at. */
const maxScanned = 200_000;
/** A call that has more to do than it can in this time leaves the rest to another. */
const maxWorkMs = 20_000;

/** How many runs a filter fits, by status. */
export const runCounts = z.object({
  total: z.int(),
  byStatus: z.partialRecord(runStatus, z.int()),
  complete: z
    .boolean()
    .describe(
      'False: only the newest runs of the tenant were looked at: 200,000, and 2,000 of those that only the archive has.',
    ),
});
export type RunCounts = Readonly<z.infer<typeof runCounts>>;

/** Which runs are to be cancelled, and how. */
export const cancelManyRequest = runFilter.extend({
  ...cancelRequest.shape,
  /** Needed where no filter is given: every open run of the tenant. */
  all: z.literal(true).optional(),
  /** At most this many in one call: 1 to 10,000, default 1,000. */
  limit: z.int().min(1).max(10_000).default(1_000),
  /** From the answer of an earlier call, to go on where that ended. */
  cursor: runListCursor.optional(),
});
export type CancelManyRequest = Readonly<z.input<typeof cancelManyRequest>>;

/** What one call has done to the runs that a filter fits. */
export const manyAnswer = z.object({
  matched: z.int().describe('Open runs that the filter fits, as far as this call has looked.'),
  done: z.int().describe('Those that were stopped, or asked to stop.'),
  failures: z
    .array(z.object({ runId: z.string(), code: z.string() }))
    .describe('Of up to 20 others: what was wrong. A run that ended meanwhile is none.'),
  cursor: z.string().optional().describe('There may be more of them: ask again with it. None means the end.'),
});
export type ManyAnswer = Readonly<z.infer<typeof manyAnswer>>;
const maxFailures = 20;

/** Counts the runs that a filter fits. Throws `validation`. */
export async function countRuns(input: RunFilter, client: TenantClient): Promise<RunCounts> {
  const filter = parseAs(runFilter, cleanJson(input), 'the filter is not valid');
  const byStatus: Partial<Record<RunStatus, number>> = {};
  let total = 0;
  let scanned = 0;
  let archivedRead = 0;
  for await (const { fitting, looked, expired } of groupsOf(filter, client)) {
    const archived = await archivedRuns(expired.slice(0, maxArchivedRead - archivedRead), client);
    archivedRead += expired.length;
    const fits = [...archived.values()].filter((run) => fitsArchived(run, filter)).map(({ record }) => record);
    for (const { status } of [...fitting, ...fits]) {
      byStatus[status as RunStatus] = (byStatus[status as RunStatus] ?? 0) + 1;
      total += 1;
    }
    scanned += looked;
    if (scanned >= maxScanned || archivedRead > maxArchivedRead) return { total, byStatus, complete: false };
  }
  return { total, byStatus, complete: true };
}

/** Cancels the open runs that a filter fits, newest first. */
export async function cancelRuns(input: CancelManyRequest, client: TenantClient): Promise<ManyAnswer> {
  const { limit, all, cursor, drain, onPendingApprovals, reason, ...filter } = parseAs(
    cancelManyRequest,
    safeInput(input),
    'the request is not valid',
  );
  if (all === undefined && Object.values(filter).every((value) => value === undefined))
    throw new RunError('validation', 'say which runs: give a filter, or all: true for every open run');
  if (filter.status !== undefined && isTerminalStatus(filter.status))
    throw new RunError('validation', `status: runs that are ${filter.status} have ended and cannot be cancelled`);
  const until = performance.now() + maxWorkMs;
  const failures: { runId: string; code: ErrorCode }[] = [];
  let [matched, done, scanned] = [0, 0, 0];
  for await (const { fitting, looked, last } of groupsOf(filter, client, cursor)) {
    const open = fitting.filter(({ status }) => !isTerminalStatus(status as RunStatus));
    const now = open.slice(0, limit - matched);
    const ends = await inGroups(now, ({ runId }) => cancelOne(runId, { drain, onPendingApprovals, reason }, client));
    for (const [i, end] of ends.entries()) {
      if (end === 'done') done += 1;
      else if (end !== 'ended' && failures.length < maxFailures)
        failures.push({ runId: now[i]?.runId ?? '', code: end });
    }
    matched += now.length;
    scanned += looked;
    const isEnough = matched === limit || scanned >= maxScanned || performance.now() > until;
    const next = now.length < open.length ? now.at(-1) : last;
    if (isEnough && next) return { matched, done, failures, cursor: cursorOf(next) };
  }
  return { matched, done, failures };
}

async function cancelOne(
  runId: string,
  request: z.output<typeof cancelRequest>,
  client: TenantClient,
): Promise<'done' | 'ended' | ErrorCode> {
  try {
    await cancelRun(runId, request, client);
    return 'done';
  } catch (error) {
    const { code } = asRunError(error);
    // Nothing more can be done, and the caller should learn how far it came.
    if (code === 'queue_unavailable') throw error;
    return code === 'already_terminal' || code === 'gone' || code === 'run_not_found' ? 'ended' : code;
  }
}

interface Group {
  readonly fitting: readonly (IndexEntry & RunFacts)[];
  /** Entries that were read for it, and the last of them; undefined: there are no more. */
  readonly looked: number;
  readonly last: IndexEntry | undefined;
  /** Those whose record has expired. */
  readonly expired: readonly string[];
}

/** The tenant's runs that a filter fits, newest first, some hundred entries at a time. */
async function* groupsOf(filter: RunFilter, client: TenantClient, cursor?: string): AsyncGenerator<Group> {
  const afterMs = filter.after === undefined ? -Infinity : Date.parse(filter.after);
  let last = startOf({ cursor, before: filter.before });
  for (;;) {
    const from = last;
    const group = await reach(client, async ({ core, redis, tenant }) => {
      const entries = await entriesAfter(from, core.keys.index(tenant), groupSize, redis);
      const recent = entries.filter(({ atMs }) => atMs >= afterMs);
      const runIds = recent.map(({ runId }) => runId);
      const facts = await whichFit(runIds, filter, { redis, keys: core.keys });
      const fitting = recent.flatMap((entry, i) => {
        const found = facts[i];
        return typeof found === 'object' && found.tenant === tenant ? [{ ...entry, ...found }] : [];
      });
      const expired = runIds.filter((_, i) => facts[i] === 'gone');
      const isEnd = recent.length < groupSize;
      return { fitting, looked: recent.length, last: isEnd ? undefined : recent.at(-1), expired };
    });
    yield group;
    last = group.last;
    if (last === undefined) return;
  }
}
