import { z } from 'zod';
import { pastTime } from '../../../shared/base/past-time.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { parseAs } from '../../../shared/base/problems.ts';
import { auditRetentionMs, type FlowAudit } from '../../../shared/contract/audit.ts';
import { flowRule } from '../../../shared/contract/flow.ts';
import { auditReach, readAudit } from '../../../shared/state/audit/audit-stream.ts';
import { rangeOf, rulesOf } from './flows.ts';
import type { TenantClient } from '../client-core.ts';

const batchSize = 1_000;
const maxScanned = 20_000;
const maxNames = 50;
/** The day that began 30 days ago is asked for, too. */
const roomMs = 86_400_000;

const calls = z.int().min(0);
const names = z.array(z.string());

const flowCounts = z.object({
  flagged: calls.describe('Calls that ran in `shadow`: what `enforce` would have stopped.'),
  blocked: calls.describe('Calls that the policy stopped.'),
  asked: calls.describe('Calls that people were asked about (`confirm`).'),
  granted: calls.describe('Calls that a person let through.'),
  denied: calls.describe('Calls that a person refused, or that no person decided about in time.'),
  declassified: calls.describe('Calls that ran because their tool is in `declassifySinks`.'),
  runs: calls.describe('Runs in which this was.'),
});
type FlowCounts = z.infer<typeof flowCounts>;

const flowGroup = z.object({
  ...flowCounts.shape,
  agents: names.describe(`Ids, at most ${maxNames}.`),
  arguments: names.describe(`Paths of the arguments that were found, at most ${maxNames}.`),
  sources: names.describe(`Where the untrusted values or passages came from, at most ${maxNames}.`),
  firstAt: z.string(),
  lastAt: z.string(),
});

/** What a data-flow policy did, or would have done. */
export const flowReport = z.object({
  since: z.string(),
  until: z.string(),
  tools: z.array(flowGroup.extend({ tool: z.string(), rules: z.array(flowRule) })).describe('Most calls first.'),
  rules: z
    .array(flowGroup.extend({ rule: flowRule, tools: names }))
    .describe('Most calls first. A call with findings by several rules is in each of them.'),
  totals: flowCounts,
  leaks: calls.describe('What the guards between agents found.'),
  reachesBackTo: z
    .string()
    .optional()
    .describe('When the oldest entry that is kept came, of any time. Absent: there is none.'),
  partial: z
    .boolean()
    .describe(
      `More than ${maxScanned.toLocaleString('en')} entries are in this time, of which only the newest were counted, or older ones have been removed to make room.`,
    ),
});
export type FlowReport = Readonly<z.infer<typeof flowReport>>;

const reportQuery = z.strictObject({ since: pastTime.prefault('7d') });
export type FlowReportQuery = Readonly<z.input<typeof reportQuery>>;

/** Counts what the data-flow policy found in the runs of the tenant. Looks at no more than 20,000 entries, the newest. */
export async function readFlowReport(input: FlowReportQuery, { core, tenant }: TenantClient): Promise<FlowReport> {
  const { since } = parseAs(reportQuery, input, 'the query is not valid');
  const nowMs = Date.now();
  if (since < nowMs - auditRetentionMs - roomMs || since > nowMs) throw outOfReach();
  const tally = new Tally();
  let { from, to } = rangeOf({ since }, core.cluster);
  let isWhole = false;
  for (let scanned = 0; scanned < maxScanned && !isWhole; scanned += batchSize) {
    const range = { from, to };
    const found = await core.reach((redis) => readAudit({ redis, keys: core.keys }, tenant, range, batchSize));
    for (const { id, entry } of found) {
      to = `(${id}`;
      if (!entry || Date.parse(entry.at) < since) continue;
      if (entry.kind === 'flow') tally.add(entry);
      else if (entry.kind === 'leak') tally.leaks += 1;
    }
    isWhole = found.length < batchSize;
  }
  const { oldestMs, isFull } = await core.reach((redis) => auditReach({ redis, keys: core.keys }, tenant));
  return {
    since: new Date(since).toISOString(),
    until: new Date(nowMs).toISOString(),
    ...tally.report(),
    reachesBackTo: oldestMs === undefined ? undefined : new Date(oldestMs).toISOString(),
    partial: !isWhole || (isFull && (oldestMs ?? 0) > since),
  };
}

