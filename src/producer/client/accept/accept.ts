import { defined } from '../../../shared/base/collections.ts';
import { assertNever, RunError, type ErrorInfo } from '../../../shared/base/errors.ts';
import { newNonce } from '../../../shared/base/ids.ts';
import type { RedisConnection } from '../../../shared/state/connect.ts';
import { isTerminalStatus, maxBulk, workOf, type RunRequest, type RunStatus } from '../../../shared/contract/run.ts';
import {
  createRuns,
  newRun,
  queueOf,
  type Created,
  type NewRun,
  usedBefore,
} from '../../../shared/state/run/create-runs.ts';
import { stopRuns } from '../../../shared/state/run/children/children.ts';
import { familyPorts } from '../cancel.ts';
import type { BulkAnswer, JobToAdd } from '../enqueue.ts';
import { requireOperator, type Caller, parseRequest } from './validate.ts';
import type { ClientCore } from '../client-core.ts';
import { pruneIndex } from '../list-runs.ts';
import { arrive, forgetEnded, isRefusal, lookAgain, type SteeredRun } from './thread-entry.ts';

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
 * leaves a queued run without a job, which the reconciler requeues.
 */
export async function acceptRun(
  input: unknown,
  caller: Caller,
  core: ClientCore,
  signal?: AbortSignal,
): Promise<Accepted> {
  const { tenant } = caller;
  const parsed = parseFor(caller, input);
  const request = core.models.concerns(parsed) ? await core.models.check(parsed) : parsed;
  signal?.throwIfAborted();
  return await core.reach(async (redis) => {
    const run = withQueueTtl(newRun(request, caller, newNonce()), core);
    const warnings = await core.directory.check(run.queue, redis);
    for (const [path, agent] of agentsOf(request)) await core.agents.check(agent, redis, path);
    await takeQuotas(run, core, redis);
    const arrived = await arrive(run, core, redis);
    if (arrived.kind === 'steered') {
      const steered = steeredAnswer(arrived.run);
      core.reportAccepted(run, steered);
      return steered;
    }
    const { waits } = arrived;
    const [created] = (await createRuns([run], tenant, core.runKeySpace(redis))) as [Created];
    const accepted = acceptedOf(run, created, warnings);
    await confirm([[run, created]], core, redis);
    const hasTurn = !waits || (needsJob(created) && (await lookAgain(run, core, redis)));
    if (needsJob(created) && hasTurn) await core.queues.add(jobOf(run, created.segment));
    if (isTerminalStatus(accepted.status)) await forgetEnded(run, core, redis);
    prune(tenant, 1, core);
    core.reportAccepted(run, accepted);
    return accepted;
  });
}

/** The setting is no part of the caller's request: the same request again is the same, also after a change of it. */
function withQueueTtl(run: NewRun, { settings }: ClientCore): NewRun {
  const { queueTtlMs = settings.queueTtlMs } = run.request;
  return queueTtlMs === undefined ? run : { ...run, request: { ...run.request, queueTtlMs } };
}

async function takeQuotas({ tenant, queue }: NewRun, core: ClientCore, redis: RedisConnection): Promise<void> {
  await core.admission.check(tenant, core, redis);
  await core.queues.takeQuota(queue, core.settings.queueMaxLength);
}

/** The run that the request steers. */
function steeredAnswer({ runId, status }: SteeredRun): Accepted {
  return { runId, status, attached: true, warnings: [] };
}

