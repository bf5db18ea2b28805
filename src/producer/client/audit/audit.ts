import { z } from 'zod';
import { pastTime } from '../../../shared/base/past-time.ts';
import { runId } from '../../../shared/base/ids.ts';
import { parseAs } from '../../../shared/base/problems.ts';
import {
  auditKind,
  auditRetentionMs,
  budgetAudit,
  decisionAudit,
  denialAudit,
  erasureAudit,
  flowAudit,
  keysAudit,
  leakAudit,
  pauseAudit,
} from '../../../shared/contract/audit.ts';
import { entryMs, readAudit, type FoundEntry } from '../../../shared/state/audit/audit-stream.ts';
import { requireOperator } from '../accept/validate.ts';
import type { TenantClient } from '../client-core.ts';

const batchSize = 500;
const maxScanned = 5_000;

const at = { id: z.string().describe('Where the entry is: as `after` it asks for what comes behind it.') };

/** An entry of the audit log. It names things, and holds nothing that a user, a model or a tool wrote. */
export const auditView = z.discriminatedUnion('kind', [
  flowAudit.omit({ v: true }).extend(at).describe('What the data-flow policy found about a call.'),
  leakAudit.omit({ v: true }).extend(at).describe('What the guards between agents found.'),
  denialAudit.omit({ v: true }).extend(at).describe('A rule denied a call, a model call or an agent.'),
  decisionAudit.omit({ v: true }).extend(at).describe('What a person decided about a call, a question or money.'),
  budgetAudit.omit({ v: true }).extend(at).describe('Someone set what may be spent, or added to it.'),
  erasureAudit.omit({ v: true }).extend(at).describe('Data was erased.'),
  keysAudit.omit({ v: true }).extend(at).describe('A producer was started with other API keys, or made a key.'),
  pauseAudit.omit({ v: true }).extend(at).describe('Someone paused a batch, or resumed it.'),
]);
export type AuditView = Readonly<z.infer<typeof auditView>>;

const position = z.string().regex(/^\d{1,16}-\d{1,10}$/, 'is no place in this log');

const auditQuery = z.strictObject({
  kind: auditKind.optional(),
  run: runId.optional(),
  /** ISO 8601 with a zone, or `7d` for 7 days ago. */
  since: pastTime.optional(),
  /** `next` of the page before, or the id of an entry: what is behind it in this order. */
  after: position.optional(),
  /** Default `oldest` first. */
  order: z.enum(['oldest', 'newest']).default('oldest'),
  /** 1 to 500, default 100. */
  limit: z.int().min(1).max(500).default(100),
});
export type AuditQuery = Readonly<z.input<typeof auditQuery>>;
type Query = z.output<typeof auditQuery>;

/** A page of entries. Without `next` there are no others now. */
export interface AuditPage {
  readonly entries: readonly AuditView[];
  readonly next?: string;
}

/** A page of the audit log. Looks at no more than 5,000 entries: a page may have fewer than `limit` and still a `next`. */
export async function readAuditLog(input: AuditQuery, client: TenantClient): Promise<AuditPage> {
  requireOperator(client, 'reading the audit log');
  const query = parseAs(auditQuery, input, 'the query is not valid');
  const { core, tenant } = client;
  const entries: AuditView[] = [];
  let { after } = query;
  for (let scanned = 0; scanned < maxScanned; scanned += batchSize) {
    const range = rangeOf(query, after);
    const found = await core.reach((redis) =>
      readAudit({ redis, keys: core.keys }, tenant, range, batchSize, query.order),
    );
    for (const one of found) {
      after = one.id;
      const view = viewOf(one, query);
      if (view) entries.push(view);
      if (entries.length === query.limit) return { entries, next: after };
    }
    if (found.length < batchSize) return { entries };
  }
  return after === undefined ? { entries } : { entries, next: after };
}

/** Entries that are too old do not count, though Redis may still have them. */
function rangeOf(
  { order, since = 0 }: Query,
  after: string | undefined,
): { readonly from: string; readonly to: string } {
  const oldest = Math.max(since, Date.now() - auditRetentionMs);
  const from = String(Math.max(0, oldest));
  if (after === undefined) return { from, to: '+' };
  // Nothing is before the first of all places, and Redis refuses a range that ends there.
  if (order === 'newest') return { from, to: /^0+-0+$/.test(after) ? '0' : `(${after}` };
  return { from: entryMs(after) >= oldest ? `(${after}` : from, to: '+' };
}

/** Undefined for an entry that is not asked for, and for one of a kind that this process does not know. */
function viewOf({ id, entry }: FoundEntry, { kind, run, since = 0 }: Query): AuditView | undefined {
  if (!entry || (kind !== undefined && entry.kind !== kind)) return undefined;
  if (run !== undefined && !('runId' in entry && entry.runId === run)) return undefined;
  if (Date.parse(entry.at) < since) return undefined;
  const { v: _, ...view } = entry;
  return { ...view, id };
}
