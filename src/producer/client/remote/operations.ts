import { defined } from '../../../shared/base/collections.ts';
import { isRecord } from '../../../shared/base/json.ts';
import { messageOf, RunError } from '../../../shared/base/run-error.ts';
import type { AgentView } from '../../../shared/contract/agent/agent.ts';
import type { ProgressNote, ProgressQuery } from '../../../shared/contract/artifacts.ts';
import type { CancelRequest, DecisionInput } from '../../../shared/contract/control.ts';
import type { FleetView } from '../../../shared/contract/report/fleet.ts';
import type { BudgetView } from '../../../shared/contract/money.ts';
import type { RunView } from '../../../shared/contract/run.ts';
import type { WriteProblem } from '../../../shared/state/write-probe.ts';
import type { MediaFile, ProgressEntry, ProgressInput, ProgressWriting } from '../artifacts.ts';
import type { OpenTurn } from '../chat/known-turn.ts';
import type { ChatOptions, ChatTurnRequest } from '../chat/open-turn.ts';
import type { DecideOptions, DecisionAnswer } from '../decide.ts';
import type { EraseRequest, ErasureAnswer } from '../erase/request.ts';
import type { Operations } from '../operations.ts';
import type { RedriveAnswer, RedriveRequest } from '../redrive.ts';
import type { RunFilter } from '../run-filter.ts';
import { acceptManyRemote, acceptRemote, newKey } from './accept.ts';
import { bytesOf } from './answers.ts';
import { RemoteBatches } from './batches.ts';
import { RemoteBudgets } from './budgets.ts';
import { RemoteFiles } from './files.ts';
import { followAllRemote, followRemote } from './follow.ts';
import { at, isPassingTrouble, Link, type Query } from './link.ts';
import { RemoteMcpPins } from './mcp-pins.ts';
import type { RemoteOptions } from './options.ts';
import { waitRemote } from './results.ts';
import { RemoteThreads } from './threads.ts';

/** A call that goes through many runs. */
const manyAnswerMs = 60_000;
/** Long, for it may wait for runs to end. */
const eraseMs = 300_000;
const maxMediaBytes = 256 * 1024 * 1024;

/** The client over HTTP. Asks nothing yet. Throws `invalid_config` for a URL or a key of a wrong form. */
export function openRemote(options: RemoteOptions): Operations {
  return remoteOperations(new Link(options));
}

