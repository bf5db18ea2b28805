import { defined, inLanes } from '../../../shared/base/collections.ts';
import { assertNever, RunError, type ErrorCode, type ErrorInfo } from '../../../shared/base/errors.ts';
import { newNonce } from '../../../shared/base/ids.ts';
import { inputFileTtlS } from '../../../shared/contract/input-parts.ts';
import {
  isTerminalStatus,
  maxBulk,
  workOf,
  type AskedRun,
  type RunInput,
  type RunRequest,
} from '../../../shared/contract/run.ts';
import {
  createRuns,
  newRun,
  queueOf,
  type Created,
  type NewRun,
  usedBefore,
} from '../../../shared/state/run/create-runs.ts';
import { stopRuns } from '../../../shared/state/run/children/children.ts';
import { takeInput } from '../../../shared/state/inputs/take-input.ts';
import { familyPorts } from '../cancel.ts';
import type { Accepted, BulkAnswer, JobToAdd } from '../enqueue.ts';
import { requireOperator, parseRequest } from './validate.ts';
import { reach, type Connected, type Reached, type TenantClient } from '../client-core.ts';
import { pruneIndex } from '../list-runs.ts';
import { arrive, forgetEnded, isRefusal, lookAgain } from './thread-entry.ts';

/** Runs that are created and queued in one pair of round trips. */
const chunkSize = 500;
const replicaTimeoutMs = 500;
/** Requests of a chunk that are read at the same time. */
const readAtOnce = 4;

/**
 * Takes one run in: checks it, creates its record, adds its job, and only then answers. A process that dies in between
 * leaves a queued run without a job, which the reconciler requeues.
 */
export async function acceptRun(input: unknown, client: TenantClient, signal?: AbortSignal): Promise<Accepted> {
  const read = readRequest(input, client);
  // Without a wait where none is needed: a call that has begun is finished also while the client closes.
  const request = read instanceof Promise ? await read : read;
  signal?.throwIfAborted();
  const [answer] = await acceptRequests([request], client);
  if (!answer || answer instanceof RunError) throw answer;
  return answer;
}

/** Takes many runs in, one answer each, in order. Throws only when there are too many or none could be accepted. */
export async function acceptRuns(inputs: readonly unknown[], client: TenantClient): Promise<readonly BulkAnswer[]> {
  if (inputs.length > maxBulk) throw new RunError('validation', `at most ${maxBulk} runs in one request`);
  const chunks: (readonly (Accepted | RunError)[])[] = [];
  let unavailable: RunError | undefined;
  const starts = Array.from({ length: Math.ceil(inputs.length / chunkSize) }, (_, index) => index * chunkSize);
  // Two at a time: while Redis works on one chunk, the next is made ready here.
  await inLanes(starts, 2, async (start) => {
    const refusal = unavailable;
    const chunk = inputs.slice(start, start + chunkSize);
    // Once Redis has failed, the rest is refused at once: finding out again for each chunk would take minutes.
    if (refusal) {
      chunks[start / chunkSize] = chunk.map(() => refusal);
      return;
    }
    const requests = await readAll(chunk, client);
    const answers = await orRefusal(() => acceptRequests(requests, client), hasCode('queue_unavailable'));
    if (answers instanceof RunError) unavailable ??= answers;
    chunks[start / chunkSize] =
      answers instanceof RunError ? requests.map((it) => (it instanceof RunError ? it : answers)) : answers;
  });
  const answers = chunks.flat();
  if (unavailable && answers.every((answer) => answer instanceof RunError)) throw unavailable;
  return answers.map((answer) => (answer instanceof RunError ? refusalOf(answer) : answer));
}

const hasCode = (code: ErrorCode) => (error: RunError) => error.code === code;

/** The result, or the error that refuses one request and does not hinder the others. */
async function orRefusal<T>(
  work: () => Promise<T>,
  refuses: (error: RunError) => boolean = () => true,
): Promise<T | RunError> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof RunError && refuses(error)) return error;
    throw error;
  }
}

