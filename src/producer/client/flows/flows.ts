import { z } from 'zod';
import { pastTime } from '../../../shared/base/past-time.ts';
import { publicId, runId } from '../../../shared/base/ids.ts';
import { parseAs } from '../../../shared/base/problems.ts';
import { auditRetentionMs, flowAudit, leakAudit, type AuditEntry } from '../../../shared/contract/audit.ts';
import { leakDecision } from '../../../shared/contract/agent/lateral-leak.ts';
import { flowDecision, flowRule } from '../../../shared/contract/flow.ts';
import { entryMs, readAudit, type AuditRange } from '../../../shared/state/audit/audit-stream.ts';
import type { TenantClient } from '../client-core.ts';

const batchSize = 200;
const maxScanned = 2_000;
/** How far the clock of a worker, which says when something was found, may be ahead of that of Redis. */
const clockSkewMs = 60_000;
/** So much later than it was found an entry may come to the stream in a Cluster, at most. */
const latestMs = 7 * 86_400_000;

/** An entry of the audit stream of a tenant. It names things, and holds nothing that a user, a model or a tool wrote. */
export const flowView = z.discriminatedUnion('kind', [
  flowAudit.omit({ v: true }).describe('What the data-flow policy found about a call, and what became of the call.'),
  leakAudit.omit({ v: true }).describe('What the guards between agents found in what one handed to another.'),
]);
export type FlowView = Readonly<z.infer<typeof flowView>>;

export const flowKind = z.enum(['flow', 'leak']);
/** Of calls, and of leaks. */
export const foundDecision = z.enum({ ...flowDecision.enum, ...leakDecision.enum });

const position = z.string().regex(/^\d{1,16}-\d{1,10}$/, 'is no place in this list');

const flowsQuery = z.strictObject({
  kind: flowKind.optional(),
  decision: foundDecision.optional(),
  /** Calls of which one finding is by this rule. */
  rule: flowRule.optional(),
  tool: z.string().min(1).max(256).optional(),
  agent: publicId.optional(),
  run: runId.optional(),
  /** Found then or later, and before. ISO 8601 with a zone, or `7d` for 7 days ago. */
  since: pastTime.optional(),
  until: pastTime.optional(),
  /** From the previous page; absent for the first. */
  cursor: position.optional(),
  /** `newest` of an earlier list: only what has come since. */
  after: position.optional(),
  /** 1 to 100, default 50. */
  limit: z.int().min(1).max(100).default(50),
});
export type FlowsQuery = Readonly<z.input<typeof flowsQuery>>;
type Query = z.output<typeof flowsQuery>;
type Range = Partial<Pick<Query, 'since' | 'until' | 'cursor' | 'after'>>;

/** A page of entries, and where the list goes on: `cursor` to older ones, `newest` to those that will come. */
export interface FlowsPage {
  readonly flows: readonly FlowView[];
  readonly cursor?: string;
  readonly newest: string;
}

/**
 * A page of what guards found in the runs of the tenant, newest first. Looks at no more than 2,000 entries. What comes meanwhile is
 * on no later page and moves nothing.
 */
export async function listFlows(input: FlowsQuery, { core, tenant }: TenantClient): Promise<FlowsPage> {
  const query = parseAs(flowsQuery, input, 'the query is not valid');
  const fits = filterOf(query);
  const flows: FlowView[] = [];
  let { from, to } = rangeOf(query, core.cluster);
  let newest = query.after ?? '0-0';
  for (let scanned = 0; scanned < maxScanned; scanned += batchSize) {
    const range = { from, to };
    const found = await core.reach((redis) => readAudit({ redis, keys: core.keys }, tenant, range, batchSize));
    if (scanned === 0) newest = found[0]?.id ?? newest;
    for (const { id, entry } of found) {
      to = `(${id}`;
      if (entry && isFound(entry) && fits(entry)) flows.push(viewOf(entry));
      if (flows.length === query.limit) return { flows, cursor: id, newest };
    }
    if (found.length < batchSize) return { flows, newest };
  }
  return { flows, cursor: to.slice(1), newest };
}

type Found = Extract<AuditEntry, { readonly kind: z.infer<typeof flowKind> }>;

/** What guards found. The other entries are in the audit log. */
export function isFound(entry: AuditEntry): entry is Found {
  return entry.kind === 'flow' || entry.kind === 'leak';
}

function viewOf(entry: Found): FlowView {
  const { v: _, ...view } = entry;
  return view;
}

/** Where entries can be that were found in this time. */
export function rangeOf({ since = 0, until, cursor, after }: Range, cluster: boolean): AuditRange {
  const fromMs = Math.max(0, since - clockSkewMs, Date.now() - auditRetentionMs);
  const from = after !== undefined && entryMs(after) >= fromMs ? `(${after}` : String(fromMs);
  // Nothing is before the first of all places, and Redis refuses a range that ends there.
  if (cursor !== undefined) return { from, to: /^0+-0+$/.test(cursor) ? '0' : `(${cursor}` };
  return { from, to: until === undefined ? '+' : String(Math.max(0, until + (cluster ? latestMs : clockSkewMs))) };
}

function filterOf({ kind, decision, rule, tool, agent, run, since = 0, until = Infinity }: Query) {
  return (entry: FlowView): boolean => {
    const atMs = Date.parse(entry.at);
    if (atMs < since || atMs >= until) return false;
    if (kind !== undefined && entry.kind !== kind) return false;
    if (decision !== undefined && entry.decision !== decision) return false;
    if (agent !== undefined && entry.agent !== agent) return false;
    if (run !== undefined && entry.runId !== run) return false;
    if (rule === undefined && tool === undefined) return true;
    if (entry.kind !== 'flow' || (tool !== undefined && entry.toolName !== tool)) return false;
    return rule === undefined || rulesOf(entry).includes(rule);
  };
}

/** The rules by which there are findings about a call, each once. */
export function rulesOf({ rule, findings }: z.infer<typeof flowAudit> | Extract<FlowView, { kind: 'flow' }>) {
  return [...new Set([rule, ...findings.map((finding) => finding.rule)])];
}