function remoteOperations(link: Link): Operations {
  const fleet = () => link.json<FleetView>({ path: '/v1/fleet' });
  return {
    tenant: undefined,
    whoami: () => link.json({ path: '/v1/whoami' }),
    batches: new RemoteBatches(link),
    budgets: new RemoteBudgets(link),
    files: new RemoteFiles(link),
    mcpPins: new RemoteMcpPins(link),
    threads: new RemoteThreads(link),
    accept: (request, signal) => acceptRemote(link, request, signal),
    acceptMany: (requests) => acceptManyRemote(link, requests),
    submitTurn: (request, options) => submitTurn(link, request, options),
    findTurn: (executionId) => link.json({ path: at`/v1/chat/turns/${executionId}` }),
    get: (runId) => link.json({ path: at`/v1/runs/${runId}` }),
    steps: (runId) => link.json({ path: at`/v1/runs/${runId}/steps` }),
    export: (runId) => link.json({ path: at`/v1/runs/${runId}/export`, answerMs: manyAnswerMs }),
    findRunId: async (beginning) => (await link.json<{ runId: string }>({ path: at`/v1/run-ids/${beginning}` })).runId,
    list: (query) => link.json({ path: '/v1/runs', query: filterQuery(query) }),
    count: async (filter) => {
      const query = { ...filterQuery(filter), limit: 1, counts: true };
      return (await link.json<Counted>({ path: '/v1/runs', query, answerMs: manyAnswerMs })).counts;
    },
    result: (runId, options) => waitRemote(link, runId, options),
    events: (runId, options) => followRemote(link, runId, options),
    firehose: (signal) => followAllRemote(link, signal),
    cancel: (runId, request) => cancel(link, runId, request),
    cancelMany: (request) =>
      link.json({ method: 'POST', path: '/v1/runs/cancel', body: { json: request }, answerMs: manyAnswerMs }),
    decide: (runId, decision, options) => decide(link, runId, decision, options),
    redrive: (request) => redrive(link, request),
    approvals: (query) => link.json({ path: '/v1/approvals', query }),
    flows: (query) => link.json({ path: '/v1/flows', query }),
    flowReport: (query) => link.json({ path: '/v1/flows/report', query, answerMs: manyAnswerMs }),
    erase: (request) => erase(link, request),
    erasureKey: () => link.json({ path: '/v1/erasure-key' }),
    audit: (query) => link.json({ path: '/v1/audit', query: { ...query } }),
    costs: (query) => link.json({ path: '/v1/costs', query: { ...query } }),
    series: (query) => link.json({ path: '/v1/metrics/series', query: { ...query } }),
    media: (handle) => media(link, handle),
    progress: (runId, query) => progress(link, runId, query),
    writeProgress: (runId, note, options) => writeProgress(link, runId, note, options),
    agents: async () => (await link.json<{ agents: readonly AgentView[] }>({ path: '/v1/agents' })).agents,
    agent: (id) => link.json({ path: at`/v1/agents/${id}` }),
    registerAgents: () => Promise.reject(onlyOverRedis('registerAgents', 'workers announce their agents')),
    forgetAgents: () => Promise.reject(onlyOverRedis('forgetAgents', 'workers announce their agents')),
    queueDepths: async () => (await fleet()).queues,
    providers: async () => (await fleet()).providers,
    fleet,
    diagnose: () => link.json({ path: '/v1/doctor' }),
    writeProblem: () => writeProblem(link),
    forTenant: () => {
      throw onlyOverRedis('forTenant', 'the API key names the tenant; open a client with the key of the other');
    },
    close: async () => link.close(),
  };
}

/** With a key of its own it can be asked for again when the answer is lost. */
async function erase(
  link: Link,
  { run, thread, metadata, cancel, threads, cursor, limit, idempotencyKey }: EraseRequest,
): Promise<ErasureAnswer> {
  const flags = { cancel: cancel || undefined, threads: threads || undefined };
  const headers = { 'idempotency-key': idempotencyKey ?? newKey() };
  const asked = { method: 'DELETE', answerMs: eraseMs, headers, isRepeatable: true } as const;
  const kept: ErasureAnswer['kept'] = [];
  if (run !== undefined) {
    const { receipt } = await link.json<ErasureAnswer>({ ...asked, path: at`/v1/runs/${run}`, query: flags });
    return { receipt, kept };
  }
  if (thread !== undefined) {
    const query = { runs: true, cancel: flags.cancel };
    const { receipt } = await link.json<ErasureAnswer>({ ...asked, path: at`/v1/threads/${thread}`, query });
    return { receipt, kept };
  }
  const query = { ...flags, cursor, limit, ...filterQuery({ metadata }) };
  return await link.json({ ...asked, path: '/v1/runs', query });
}

interface Counted {
  readonly counts: Awaited<ReturnType<Operations['count']>>;
}

async function submitTurn(
  link: Link,
  request: ChatTurnRequest,
  { executionId, signal }: ChatOptions,
): Promise<OpenTurn> {
  return await link.json({
    method: 'POST',
    path: '/v1/chat/turns',
    query: { stream: false },
    body: { json: request },
    headers: { 'x-execution-id': executionId },
    isRepeatable: true,
    signal,
  });
}

/** A run that the first request has ended, whose answer was lost, is not one that had ended before. */
async function cancel(link: Link, runId: string, request: Partial<CancelRequest>): Promise<RunView> {
  const path = at`/v1/runs/${runId}`;
  const asked = { method: 'POST', path: `${path}/cancel`, body: { json: request } } as const;
  try {
    await link.json(asked);
  } catch (error) {
    if (!isPassingTrouble(error)) throw error;
    await link.json({ ...asked, isRepeatable: true }).catch(async (again: unknown) => {
      const isEnded = again instanceof RunError && again.code === 'already_terminal';
      if (!isEnded || (await link.json<RunView>({ path })).status !== 'cancelled') throw again;
    });
  }
  return await link.json({ path });
}

