import { asRunError, RunError } from '../../../shared/base/errors.ts';
import { newNonce, sha256 } from '../../../shared/base/ids.ts';
import { canonicalJson } from '../../../shared/base/json.ts';
import { parseAs } from '../../../shared/base/problems.ts';
import { defined } from '../../../shared/base/collections.ts';
import {
  noCounts,
  receiptSha256,
  type ErasedCounts,
  type ErasureKeyView,
  type ErasureReceipt,
  maxUnreadableNamed,
  type UnsignedReceipt,
} from '../../../shared/contract/erasure/receipt.ts';
import {
  dropPlans,
  plansOf,
  writePlan,
  type ErasurePlan,
  type NamedPlan,
} from '../../../shared/state/erasure/plans.ts';
import { erasureKey } from '../../../shared/state/erasure/signing-key.ts';
import { requireOperator, runNotFound, safeInput } from '../accept/validate.ts';
import { noteDeed } from '../audit/note-deed.ts';
import { reach, type TenantClient } from '../client-core.ts';
import { missingRun } from '../record/missing-run.ts';
import { answerOnce, type Keep } from './answer-once.ts';
import { eachFitting } from './fitting.ts';
import { type KnownParents, threadEntries } from './find.ts';
import { planOf, type Reason } from './plan.ts';
import { removePlanned } from './remove.ts';
import { eraseRequest, type Asked, type ErasureAnswer, type EraseRequest } from './request.ts';

/** A call that has more to do than it can in this time leaves the rest to another. */
const maxWorkMs = 20_000;

/**
 * Erases runs with all that belongs to them, and answers a signed receipt. What it is about to remove is written down first: the same
 * request again, after a crash, removes the rest and its receipt counts all. Throws `idempotency_conflict`, `forbidden` for a caller, `run_not_found`, `gone`, `not_found`,
 * `concurrent_run` for a run that has not ended, `validation`.
 */
export async function erase(input: EraseRequest, client: TenantClient): Promise<ErasureAnswer> {
  requireOperator(client, 'erasing data');
  const asked = parseAs(eraseRequest, safeInput(input), 'the request is not valid');
  const { run, thread, metadata: labels, idempotencyKey, ...how } = asked;
  const digest = sha256(canonicalJson(defined({ run, thread, labels })));
  const exactly = sha256(canonicalJson(defined({ digest, ...how })));
  const work = (keep: Keep) => eraseAsked(asked, digest, keep, client);
  if (idempotencyKey === undefined) return await work(async (answer) => answer);
  return await answerOnce({ idempotencyKey, asked: exactly }, work, client);
}

async function eraseAsked(asked: Asked, digest: string, keep: Keep, client: TenantClient): Promise<ErasureAnswer> {
  const erasing: Erasing = { asked, digest, done: new Map(), held: new Map(), parents: new Map() };
  const left = await resume(erasing, client);
  const { unreadable, ...rest } =
    asked.metadata === undefined ? await eraseOne(erasing, client) : await eraseMany(erasing, left, client);
  const { done } = erasing;
  const receipt = await receiptFor(asked, [...done.values()], unreadable, client);
  const answer = await keep(defined({ receipt, ...rest }));
  await reach(client, ({ core, redis, tenant }) => dropPlans({ redis, keys: core.keys }, tenant, [...done.keys()]));
  return answer;
}

/** How far a request is. */
interface Erasing {
  readonly asked: Asked;
  /** Of what it asked for. */
  readonly digest: string;
  /** Plans that are carried out. */
  readonly done: Map<string, ErasurePlan>;
  /** Runs of plans that are not, and why. */
  readonly held: Map<string, Reason>;
  readonly parents: KnownParents;
}

/**
 * Goes on with what an earlier request has begun. A plan that cannot be carried out now stays for a later one. Answers the first run
 * of each of these, and throws for what is not asked for by metadata.
 */