/** Each request, or why it is refused. Those with files a few at a time: their bytes are in memory. */
async function readAll(inputs: readonly unknown[], client: TenantClient): Promise<readonly (RunRequest | RunError)[]> {
  const read: (RunRequest | RunError)[] = [];
  await inLanes([...inputs.entries()], readAtOnce, async ([index, input]) => {
    read[index] = await orRefusal(async () => await readRequest(input, client));
  });
  return read;
}

function readRequest(input: unknown, client: TenantClient): RunRequest | Promise<RunRequest> {
  const asked = parseRequest(input);
  if (asked.raise) requireOperator(client, 'raise');
  const { input: given } = asked;
  if (typeof given !== 'string') return readParts(asked, given, client);
  return checkModels({ ...asked, input: given }, client);
}

function checkModels(request: RunRequest, { core: { models } }: TenantClient): RunRequest | Promise<RunRequest> {
  return models.concerns(request) ? models.check(request) : request;
}

/** The model first: a refused request leaves no files behind. */
async function readParts(asked: AskedRun, input: Exclude<RunInput, string>, client: TenantClient): Promise<RunRequest> {
  const request = await checkModels({ ...asked, input: '' }, client);
  const keepS = inputFileTtlS + Math.ceil((asked.delayMs ?? 0) / 1_000);
  const about = { tenant: client.tenant, path: 'input', keepS };
  return { ...request, ...(await takeInput(input, { ...about, stores: client.core.inputs })) };
}

type Answers = readonly (Accepted | RunError)[];

async function acceptRequests(requests: readonly (RunRequest | RunError)[], client: TenantClient): Promise<Answers> {
  return await reach(client, (at) => acceptIn(requests, at));
}

async function acceptIn(requests: readonly (RunRequest | RunError)[], at: Reached): Promise<Answers> {
  const { core, redis, tenant } = at;
  const nonce = newNonce();
  const runOf = (request: RunRequest, i: number) => withQueueTtl(newRun(request, at, `${nonce}.${i}`), at);
  const readable = requests.flatMap((request) => (request instanceof RunError ? [] : [request]));
  const checks = await checkNames(readable, at);
  const waiting = new Set<NewRun>();
  const items: (NewRun | Accepted | RunError)[] = [];
  for (const [i, request] of requests.entries()) {
    if (request instanceof RunError) items.push(request);
    else items.push(checks.refusalOf(request) ?? (await admit(runOf(request, i), waiting, at)));
  }

  const runs = items.filter((item) => 'nonce' in item);
  const created = await createRuns(runs, tenant, core.runKeySpace(redis));
  const outcomes = new Map(runs.map((run, index) => [run, created[index] as Created]));
  await confirm([...outcomes], at);
  const jobs: JobToAdd[] = [];
  for (const [run, outcome] of outcomes) {
    if (!needsJob(outcome)) continue;
    if (!waiting.has(run) || (await lookAgain(run, at))) jobs.push(jobOf(run, outcome.segment));
  }
  await core.queues.addMany(jobs);
  for (const [run, outcome] of outcomes) if (hasEnded(outcome)) await forgetEnded(run, at);
  prune(runs.length, at);
  return items.map((item) =>
    'nonce' in item ? answerOf(item, outcomes.get(item) as Created, checks.warningsOf(item.queue), at) : item,
  );
}

/** The setting is no part of the caller's request: the same request again is the same, also after a change of it. */
function withQueueTtl(run: NewRun, { core }: Connected): NewRun {
  const { queueTtlMs = core.settings.queueTtlMs || undefined } = run.request;
  return queueTtlMs === undefined ? run : { ...run, request: { ...run.request, queueTtlMs } };
}

