import { decisionRequest, type DecisionRequest } from '../shared/control.ts';
import { RunError } from '../shared/errors.ts';
import type { PendingItem } from '../shared/event.ts';
import type { BudgetView } from '../shared/money.ts';
import type { RedisConnection } from '../shared/redis.ts';
import { resumeRun } from '../shared/resume.ts';
import { isTerminalStatus, viewOf, type RunRecord, type RunView } from '../shared/run.ts';
import { parseAccountName, topUpAccount, type AccountName } from './accounts.ts';
import { topUpOf } from './budgets.ts';
import { leaveLines } from './lines.ts';
import type { Link } from './link.ts';
import { loadRecord } from './reads.ts';
import { checkRunId, invalid } from './validate.ts';

/** Who decides, and a key that makes a repeat of a top-up harmless. */
export interface DecideOptions {
  /** Kept in the journal of the run with the decision; at most 200 characters. */
  readonly by?: string;
  /** With a top-up: the same key again adds nothing. */
  readonly idempotencyKey?: string;
}

/** What a decision leaves behind. */
export interface DecisionAnswer {
  readonly run: RunView;
  /** After a top-up: the account that the run waited for. */
  readonly budget?: BudgetView;
}

const maxByChars = 200;

/**
 * Ends the wait of a run that is suspended for money, or tops up what it waits for. A top-up leaves the run suspended:
 * a worker wakes it as soon as the money is enough.
 */
export async function decideRun(
  id: string,
  tenant: string,
  input: unknown,
  options: DecideOptions,
  link: Link,
): Promise<DecisionAnswer> {
  const runId = checkRunId(id);
  const parsed = decisionRequest.safeParse(input);
  if (!parsed.success) throw invalid('validation', 'the decision is not valid', parsed.error.issues);
  const decision = decisionOf(parsed.data, options);
  return await link.reach(async (redis) => {
    const record = await loadRecord(link, redis, runId, tenant);
    const item = pendingMoney(record);
    const budget =
      decision.kind === 'top_up'
        ? await topUpAccount(accountOf(record, item), tenant, decision.topUp, link, redis)
        : await resume(record, decision, link, redis);
    return { run: viewOf(await loadRecord(link, redis, runId, tenant)), ...(budget && { budget }) };
  });
}

type Decision =
  | { readonly kind: 'top_up'; readonly topUp: { readonly microcents: number; readonly key?: string } }
  | {
      readonly kind: 'verdict';
      readonly budget: 'approve' | 'reject';
      readonly by: string | undefined;
      readonly summary: string;
    };

function decisionOf({ budget, reason }: DecisionRequest, { by, idempotencyKey }: DecideOptions): Decision {
  if (typeof budget === 'object') {
    const topUp = topUpOf(budget.topUpUsd, budget.topUpMicrocents, 'budget.topUpUsd', idempotencyKey);
    return { kind: 'top_up', topUp };
  }
  const verdict = budget === 'approve' ? 'budget approved' : 'budget rejected';
  const summary = reason === undefined ? verdict : `${verdict}: ${reason}`;
  return { kind: 'verdict', budget, by: by?.slice(0, maxByChars), summary };
}

function pendingMoney(record: RunRecord): PendingItem {
  if (isTerminalStatus(record.status)) {
    throw new RunError('already_terminal', `run ${record.runId} has already ended`);
  }
  const item = record.status === 'suspended' ? record.pending.find(({ kind }) => kind === 'budget') : undefined;
  if (!item) throw notPending(record.runId);
  return item;
}

function accountOf({ runId }: RunRecord, item: PendingItem): AccountName {
  const name = parseAccountName(item.id);
  if (name) return name;
  throw new RunError('run_state_malformed', `run ${runId} waits for money of ${item.id}, which is no account`);
}

/** The journal gets the decision in the step that queues the run, so neither is there without the other. */
async function resume(
  record: RunRecord,
  { budget, by, summary }: Extract<Decision, { kind: 'verdict' }>,
  link: Link,
  redis: RedisConnection,
): Promise<undefined> {
  const { runId, segment } = record;
  const { keys, cluster, settings } = link;
  const atMs = Date.now();
  const at = new Date(atMs).toISOString();
  const decided = { v: 1, t: 'decided', at, budget, ...(by !== undefined && { by }) } as const;
  const place = { redis, keys, cluster, eventLogMax: settings.eventLogMax };
  const resumed = await resumeRun(place, runId, { summary, entries: [decided], segment, atMs });
  if (!resumed) throw notPending(runId);
  await leaveLines(record, link, redis);
  // A process that dies here leaves a queued run without a job, which the reconciler puts back.
  await link.queues.add({ ...resumed, runId, priority: undefined, delayMs: undefined, first: true });
}

function notPending(runId: string): RunError {
  return new RunError('approval_not_pending', `run ${runId} does not wait for a decision about money`);
}
