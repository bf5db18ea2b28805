import { RunError, type ErrorInfo } from '../../../shared/base/errors.ts';
import { newNonce } from '../../../shared/base/ids.ts';
import type { RedisConnection } from '../../../shared/state/connect.ts';
import { isTerminalStatus, maxBulk, type RunRequest, type RunStatus } from '../../../shared/contract/run.ts';
import { agentsOf } from '../../../shared/contract/orchestration/program-request.ts';
import { createRuns, newRun, queueOf, type Created, type NewRun } from '../../../shared/state/run/create-runs.ts';
import { stopRuns } from '../../../shared/state/run/children/children.ts';
import { usedBefore } from '../../../shared/state/run/claim-request.ts';
import { familyOf } from '../cancel.ts';
import type { BulkAnswer, JobToAdd } from '../enqueue.ts';
import { requireOperator, type Caller } from './caller.ts';
import { placeOf } from '../layout.ts';
import type { Link } from '../client-core.ts';
import { tellAccepted } from './tell-accepted.ts';
import { pruneIndex } from '../list-runs.ts';
import { arrive, forgetEnded, lookAgain, type Listener } from './thread-entry.ts';
import { parseRequest } from './validate.ts';

interface Accepted {
  readonly runId: string;
  readonly status: RunStatus;
  readonly attached: boolean;
  readonly warnings: readonly string[];
}

/** Runs that are created and queued in one pair of round trips. */
const chunkSize = 500;
const replicaTimeoutMs = 500;

/**
 * Takes one run in: checks it, creates its record, adds its job, and only then answers. A process that dies in between
 * leaves a queued run without a job, which the reconciler puts back.
 */
export async function acceptRun(input: unknown, caller: Caller, link: Link, signal?: AbortSignal): Promise<Accepted> {
  const { tenant } = caller;
  const parsed = parseFor(caller, input);
  const request = link.models.concerns(parsed) ? await link.models.check(parsed) : parsed;
  signal?.throwIfAborted();
  return await link.reach(async (redis) => {
    const run = withQueueTtl(newRun(request, caller, newNonce()), link);
    const warnings = await link.directory.check(run.queue, redis);
    for (const [path, agent] of agentsOf(request)) await link.agents.check(agent, redis, path);
    await takePlace(run, link, redis);
    const arrived = await arrive(run, link, redis);
    if (arrived.kind === 'said') {
      const said = saidTo(arrived.listener);
      tellAccepted(run, said, link);
      return said;
    }
    const { waits } = arrived;
    const [created] = (await createRuns([run], tenant, placeOf(link, redis))) as [Created];
    const accepted = acceptedOf(run, created, warnings);
    await confirm([[run, created]], link, redis);
    const hasTurn = !waits || (needsJob(created) && (await lookAgain(run, link, redis)));
    if (needsJob(created) && hasTurn) await link.queues.add(jobOf(run, created.segment));
    if (isTerminalStatus(accepted.status)) await forgetEnded(run, link, redis);
    prune(tenant, 1, link);
    tellAccepted(run, accepted, link);
    return accepted;
  });
}

/** The setting is none of the caller's words: the same request again is the same, also after a change of it. */
function withQueueTtl(run: NewRun, { settings }: Link): NewRun {
  const { queueTtlMs = settings.queueTtlMs } = run.request;
  return queueTtlMs === undefined ? run : { ...run, request: { ...run.request, queueTtlMs } };
}

async function takePlace({ tenant, queue }: NewRun, link: Link, redis: RedisConnection): Promise<void> {
  await link.admission.check(tenant, link, redis);
  await link.queues.takePlace(queue, link.settings.queueMaxLength);
}

/** The run that hears what the request says. */
function saidTo({ runId, status }: Listener): Accepted {
  return { runId, status, attached: true, warnings: [] };
}

/** Takes many runs in, one answer each, in order. Throws only when there are too many or none could be accepted. */
export async function acceptRuns(
  inputs: readonly unknown[],
  caller: Caller,
  link: Link,
): Promise<readonly BulkAnswer[]> {
  if (inputs.length > maxBulk) throw new RunError('validation', `at most ${maxBulk} runs in one request`);
  const chunks: (readonly unknown[])[] = [];
  for (let start = 0; start < inputs.length; start += chunkSize) chunks.push(inputs.slice(start, start + chunkSize));

  const outcomes: ChunkOutcome[] = [];
  let next = 0;
  let unavailable: RunError | undefined;
  // Two at a time: while Redis works on one chunk, the next is made ready here.
  const lane = async () => {
    for (let index = next++; index < chunks.length; index = next++) {
      const chunk = chunks[index] ?? [];
      const outcome = unavailable ? refuseAll(chunk, unavailable) : await acceptChunk(chunk, caller, link);
      outcomes[index] = outcome;
      unavailable ??= outcome.unavailable;
    }
  };
  await Promise.all([lane(), lane()]);
  const answers = outcomes.flatMap((outcome) => outcome.answers);
  if (unavailable && !answers.some((answer) => 'runId' in answer)) throw unavailable;
  return answers;
}

