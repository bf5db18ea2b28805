import { defined } from '../../shared/base/collections.ts';
import { z } from 'zod';
import {
  isAboutCall,
  pendingViewOf,
  votesOf,
  waitsForPeople,
  type DecisionRecord,
} from '../../shared/contract/decisions.ts';
import { approvalKind, type ApprovalView } from '../../shared/contract/inbox/approvals.ts';
import type { PendingItem } from '../../shared/contract/event.ts';
import { publicId } from '../../shared/base/ids.ts';
import { listedRecord } from '../../shared/state/run/listed-record.ts';
import { isTerminalStatus, previewOf, type RunRecord } from '../../shared/contract/run.ts';
import { cursorOf, entriesAfter, entryOf, runListCursor, type IndexEntry } from './list-runs.ts';
import { inGroups, loadDecisions } from './read-run.ts';
import { reach, type Reached, type TenantClient } from './client-core.ts';
import { parseAs } from '../../shared/base/problems.ts';

const batchSize = 50;
const maxScanned = 2_000;
/** A run is listed before its record says that it waits; an entry whose run does not is only dead once it is older than this. */
const settledMs = 60_000;

const approvalsQuery = z.strictObject({
  agent: publicId.optional(),
  kind: approvalKind.optional(),
  /** Whose question comes first. Default `newest`. */
  order: z.enum(['newest', 'oldest']).default('newest'),
  /** From the previous page in the same order; absent for the first. */
  cursor: runListCursor.optional(),
  /** 1 to 100, default 50. What one run waits for is never split, so a page may have more. */
  limit: z.int().min(1).max(100).default(50),
});
export type ApprovalsQuery = Readonly<z.input<typeof approvalsQuery>>;

/** A page of what waits for people. No cursor means the end. */
export interface ApprovalsPage {
  readonly approvals: readonly ApprovalView[];
  readonly cursor?: string;
}

/** A page of what the runs of a tenant wait for people to decide, newest first unless asked otherwise. Looks at no more than 2,000 runs. */
export async function listApprovals(input: ApprovalsQuery, client: TenantClient): Promise<ApprovalsPage> {
  const { agent, kind, order, cursor, limit } = parseAs(approvalsQuery, input, 'the query is not valid');
  return await reach(client, async (at) => {
    const approvals: ApprovalView[] = [];
    let last = cursor === undefined ? undefined : entryOf(cursor);
    for (let scanned = 0; scanned < maxScanned; scanned += batchSize) {
      const entries = await entriesAfter(last, at.core.keys.asking(at.tenant), batchSize, at.redis, order);
      const found = await readEntries(entries, at);
      for (const [i, entry] of entries.entries()) {
        last = entry;
        const views = found[i] ?? [];
        approvals.push(...views.filter((view) => (!agent || view.agent === agent) && (!kind || view.kind === kind)));
        if (approvals.length >= limit) return { approvals, cursor: cursorOf(entry) };
      }
      if (entries.length < batchSize) return { approvals };
    }
    return last === undefined ? { approvals } : { approvals, cursor: cursorOf(last) };
  });
}

/** What each run waits for people to decide, in the order of the entries. Those that do not wait leave the list. */
async function readEntries(entries: readonly IndexEntry[], at: Reached): Promise<readonly (readonly ApprovalView[])[]> {
  const found = await inGroups(entries, ({ runId }) => readEntry(runId, at));
  const settledBefore = Date.now() - settledMs;
  const dead = entries.filter(({ atMs }, i) => found[i]?.length === 0 && atMs < settledBefore);
  if (dead.length > 0) await at.redis.zrem(at.core.keys.asking(at.tenant), ...dead.map(({ runId }) => runId));
  return found;
}

async function readEntry(runId: string, at: Reached): Promise<readonly ApprovalView[]> {
  const record = await listedRecord(at.redis, at.core.keys.run(runId), at.tenant);
  if (!record) return [];
  const items = asksOf(record);
  const severalDecide = items.some(({ approvers = 1 }) => approvers > 1);
  const decisions = severalDecide ? await loadDecisions(runId, at) : [];
  return items.map((item) => approvalOf(record, item, decisions));
}

/** Money is only waited for while the run is suspended; calls stay open while it works on what was decided about others. */
function asksOf({ status, pending }: RunRecord): readonly PendingItem[] {
  if (isTerminalStatus(status)) return [];
  return pending.filter((item) => (status === 'suspended' ? waitsForPeople(item) : isAboutCall(item)));
}

function approvalOf({ runId, request }: RunRecord, item: PendingItem, decisions: readonly DecisionRecord[]) {
  const { agent, thread, batch, metadata, input } = request;
  const record = decisions.find(
    ({ id, expiresAt, verdict }) => !verdict && id === item.id && expiresAt === item.expiresAt,
  );
  return defined({
    runId,
    agent,
    thread,
    batch,
    metadata,
    inputPreview: previewOf(input) || undefined,
    ...pendingViewOf(item),
    argsSchema: item.argsSchema,
    kind: approvalKind.parse(item.kind),
    votes: record ? votesOf(record) : [],
    href: `/v1/runs/${runId}`,
  });
}