/** Takes many runs in, one answer each, in order. Throws only when there are too many or none could be accepted. */
export async function acceptRuns(
  inputs: readonly unknown[],
  caller: Caller,
  core: ClientCore,
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
      const outcome = unavailable ? refuseAll(chunk, unavailable) : await acceptChunk(chunk, caller, core);
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

async function acceptChunk(inputs: readonly unknown[], caller: Caller, core: ClientCore): Promise<ChunkOutcome> {
  const parsed = await judgeModels(
    inputs.map((input) => parseOrRefuse(input, caller)),
    core,
  );
  try {
    return { answers: await core.reach((redis) => acceptParsed(parsed, caller, core, redis)) };
  } catch (error) {
    if (!(error instanceof RunError) || error.code !== 'queue_unavailable') throw error;
    return { answers: parsed.map((item) => ('error' in item ? item : refusal(error))), unavailable: error };
  }
}

type Parsed = { readonly request: RunRequest } | { readonly error: ErrorInfo };

async function acceptParsed(
  parsed: readonly Parsed[],
  caller: Caller,
  core: ClientCore,
  redis: RedisConnection,
): Promise<BulkAnswer[]> {
  const nonce = newNonce();
  const waiting = new Set<NewRun>();
  const refusals = await refusedAgents(parsed, core, redis);
  const queues = await judgeQueues(parsed, core, redis);
  const items: (NewRun | BulkAnswer)[] = [];
  for (const [i, item] of parsed.entries()) {
    const admitted =
      'error' in item
        ? item
        : await admit(withQueueTtl(newRun(item.request, caller, `${nonce}.${i}`), core), refusals, queues, core, redis);
    items.push('error' in admitted ? admitted : await inThread(admitted, waiting, core, redis));
  }

  const runs = items.filter((item) => 'nonce' in item);
  const created = await createRuns(runs, caller.tenant, core.runKeySpace(redis));
  const outcomes = new Map(runs.map((run, index) => [run, created[index] as Created]));
  await confirm([...outcomes], core, redis);
  const jobs: JobToAdd[] = [];
  for (const run of runs) {
    const outcome = outcomes.get(run);
    if (!outcome || !needsJob(outcome)) continue;
    if (!waiting.has(run) || (await lookAgain(run, core, redis))) jobs.push(jobOf(run, outcome.segment));
  }
  await core.queues.addMany(jobs);
  prune(caller.tenant, runs.length, core);
  return items.map((item) =>
    'nonce' in item ? answerOf(item, outcomes.get(item) as Created, queues.get(item.queue), core) : item,
  );
}

/** What the check of a queue found: that it does not exist, or warnings. */
type QueueVerdict = RunError | readonly string[];

/** Each queue is looked up once, however many requests name it. */
async function judgeQueues(
  parsed: readonly Parsed[],
  core: ClientCore,
  redis: RedisConnection,
): Promise<ReadonlyMap<string, QueueVerdict>> {
  const verdicts = new Map<string, QueueVerdict>();
  for (const item of parsed) {
    if ('error' in item) continue;
    const queue = queueOf(item.request);
    if (verdicts.has(queue)) continue;
    const verdict = core.directory.check(queue, redis).catch((error: unknown) => {
      if (error instanceof RunError && error.code === 'unknown_queue') return error;
      throw error;
    });
    verdicts.set(queue, await verdict);
  }
  return verdicts;
}

type Named = readonly [path: string, agentId: string];

/** Every agent that the request names as one, and where. Judges of a fan-out may be functions, which only workers know. */
function agentsOf(request: RunRequest): readonly Named[] {
  const work = workOf(request);
  const own: Named = ['agent', request.agent];
  switch (work.kind) {
    case 'turn':
    case 'node':
      return [own];
    case 'fanOut':
      return [own, ...work.fanOut.children.map(({ agent }, i): Named => [`fanOut.children.${i}.agent`, agent])];
    case 'evaluate': {
      const { generator, evaluator } = work.evaluate;
      const judge: Named =
        typeof evaluator === 'string'
          ? ['evaluate.evaluator', evaluator]
          : ['evaluate.evaluator.judge', evaluator.judge];
      return [own, ['evaluate.generator', generator], judge];
    }
    case 'task':
      return [];
    default:
      return assertNever(work);
  }
}

/** Each agent is looked up once, however many requests name it. */
async function refusedAgents(
  parsed: readonly Parsed[],
  core: ClientCore,
  redis: RedisConnection,
): Promise<ReadonlyMap<string, RunError>> {
  const refusals = new Map<string, RunError>();
  const agents = new Map(
    parsed.flatMap((item) => ('request' in item ? agentsOf(item.request) : [])).map(([path, id]) => [id, path]),
  );
  for (const [agent, path] of agents) {
    try {
      await core.agents.check(agent, redis, path);
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
  core: ClientCore,
  redis: RedisConnection,
): Promise<NewRun | { readonly error: ErrorInfo }> {
  const queue = queues.get(run.queue);
  if (queue instanceof RunError) return refusal(queue);
  const refused = agentsOf(run.request)
    .map(([, agent]) => refusals.get(agent))
    .find((refusal) => refusal !== undefined);
  if (refused) return refusal(refused);
  try {
    await takeQuotas(run, core, redis);
    return run;
  } catch (error) {
    if (error instanceof RunError && error.code === 'queue_full') return refusal(error);
    throw error;
  }
}

/** The run once it has entered its thread, where it may wait. */
async function inThread(
  run: NewRun,
  waiting: Set<NewRun>,
  core: ClientCore,
  redis: RedisConnection,
): Promise<NewRun | BulkAnswer> {
  try {
    const arrived = await arrive(run, core, redis);
    if (arrived.kind === 'steered') {
      const steered = steeredAnswer(arrived.run);
      core.reportAccepted(run, steered);
      return steered;
    }
    if (arrived.waits) waiting.add(run);
    return run;
  } catch (error) {
    if (isRefusal(error)) return refusal(error);
    throw error;
  }
}

async function judgeModels(parsed: readonly Parsed[], { models }: ClientCore): Promise<readonly Parsed[]> {
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

function answerOf(run: NewRun, created: Created, verdict: QueueVerdict = [], core: ClientCore): BulkAnswer {
  try {
    const accepted = acceptedOf(run, created, verdict instanceof RunError ? [] : verdict);
    core.reportAccepted(run, accepted);
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
  // A run that has ended, or has begun, does not wait for a worker.
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
 * Resolves once a replica has what was created, where that is asked for, and before a worker takes it or is cancelled for it. Runs
 * that no repeat of their request would meet are taken back when none has: the caller gets a refusal.
 */
async function confirm(
  created: readonly (readonly [NewRun, Created])[],
  core: ClientCore,
  redis: RedisConnection,
): Promise<void> {
  if (core.settings.durability !== 'replica') return;
  // One server confirms everything at once; in a Cluster each run is confirmed by the node that has it.
  const asked = core.cluster ? created : created.slice(-1);
  try {
    await Promise.all(asked.map(([{ runId }]) => waitForReplica(core, redis, runId)));
  } catch (error) {
    const unmet = created.filter(([run, { kind }]) => kind === 'created' && run.request.executionId === undefined);
    await stopRuns(
      unmet.map(([{ runId }]) => runId),
      { drain: false, onPendingApprovals: 'deny', reason: 'it was refused: no replica confirmed it' },
      familyPorts(core, redis),
    );
    throw error;
  }
}

/** Sent on the connection that wrote the run's slot; it covers everything written there before. */
async function waitForReplica(core: ClientCore, redis: RedisConnection, runId: string): Promise<void> {
  const results = await redis.pipeline().exists(core.keys.run(runId)).wait(1, replicaTimeoutMs).exec();
  const [error, replicas] = results?.[1] ?? [];
  if (error || Number(replicas ?? 0) < 1) {
    throw new RunError('queue_unavailable', 'no replica confirmed the run in time', { cause: error });
  }
}

/** Runs in the background: what is not pruned now is pruned another time. */
function prune(tenant: string, accepted: number, core: ClientCore): void {
  const sample = core.pruneSample(accepted);
  if (sample > 0) pruneIndex(tenant, sample, core).catch(core.onError);
}

function refusal(error: RunError): { readonly error: ErrorInfo } {
  const { code, message, retryable, details } = error;
  return { error: defined({ code, message, retryable, details }) };
}