/** Decisions about calls may be sent again; those about money only with the key of a top-up. */
async function decide(
  link: Link,
  runId: string,
  decision: DecisionInput,
  options: DecideOptions,
): Promise<DecisionAnswer> {
  const isTopUp = isRecord(decision.budget);
  const path = at`/v1/runs/${runId}`;
  const { budget } = await link.json<{ readonly budget?: BudgetView }>({
    method: 'POST',
    path: `${path}/decisions`,
    body: { json: { ...decision, by: options.by } },
    headers: { 'idempotency-key': options.idempotencyKey ?? (isTopUp ? newKey() : undefined) },
    isRepeatable: isTopUp || decision.budget === undefined,
  });
  return defined({ run: await link.json<RunView>({ path }), budget });
}

/** Not sent again where it is about one run: redriven twice it would have failed twice. */
async function redrive(link: Link, { runId, ...filter }: RedriveRequest): Promise<RedriveAnswer> {
  if (runId === undefined) {
    const { redriven, late, skipped, more } = await link.json<RedriveAnswer>({
      method: 'POST',
      path: '/v1/runs/redrive',
      body: { json: filter },
      answerMs: manyAnswerMs,
    });
    return { redriven, late, skipped, more };
  }
  const { deadlineMs, ...others } = filter;
  if (Object.values(others).some((value) => value !== undefined))
    throw new RunError('validation', 'give runId or a filter, one of them');
  await link.json({ method: 'POST', path: at`/v1/runs/${runId}/redrive`, body: { json: { deadlineMs } } });
  return { redriven: [runId], late: [], skipped: 0, more: false };
}

async function media(link: Link, handle: string): Promise<MediaFile> {
  const [, digits] = /^media:\/\/sha256-([0-9a-f]{64})$/.exec(handle) ?? [];
  if (digits === undefined) throw new RunError('invalid_id', 'a handle is media://sha256- and 64 hexadecimal digits');
  return await link.read({ path: at`/v1/media/${digits}`, headers: { accept: '*/*' } }, async (answer) => ({
    mediaType: answer.response.headers.get('content-type') ?? 'application/octet-stream',
    bytes: await bytesOf(answer.response, maxMediaBytes, answer.question),
  }));
}

async function progress(link: Link, runId: string, query: ProgressQuery): Promise<readonly ProgressEntry[]> {
  const path = at`/v1/runs/${runId}/progress`;
  return (await link.json<{ notes: readonly ProgressEntry[] }>({ path, query })).notes;
}

/** With a key of its own where none is given: a request that is sent again writes nothing. */
async function writeProgress(
  link: Link,
  runId: string,
  note: ProgressInput,
  { idempotencyKey = newKey() }: ProgressWriting,
): Promise<ProgressNote> {
  return await link.json({
    method: 'POST',
    path: at`/v1/runs/${runId}/progress`,
    body: { json: note },
    headers: { 'idempotency-key': idempotencyKey },
    isRepeatable: true,
  });
}

/** `metadata` is a parameter for each key. */
function filterQuery({ metadata, ...query }: RunFilter): Query {
  const labels = Object.entries(metadata ?? {}).map(([key, value]) => [`metadata.${key}`, value]);
  return { ...query, ...Object.fromEntries(labels) };
}

/** What `/readyz` says of Redis; it answers 503 while there is a problem. Never throws. */
async function writeProblem(link: Link): Promise<WriteProblem | undefined> {
  try {
    const { redis, reason = '' } = await link.json<Readiness>({ path: '/readyz', alsoGood: [503], repeatMs: 0 });
    return redis === 'refuses' || redis === 'away' ? { redis, reason } : undefined;
  } catch (error) {
    return { redis: 'away', reason: messageOf(error) };
  }
}

interface Readiness {
  readonly redis?: WriteProblem['redis'] | 'ok';
  readonly reason?: string;
}

function onlyOverRedis(method: string, why: string): RunError {
  return new RunError('validation', `${method} is not there over HTTP: ${why}`);
}