/** Looks up each queue and each agent once, however many requests name it. */
async function checkNames(requests: readonly RunRequest[], { core, redis }: Connected) {
  const queues = new Map<string, RunError | readonly string[]>();
  for (const queue of new Set(requests.map(queueOf)))
    queues.set(queue, await orRefusal(() => core.directory.check(queue, redis), hasCode('unknown_queue')));
  const agents = new Map<string, RunError | void>();
  for (const [path, agent] of requests.flatMap(agentsOf)) {
    if (agents.has(agent)) continue;
    agents.set(agent, await orRefusal(() => core.agents.check(agent, redis, path), hasCode('validation')));
  }
  const versions = new Map<string, RunError | void>();
  for (const { agent, agentVersion: wanted } of requests) {
    const key = `${agent}@${wanted}`;
    if (wanted === undefined || versions.has(key)) continue;
    versions.set(key, await orRefusal(() => core.agents.checkVersion(agent, wanted, redis), hasCode('validation')));
  }
  return {
    refusalOf(request: RunRequest): RunError | undefined {
      const version = versions.get(`${request.agent}@${request.agentVersion}`);
      const found = [queues.get(queueOf(request)), version, ...agentsOf(request).map(([, agent]) => agents.get(agent))];
      return found.find((verdict) => verdict instanceof RunError);
    },
    warningsOf(queue: string): readonly string[] {
      const warnings = queues.get(queue);
      return warnings instanceof RunError ? [] : (warnings ?? []);
    },
  };
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
      const named: Named[] = [own, ['evaluate.generator', generator]];
      if (typeof evaluator === 'string') named.push(['evaluate.evaluator', evaluator]);
      else if ('judge' in evaluator) named.push(['evaluate.evaluator.judge', evaluator.judge]);
      return named;
    }
    case 'task':
      return [];
    default:
      return assertNever(work);
  }
}

/** The run, counted against its limits and in its thread, where it may wait; or the run that it steers. */
async function admit(run: NewRun, waiting: Set<NewRun>, at: Connected): Promise<NewRun | Accepted | RunError> {
  const { core, redis } = at;
  return await orRefusal(async () => {
    await core.admission.check(run.tenant, core, redis);
    await core.queues.takeQuota(run.queue, core.settings.queueMaxLength);
    const arrived = await arrive(run, at);
    if (arrived.kind === 'entered') {
      if (arrived.waits) waiting.add(run);
      return run;
    }
    const steered = { ...arrived.run, attached: true, warnings: [] };
    core.reportAccepted(run, steered);
    return steered;
  }, isRefusal);
}

function answerOf(run: NewRun, created: Created, warnings: readonly string[], { core }: Connected) {
  if (created.kind === 'conflict') return usedBefore(run.request.executionId);
  const { status } = created;
  // A run that has ended, or has begun, does not wait for a worker.
  const waits = status === 'queued';
  const accepted = { runId: run.runId, status, attached: created.kind === 'attached', warnings: waits ? warnings : [] };
  core.reportAccepted(run, accepted);
  return accepted;
}

function hasEnded(created: Created): boolean {
  return created.kind !== 'conflict' && isTerminalStatus(created.status);
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
async function confirm(created: readonly (readonly [NewRun, Created])[], at: Connected): Promise<void> {
  const { core } = at;
  if (core.settings.durability !== 'replica') return;
  // One server confirms everything at once; in a Cluster each run is confirmed by the node that has it.
  const asked = core.cluster ? created : created.slice(-1);
  try {
    await Promise.all(asked.map(([{ runId }]) => waitForReplica(runId, at)));
  } catch (error) {
    const unmet = created.filter(([run, { kind }]) => kind === 'created' && run.request.executionId === undefined);
    await stopRuns(
      unmet.map(([{ runId }]) => runId),
      { drain: false, onPendingApprovals: 'deny', reason: 'it was refused: no replica confirmed it' },
      familyPorts(at),
    );
    throw error;
  }
}

/** Sent on the connection that wrote the run's slot; it covers everything written there before. */
async function waitForReplica(runId: string, { core, redis }: Connected): Promise<void> {
  const results = await redis.pipeline().exists(core.keys.run(runId)).wait(1, replicaTimeoutMs).exec();
  const [error, replicas] = results?.[1] ?? [];
  if (error || Number(replicas ?? 0) < 1) {
    throw new RunError('queue_unavailable', 'no replica confirmed the run in time', { cause: error });
  }
}

/** Runs in the background: what is not pruned now is pruned another time. */
function prune(accepted: number, client: TenantClient): void {
  const sample = client.core.pruneSample(accepted);
  if (sample > 0) pruneIndex(sample, client).catch(client.core.onError);
}

function refusalOf({ code, message, retryable, details }: RunError): { readonly error: ErrorInfo } {
  return { error: defined({ code, message, retryable, details }) };
}