interface ChunkOutcome {
  readonly answers: readonly BulkAnswer[];
  readonly unavailable?: RunError;
}

/** Once Redis has failed, the rest is refused at once: finding out again for each chunk would take minutes. */
function refuseAll(inputs: readonly unknown[], unavailable: RunError): ChunkOutcome {
  return { answers: inputs.map(() => refusal(unavailable)), unavailable };
}

async function acceptChunk(inputs: readonly unknown[], caller: Caller, link: Link): Promise<ChunkOutcome> {
  const parsed = await judgeModels(
    inputs.map((input) => parseOrRefuse(input, caller)),
    link,
  );
  try {
    return { answers: await link.reach((redis) => acceptParsed(parsed, caller, link, redis)) };
  } catch (error) {
    if (!(error instanceof RunError) || error.code !== 'queue_unavailable') throw error;
    return { answers: parsed.map((item) => ('error' in item ? item : refusal(error))), unavailable: error };
  }
}

type Parsed = { readonly request: RunRequest } | { readonly error: ErrorInfo };

async function acceptParsed(
  parsed: readonly Parsed[],
  caller: Caller,
  link: Link,
  redis: RedisConnection,
): Promise<BulkAnswer[]> {
  const nonce = newNonce();
  const waiting = new Set<NewRun>();
  const refusals = await refusedAgents(parsed, link, redis);
  const queues = await judgeQueues(parsed, link, redis);
  const items: (NewRun | BulkAnswer)[] = [];
  for (const [i, item] of parsed.entries()) {
    const admitted =
      'error' in item
        ? item
        : await admit(withQueueTtl(newRun(item.request, caller, `${nonce}.${i}`), link), refusals, queues, link, redis);
    items.push('error' in admitted ? admitted : await inThread(admitted, waiting, link, redis));
  }

  const runs = items.filter((item) => 'nonce' in item);
  const created = await createRuns(runs, caller.tenant, placeOf(link, redis));
  const outcomes = new Map(runs.map((run, index) => [run, created[index] as Created]));
  await confirm([...outcomes], link, redis);
  const jobs: JobToAdd[] = [];
  for (const run of runs) {
    const outcome = outcomes.get(run);
    if (!outcome || !needsJob(outcome)) continue;
    if (!waiting.has(run) || (await lookAgain(run, link, redis))) jobs.push(jobOf(run, outcome.segment));
  }
  await link.queues.addMany(jobs);
  prune(caller.tenant, runs.length, link);
  return items.map((item) =>
    'nonce' in item ? answerOf(item, outcomes.get(item) as Created, queues.get(item.queue), link) : item,
  );
}

/** What is to be said about a queue: that it does not exist, or warnings. */
type QueueVerdict = RunError | readonly string[];

/** Each queue is looked up once, however many requests name it. */
async function judgeQueues(
  parsed: readonly Parsed[],
  link: Link,
  redis: RedisConnection,
): Promise<ReadonlyMap<string, QueueVerdict>> {
  const verdicts = new Map<string, QueueVerdict>();
  for (const item of parsed) {
    if ('error' in item) continue;
    const queue = queueOf(item.request);
    if (verdicts.has(queue)) continue;
    const verdict = link.directory.check(queue, redis).catch((error: unknown) => {
      if (error instanceof RunError && error.code === 'unknown_queue') return error;
      throw error;
    });
    verdicts.set(queue, await verdict);
  }
  return verdicts;
}

/** Each agent is looked up once, however many requests name it. */
async function refusedAgents(
  parsed: readonly Parsed[],
  link: Link,
  redis: RedisConnection,
): Promise<ReadonlyMap<string, RunError>> {
  const refusals = new Map<string, RunError>();
  const agents = new Map(
    parsed.flatMap((item) => ('request' in item ? agentsOf(item.request) : [])).map(([path, id]) => [id, path]),
  );
  for (const [agent, path] of agents) {
    try {
      await link.agents.check(agent, redis, path);
    } catch (error) {
      if (!(error instanceof RunError) || error.code !== 'validation') throw error;
      refusals.set(agent, error);
    }
  }
  return refusals;
}

async function admit(
  run: NewRun,
  refusals: ReadonlyMap<string, RunError>,
  queues: ReadonlyMap<string, QueueVerdict>,
  link: Link,
  redis: RedisConnection,
): Promise<NewRun | { readonly error: ErrorInfo }> {
  const queue = queues.get(run.queue);
  if (queue instanceof RunError) return refusal(queue);
  const refused = agentsOf(run.request)
    .map(([, agent]) => refusals.get(agent))
    .find((refusal) => refusal !== undefined);
  if (refused) return refusal(refused);
  try {
    await takePlace(run, link, redis);
    return run;
  } catch (error) {
    if (error instanceof RunError && error.code === 'queue_full') return refusal(error);
    throw error;
  }
}