async function resume(erasing: Erasing, client: TenantClient): Promise<ReadonlyMap<string, Reason>> {
  const { run, metadata: labels } = erasing.asked;
  const left = new Map<string, Reason>();
  const { digest } = erasing;
  const begun = await reach(client, ({ core, redis, tenant }) => plansOf({ redis, keys: core.keys }, tenant, digest));
  for (const named of begun) {
    const [, { runs, threads }] = named;
    const ids = runs.map(({ runId }) => runId);
    const [first = ''] = ids;
    const work = carryOut({ runs: ids, threads }, erasing, client, named);
    const why = await (labels === undefined ? work : work.catch(asReason));
    if (why === undefined) continue;
    if (labels === undefined) throw refusal(why, run ?? first);
    for (const runId of ids) erasing.held.set(runId, why);
    left.set(first, why);
  }
  return left;
}

/** Writes down what goes with these, and removes it. Answers why it may not be. `begun`: the plan of an earlier request for the same. */
async function carryOut(
  seeds: Seeds,
  { asked, digest, done, held, parents }: Erasing,
  client: TenantClient,
  begun?: NamedPlan,
): Promise<Reason | undefined> {
  const plan = await planOf(seeds, asked, client, parents, begun?.[1]);
  if (typeof plan === 'string') return plan;
  const named: NamedPlan = [begun?.[0] ?? newNonce(), { ...plan, asked: digest }];
  await reach(client, ({ core, redis, tenant }) => writePlan({ redis, keys: core.keys }, tenant, named));
  try {
    await removePlanned(named[1], client);
  } catch (error) {
    for (const { runId } of plan.runs) held.set(runId, 'open');
    throw error;
  }
  done.set(...named);
  return undefined;
}

interface Seeds {
  readonly runs: readonly string[];
  readonly threads: readonly string[];
}
/** What was left. `unreadable`: runs of which it is not known whether they are meant. */
interface Rest extends Pick<ErasureAnswer, 'kept' | 'cursor'> {
  readonly unreadable: readonly string[];
}

/** Throws why it cannot be erased. Where it was begun earlier there need not be anything left of it. */
async function eraseOne(erasing: Erasing, client: TenantClient): Promise<Rest> {
  const { run, thread } = erasing.asked;
  const wasBegun = erasing.done.size > 0;
  const seeds = { runs: run === undefined ? [] : [run], threads: thread === undefined ? [] : [thread] };
  const why = await carryOut(seeds, erasing, client);
  if (why === undefined || (why === 'gone' && wasBegun)) return { kept: [], unreadable: [] };
  if (why === 'gone' && thread !== undefined && (await threadEntries(thread, client)) === undefined)
    throw new RunError('not_found', `there is no thread ${thread}`);
  if (why === 'gone' && run !== undefined) throw await missingRun(run, client);
  throw refusal(why, run ?? `of thread ${thread}`);
}

function refusal(why: Reason, run: string): RunError {
  switch (why) {
    case 'gone':
      return runNotFound(run);
    case 'open':
      return new RunError(
        'concurrent_run',
        `run ${run}, or one of its family, has not ended: cancel it first, or ask with cancel`,
      );
    case 'in_thread':
      return new RunError(
        'validation',
        `run ${run} has its text in a thread: erase the thread with its runs, or ask with threads`,
      );
    case 'child':
      return new RunError('validation', `run ${run} works for another run, which has its answer: erase that one`);
    case 'in_open_batch':
      return new RunError(
        'concurrent_run',
        `run ${run} is a line of a batch that has not ended: cancel the batch, or wait`,
      );
    default:
      return new RunError('validation', `run ${run} is tied to more than 10,000 others: erase these first`);
  }
}

/** Runs that are erased together: lines of one batch then cost one reading of its files. */
const maxGroup = 25;

