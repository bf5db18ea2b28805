import { defined } from '../../shared/base/collections.ts';
import { cleanText } from '../../shared/base/text.ts';
import { decisionRequest, type DecisionRequest } from '../../shared/contract/control.ts';
import { decideAboutRun } from '../../shared/state/run/control/decide.ts';
import { callVerdicts, refusalError, verdictsSummary, type CallVerdict } from '../../shared/contract/decisions.ts';
import { assertNever, RunError } from '../../shared/base/errors.ts';
import type { PendingItem } from '../../shared/contract/event.ts';
import type { BudgetView } from '../../shared/contract/money.ts';
import { isTerminalStatus, type RunRecord, type RunView } from '../../shared/contract/run.ts';
import { parseAccountName, topUpAccount, type AccountName, topUpOf } from './budgets.ts';
import { alreadyEnded } from './accept/already-ended.ts';
import { requireOperator, type Caller, checkRunId, runNotFound, safeInput } from './accept/validate.ts';
import { leaveWaitQueues } from './cancel.ts';
import { reach, type Reached, type TenantClient } from './client-core.ts';
import { loadChildren, loadLegible, loadView } from './read-run.ts';
import { endedOrMissing } from './record/missing-run.ts';
import { checkUpdatedArgs, hasUpdatedArgs } from '../../shared/contract/updated-args.ts';
import { parseAs } from '../../shared/base/problems.ts';

/** Who decides, and a key that makes a repeat of a top-up harmless. */
export interface DecideOptions {
  /** A person, kept with the decision: 1 to 200 characters. Where several people have to agree, one that gives no name does not count. */
  readonly by?: string;
  /** With a top-up: the same key again adds nothing. */
  readonly idempotencyKey?: string;
}

/** The run after a decision. */
export interface DecisionAnswer {
  /** `pending` is what the run still waits for, `decisions` the decisions about its calls so far. */
  readonly run: RunView;
  /** After a top-up: the account that the run waited for. */
  readonly budget?: BudgetView;
}

const maxByChars = 200;

/** After a top-up the run stays suspended: a worker resumes it as soon as the money is enough. */
export async function decideRun(
  id: string,
  input: unknown,
  options: DecideOptions,
  client: TenantClient,
): Promise<DecisionAnswer> {
  const runId = checkRunId(id);
  const request = parseAs(decisionRequest, safeInput(input), 'the decision is not valid');
  const decision = decisionOf(request, options, Date.now());
  try {
    return await decideKept(runId, { request, decision }, client);
  } catch (error) {
    throw await endedOrMissing(runId, error, client);
  }
}

/** Throws `run_not_found` for a run without a record. */
async function decideKept(
  runId: string,
  { request, decision }: { readonly request: DecisionRequest; readonly decision: Decision },
  client: TenantClient,
): Promise<DecisionAnswer> {
  return await reach(client, async (at) => {
    const record = await findAsking(await loadLegible(runId, at), decision.verdicts, at);
    if (isTerminalStatus(record.status)) throw alreadyEnded(runId);
    if (hasUpdatedArgs(request))
      checkUpdatedArgs(record.runId, request, record.pending, await at.core.argumentChecks());
    if (decision.topUp || decision.budget === 'approve') guardMoney(record, client);
    const account = decision.topUp ? accountOf(record) : undefined;
    if (decision.budget || decision.verdicts.length > 0) await apply(record, decision, at);
    const budget = decision.topUp && account ? await topUpAccount(account, decision.topUp, at) : undefined;
    return defined({ run: await loadView(runId, at), budget });
  });
}

/** The run whose call is decided about: this one or one of its children. */
async function findAsking(record: RunRecord, verdicts: readonly CallVerdict[], at: Reached): Promise<RunRecord> {
  const [first] = verdicts;
  if (!first || record.pending.some(({ id }) => id === first.id)) return record;
  for (const child of await loadChildren(record, at)) {
    const found = await findAsking(child, verdicts, at);
    if (found.pending.some(({ id }) => id === first.id)) return found;
  }
  return record;
}

type Decision = ReturnType<typeof decisionOf>;

function decisionOf(request: DecisionRequest, options: DecideOptions, atMs: number) {
  const { budget, reason } = request;
  const by = personOf(options.by);
  const verdicts = callVerdicts(request, by, new Date(atMs).toISOString());
  const topUp =
    typeof budget === 'object'
      ? topUpOf(budget.topUpUsd, budget.topUpMicrocents, 'budget.topUpUsd', options.idempotencyKey)
      : undefined;
  const verdict = typeof budget === 'object' ? undefined : budget;
  const money = verdict && `budget ${verdict === 'approve' ? 'approved' : 'rejected'}`;
  const summary = [money, verdicts.length > 0 ? verdictsSummary(verdicts) : undefined].filter(Boolean).join(', ');
  return {
    verdicts,
    budget: verdict,
    topUp,
    by,
    summary: reason === undefined ? summary : `${summary}: ${reason}`,
    atMs,
  };
}

/** Two spellings of a name that look the same are one person. */
function personOf(by: string | undefined): string | undefined {
  const name = by === undefined ? undefined : cleanText(by).normalize('NFC').trim();
  if (name === undefined || (name !== '' && name.length <= maxByChars)) return name;
  throw new RunError('validation', `by: must be 1 to ${maxByChars} characters`);
}

/** Going past the cap of a tenant, and raising it, needs more than the right to approve calls. */
function guardMoney({ pending }: RunRecord, caller: Caller): void {
  const waits = pending.some(({ kind, id }) => kind === 'budget' && parseAccountName(id)?.scope === 'tenant');
  if (waits) requireOperator(caller, 'a decision about the money of a tenant');
}

function accountOf({ runId, status, pending }: RunRecord): AccountName {
  const item: PendingItem | undefined =
    status === 'suspended' ? pending.find(({ kind }) => kind === 'budget') : undefined;
  if (!item) throw refusalError(runId, { why: 'no_money' });
  const name = parseAccountName(item.id);
  if (name) return name;
  throw new RunError('run_state_malformed', `run ${runId} waits for money of ${item.id}, which is no account`);
}

/** The journal gets the decision in the step that queues the run, so neither is there without the other. */
async function apply(record: RunRecord, decision: Decision, at: Reached): Promise<void> {
  const { core, redis } = at;
  const { runId, segment } = record;
  const { verdicts, budget, by, summary, atMs } = decision;
  const outcome = await decideAboutRun(
    core.runKeySpace(redis),
    runId,
    defined({
      verdicts,
      by,
      actor: at.by,
      summary,
      atMs,
      entry: { v: 1, t: 'decided', at: new Date(atMs).toISOString(), budget, by: budget ? by : undefined },
      // A decision about money must never meet a later wait for it.
      segment: budget ? segment : undefined,
    }),
  );
  switch (outcome.kind) {
    case 'gone':
      throw runNotFound(runId);
    case 'terminal':
      throw alreadyEnded(runId);
    case 'refused':
      throw refusalError(runId, outcome.refusal);
    case 'recorded':
      return;
    case 'resumed':
      await leaveWaitQueues(record, at);
      // A process that dies here leaves a queued run without a job, which the reconciler requeues.
      await core.queues.add({ ...outcome.resumed, runId, priority: undefined, delayMs: undefined, first: true });
      return;
    default:
      assertNever(outcome);
  }
}