/** The run with its place in its thread, where it may wait. */
async function inThread(
  run: NewRun,
  waiting: Set<NewRun>,
  link: Link,
  redis: RedisConnection,
): Promise<NewRun | BulkAnswer> {
  try {
    const arrived = await arrive(run, link, redis);
    if (arrived.kind === 'said') {
      const said = saidTo(arrived.listener);
      tellAccepted(run, said, link);
      return said;
    }
    if (arrived.waits) waiting.add(run);
    return run;
  } catch (error) {
    if (error instanceof RunError && error.code !== 'queue_unavailable') return refusal(error);
    throw error;
  }
}

async function judgeModels(parsed: readonly Parsed[], { models }: Link): Promise<readonly Parsed[]> {
  const judge = async (item: Parsed): Promise<Parsed> => {
    if ('error' in item || !models.concerns(item.request)) return item;
    try {
      return { request: await models.check(item.request) };
    } catch (error) {
      if (error instanceof RunError) return refusal(error);
      throw error;
    }
  };
  const isConcerned = parsed.some((item) => 'request' in item && models.concerns(item.request));
  return isConcerned ? await Promise.all(parsed.map(judge)) : parsed;
}

function parseFor(caller: Caller, input: unknown): RunRequest {
  const request = parseRequest(input);
  if (request.raise) requireOperator(caller, 'raise');
  return request;
}

function parseOrRefuse(input: unknown, caller: Caller): Parsed {
  try {
    return { request: parseFor(caller, input) };
  } catch (error) {
    if (error instanceof RunError) return refusal(error);
    throw error;
  }
}

function answerOf(run: NewRun, created: Created, verdict: QueueVerdict = [], link: Link): BulkAnswer {
  try {
    const accepted = acceptedOf(run, created, verdict instanceof RunError ? [] : verdict);
    tellAccepted(run, accepted, link);
    return accepted;
  } catch (error) {
    if (error instanceof RunError) return refusal(error);
    throw error;
  }
}

function acceptedOf(run: NewRun, created: Created, warnings: readonly string[]): Accepted {
  const { runId, request } = run;
  if (created.kind === 'conflict') {
    throw usedBefore(request.executionId);
  }
  // A run that has ended, or has begun, waits for nobody.
  const waits = created.status === 'queued';
  return { runId, status: created.status, attached: created.kind === 'attached', warnings: waits ? warnings : [] };
}

/** Also when attaching: the first call may have died before it added the job. Its id is the same, so a repeat is harmless. */
function needsJob(created: Created): created is Exclude<Created, { kind: 'conflict' }> {
  return created.kind !== 'conflict' && created.status === 'queued';
}

function jobOf(run: NewRun, segment: number): JobToAdd {
  const { queue, kind, runId, request } = run;
  return { queue, kind, runId, segment, priority: request.priority, delayMs: request.delayMs };
}

/**
 * Resolves once a replica has what was created, where that is asked for, and before anybody works on it or is cancelled for it. Runs
 * that no repeat of their request would meet are taken back when none has: the caller is told that they were refused.
 */
async function confirm(
  created: readonly (readonly [NewRun, Created])[],
  link: Link,
  redis: RedisConnection,
): Promise<void> {
  if (link.settings.durability !== 'replica') return;
  // One server confirms everything at once; in a Cluster each run is confirmed by the node that has it.
  const asked = link.cluster ? created : created.slice(-1);
  try {
    await Promise.all(asked.map(([{ runId }]) => waitForReplica(link, redis, runId)));
  } catch (error) {
    const unmet = created.filter(([run, { kind }]) => kind === 'created' && run.request.executionId === undefined);
    await stopRuns(
      unmet.map(([{ runId }]) => runId),
      { drain: false, onPendingApprovals: 'deny', reason: 'it was refused: no replica confirmed it' },
      familyOf(link, redis),
    );
    throw error;
  }
}

/** Sent on the connection that wrote the run's slot; it covers everything written there before. */
async function waitForReplica(link: Link, redis: RedisConnection, runId: string): Promise<void> {
  const results = await redis.pipeline().exists(link.keys.run(runId)).wait(1, replicaTimeoutMs).exec();
  const [error, replicas] = results?.[1] ?? [];
  if (error || Number(replicas ?? 0) < 1) {
    throw new RunError('queue_unavailable', 'no replica confirmed the run in time', { cause: error });
  }
}

/** Nobody waits for it: what is not pruned now is pruned another time. */
function prune(tenant: string, accepted: number, link: Link): void {
  const sample = link.pruneSample(accepted);
  if (sample > 0) pruneIndex(tenant, sample, link).catch(link.onError);
}

function refusal(error: RunError): { readonly error: ErrorInfo } {
  const { code, message, retryable, details } = error;
  return { error: { code, message, retryable, ...(details !== undefined && { details }) } };
}