/** Groups one after the other: runs of a thread are gone together. */
async function eraseMany(erasing: Erasing, left: ReadonlyMap<string, Reason>, client: TenantClient): Promise<Rest> {
  const { asked, held } = erasing;
  const until = performance.now() + maxWorkMs;
  const kept = new Map(left);
  const unreadable: string[] = [];
  const restOf = (): Rest => ({ kept: [...kept].flatMap(keptAs), unreadable });
  let matched = 0;
  let group: string[] = [];
  const eraseGroup = async () => {
    const runs = group;
    group = [];
    if (runs.length === 0) return;
    const erased = async (seeds: readonly string[]) =>
      await carryOut({ runs: seeds, threads: [] }, erasing, client).catch(asReason);
    if (runs.length > 1 && (await erased(runs)) === undefined) return;
    // One that may not be erased keeps no other.
    for (const runId of runs) {
      const why = held.get(runId) ?? (await erased([runId]));
      if (why !== undefined) kept.set(runId, why);
    }
  };
  for await (const found of eachFitting(asked.metadata ?? {}, asked.cursor, client)) {
    if (found.kind === 'unreadable') {
      unreadable.push(found.runId);
      continue;
    }
    if (found.kind === 'fits') {
      const { runId } = found;
      const why = held.get(runId);
      if (why === undefined) group.push(runId);
      else kept.set(runId, why);
      matched += 1;
    }
    const { cursor } = found;
    const isEnough = matched >= asked.limit || performance.now() > until;
    const isLast = cursor !== undefined && isEnough;
    if (isLast || group.length === maxGroup) await eraseGroup();
    if (isLast) return { ...restOf(), cursor };
  }
  await eraseGroup();
  return restOf();
}

function keptAs([runId, reason]: readonly [string, Reason]): ErasureAnswer['kept'] {
  return reason === 'gone' || reason === 'fits' ? [] : [{ runId, reason }];
}

/** A run that was redriven, or a thread that is used again, since it was looked at. */
function asReason(thrown: unknown): Reason {
  if (asRunError(thrown).code === 'concurrent_run') return 'open';
  throw thrown;
}

async function receiptFor(
  asked: Asked,
  plans: readonly ErasurePlan[],
  left: readonly string[],
  client: TenantClient,
): Promise<ErasureReceipt> {
  const { tenant, by } = client;
  const { run, thread, metadata: labels } = asked;
  const of = run !== undefined ? 'run' : thread !== undefined ? 'thread' : 'runs';
  const sum = (pick: (plan: ErasurePlan) => number) => plans.reduce((total, plan) => total + pick(plan), 0);
  const unreadable = [...new Set([...plans.flatMap((plan) => plan.unreadable), ...left])].sort();
  const names = Object.keys(noCounts) as (keyof ErasedCounts)[];
  const unsigned: UnsignedReceipt = defined({
    kind: 'millrace.erasure-receipt',
    v: 1,
    receiptId: newNonce(),
    tenant,
    at: new Date().toISOString(),
    by,
    of,
    metadataKeys: labels && Object.keys(labels).sort(),
    runs: [...new Set(plans.flatMap((plan) => plan.runs.map(({ runId }) => runId)))].sort(),
    threads: [...new Set(plans.flatMap(({ threads }) => threads))].sort(),
    erased: Object.fromEntries(names.map((name) => [name, sum(({ counts }) => counts[name])])) as ErasedCounts,
    kept: { media: sum(({ kept }) => kept.media.length), files: sum(({ kept }) => kept.files.length) },
    unreadable:
      unreadable.length === 0 ? undefined : { count: unreadable.length, runs: unreadable.slice(0, maxUnreadableNamed) },
  });
  return await reach(client, async (at) => {
    const { core, redis } = at;
    const key = await erasureKey({ redis, keys: core.keys }, core.erasureKey);
    const { receiptId, runs, threads } = unsigned;
    const counts = { runs: runs.length, threads: threads.length };
    await noteDeed(at, { kind: 'erasure', receiptId, receiptSha256: receiptSha256(unsigned), of, ...counts });
    return key.sign(unsigned);
  });
}

/** The public half of the key that receipts of this installation are signed with. */
export async function readErasureKey(client: TenantClient): Promise<ErasureKeyView> {
  return await reach(client, async ({ core, redis }) => {
    return (await erasureKey({ redis, keys: core.keys }, core.erasureKey)).view;
  });
}