function outOfReach(): RunError {
  const message = 'since must be a time of the last 30 days: entries are kept for so long';
  return new RunError('validation', message, { details: [{ path: 'since', message }] });
}

/** What became of one call. */
type Outcome = Exclude<keyof FlowCounts, 'runs'>;

/** Counts entries that come newest first: what people decided comes before that they were asked. */
class Tally {
  leaks = 0;
  readonly #entries: FlowAudit[] = [];
  /** Calls that people were asked about. */
  readonly #asked = new Set<string>();

  add(entry: FlowAudit): void {
    this.#entries.push(entry);
    if (entry.decision === 'asked') this.#asked.add(callOf(entry));
  }

  report(): Pick<FlowReport, 'tools' | 'rules' | 'totals' | 'leaks'> {
    const byTool = Map.groupBy(this.#entries, ({ toolName }) => toolName);
    const rules = flowRule.options.flatMap((rule) => {
      const entries = this.#entries.filter((entry) => rulesOf(entry).includes(rule));
      return entries.length === 0 ? [] : [[rule, entries] as const];
    });
    return {
      tools: [...byTool]
        .map(([tool, entries]) => ({ tool, rules: namesOf(entries, rulesOf), ...this.#group(entries, () => true) }))
        .sort(mostCalls),
      rules: rules
        .map(([rule, entries]) => ({
          rule,
          tools: namesOf(entries, ({ toolName }) => [toolName]),
          ...this.#group(entries, (of) => of === rule),
        }))
        .sort(mostCalls),
      totals: this.#counts(this.#entries),
      leaks: this.leaks,
    };
  }

  #group(entries: readonly FlowAudit[], isMeant: (rule: FlowAudit['rule']) => boolean): z.infer<typeof flowGroup> {
    const times = entries.map(({ at }) => at).sort();
    const findings = (entry: FlowAudit) => entry.findings.filter(({ rule }) => isMeant(rule));
    return {
      ...this.#counts(entries),
      agents: namesOf(entries, ({ agent }) => [agent]),
      arguments: namesOf(entries, (entry) => findings(entry).map(({ argument }) => argument)),
      sources: namesOf(entries, (entry) => findings(entry).map(({ source }) => source?.name)),
      firstAt: times[0] ?? '',
      lastAt: times.at(-1) ?? '',
    };
  }

  #counts(entries: readonly FlowAudit[]): FlowCounts {
    const counts = { flagged: 0, blocked: 0, asked: 0, granted: 0, denied: 0, declassified: 0 };
    for (const entry of entries) counts[this.#outcomeOf(entry)] += 1;
    return { ...counts, runs: new Set(entries.map(({ runId }) => runId)).size };
  }

  #outcomeOf(entry: FlowAudit): Outcome {
    const { decision, by } = entry;
    const isAnswer = by !== undefined || this.#asked.has(callOf(entry));
    if (decision === 'blocked' && isAnswer) return 'denied';
    return decision === 'declassified' && isAnswer ? 'granted' : decision;
  }
}

function callOf({ runId, toolCallId }: FlowAudit): string {
  return `${runId} ${toolCallId}`;
}

/** Each name once, those of most entries first. */
function namesOf<T extends string>(
  entries: readonly FlowAudit[],
  of: (entry: FlowAudit) => readonly (T | undefined)[],
): T[] {
  const counts = new Map<T, number>();
  for (const entry of entries)
    for (const name of new Set(of(entry))) if (name !== undefined) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts]
    .sort(([, a], [, b]) => b - a)
    .slice(0, maxNames)
    .map(([name]) => name);
}

function mostCalls(a: FlowCounts, b: FlowCounts): number {
  return total(b) - total(a);
}

/** Calls, each counted once: those that people were asked about are not counted by their answers again. */
function total({ flagged, blocked, asked, declassified }: FlowCounts): number {
  return flagged + blocked + asked + declassified;
}
