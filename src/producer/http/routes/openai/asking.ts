import type { FastifyReply, FastifyRequest } from 'fastify';
import { canonicalJson } from '../../../../shared/base/json.ts';
import { RunError } from '../../../../shared/base/errors.ts';
import { newNonce, sha256 } from '../../../../shared/base/ids.ts';
import type { HistoryMessage } from '../../../../shared/contract/request/history.ts';
import { isTerminalStatus, type RunRecord, type RunRequestInput } from '../../../../shared/contract/run.ts';
import { unlabelled } from '../../../../shared/contract/flow-label.ts';
import { MillraceClient } from '../../../client/facade.ts';
import type { RunHandle } from '../../../client/run-handle.ts';
import type { WireStore } from '../../../client/wire/wire-store.ts';
import { fieldsLeftToAgent, runRequestOf, type PreviousTurn, type WireEndpoint } from '../../../openai/run-request.ts';
import type { Services } from '../../app.ts';

/** The run that a request is answered with. */
export interface AskedRun {
  readonly run: RunHandle;
  readonly request: RunRequestInput;
}

type Call = Pick<FastifyRequest, 'mill' | 'body' | 'headers' | 'caller'>;

/**
 * Accepts the run that a request asks for, or finds the one that an earlier try of the same request has. The answer names the run
 * and the fields that the agent decides in headers.
 */
export async function askRun(
  endpoint: WireEndpoint,
  call: Call,
  reply: FastifyReply,
  { metrics }: Pick<Services, 'metrics'>,
): Promise<AskedRun> {
  const { mill, body } = call;
  if (body === undefined || body === null) throw new RunError('invalid_json', 'the body is empty');
  const wire = wireOf(mill);
  const previous = await previousOf(body, wire);
  const asked = runRequestOf(endpoint, body, { previous });
  const executionId = await executionIdOf(endpoint, call, wire);
  const request = { ...asked, executionId };
  const run = await inConversation(request, mill, (whole) => metrics.asking(async () => await mill.enqueue(whole)));
  void reply.header('x-millrace-run-id', run.runId);
  const left = fieldsLeftToAgent(endpoint, body);
  if (left.length > 0) void reply.header('x-millrace-decided-by-agent', left.join(', '));
  return { run, request };
}

/** Of the process that serves these routes. */
export function wireOf(mill: MillraceClient): WireStore {
  const wire = MillraceClient.wireOf(mill);
  if (!wire) throw new RunError('internal', 'this client has no Redis');
  return wire;
}

/**
 * A key of the caller's own names the request. Clients of OpenAI send none, but count their tries: a later one of the same credential
 * with the same body finds the first.
 */
async function executionIdOf(
  endpoint: WireEndpoint,
  { headers, caller, body }: Call,
  wire: WireStore,
): Promise<string> {
  const key = headers['idempotency-key'];
  if (typeof key === 'string') return key;
  const tries = headers['x-stainless-retry-count'];
  if (typeof tries !== 'string' || !/^\d{1,6}$/.test(tries)) return `wire-${newNonce()}`;
  return await wire.executionIdOf(sha256(canonicalJson([caller, endpoint, body])), Number(tries) > 0);
}

/** The response that a body says it continues. Throws `not_found`, and `concurrent_run` for one that has not ended. */
async function previousOf(body: object, wire: WireStore): Promise<PreviousTurn | undefined> {
  const id: unknown = Reflect.get(body, 'previous_response_id');
  if (typeof id !== 'string') return undefined;
  const record = await storedRun(id, wire);
  const { runId, request } = record;
  if (!isTerminalStatus(record.status))
    throw new RunError('concurrent_run', `response ${id} has not ended: what follows it begins with its answer`, {
      details: { runId },
    });
  if (request.thread !== undefined) return { runId, thread: request.thread, history: [] };
  return { runId, thread: undefined, history: [...(request.history ?? []), ...turnOf(record)] };
}

/** What was said in the turn of a run. An answer that was written after others were read keeps its label. */
function turnOf({ request: { input }, result, flow, toolCalls = 0 }: RunRecord): readonly HistoryMessage[] {
  const asked: HistoryMessage[] = input === '' ? [] : [{ role: 'user', content: input }];
  const content = result?.text ?? '';
  if (content === '') return asked;
  const label = flow ?? (toolCalls > 0 ? unlabelled : undefined);
  const isClean = !label || (label.sources.length === 0 && label.sensitivity === undefined);
  return [...asked, isClean ? { role: 'assistant', content } : { role: 'assistant', content, flow: label }];
}

/** The run behind the id of a response or a completion. One that is not to be stored is as if it were not there. Throws `not_found`. */
export async function storedRun(id: string, wire: WireStore): Promise<RunRecord> {
  const missing = new RunError('not_found', `there is no response ${id}`);
  const runId = /^resp_([0-9A-HJKMNP-TV-Z]{26})$/.exec(id)?.[1];
  if (runId === undefined) throw missing;
  const record = await wire.record(runId).catch((error: unknown) => {
    throw error instanceof RunError && error.code === 'run_not_found' ? missing : error;
  });
  if (record.request.store === false) throw missing;
  return record;
}

/** A conversation has to be there. What it was made with goes before the first run in it. */
async function inConversation(
  request: RunRequestInput & { readonly executionId: string },
  mill: MillraceClient,
  accept: (request: RunRequestInput) => Promise<RunHandle>,
): Promise<RunHandle> {
  const { executionId, wire: origin } = request;
  const id = origin?.conversation;
  if (id === undefined) return await accept(request);
  const wire = wireOf(mill);
  const stored = await wire.readConversation(id);
  if (!stored) await mill.threads.get(id);
  const items = stored ? await wire.takeItems(id, executionId) : [];
  if (items.length === 0) return await accept(request);
  try {
    return await accept({ ...request, history: [...items, ...(request.history ?? [])] });
  } catch (error) {
    const isRefused = error instanceof RunError && error.code !== 'queue_unavailable';
    if (isRefused) await wire.returnItems(id, executionId);
    throw error;
  }
}
