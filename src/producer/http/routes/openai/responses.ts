import { z } from 'zod';
import { RunError } from '../../../../shared/base/errors.ts';
import type { RunEvent } from '../../../../shared/contract/event.ts';
import { isTerminalStatus, viewOf, type RunRecord } from '../../../../shared/contract/run.ts';
import { stoppable } from '../../../client/stop-signal.ts';
import { lastEvents } from '../../../client/chat/chat-turn.ts';
import type { MillraceClient } from '../../../client/facade.ts';
import { responseIdOf, responseOf } from '../../../openai/answer.ts';
import { inputItemsOf, listedItem } from '../../../openai/items.ts';
import { ResponseProjection, type ResponseEvent } from '../../../openai/response-events.ts';
import { responseRequest } from '../../../openai/response-request.ts';
import { wireNameOf } from '../../../openai/run-request.ts';
import type { App, Services } from '../../app.ts';
import { sendStream } from '../../event-stream.ts';
import { route, wholeNumberParam } from '../../openapi.ts';
import { askRun, storedRun, wireOf } from './asking.ts';
import { answerErrorsAsOpenAi, wireErrors } from './error-shape.ts';
import { responseFraming } from './framing.ts';
import { askingHeaders, flagParam, listShape, maxWireBodyBytes, pageOf, pageParams } from './shapes.ts';
import { endOf, projected, waitOf, type OnSuspended, type Wait } from './waiting.ts';

const endpoint = '/v1/responses';

const response = z
  .looseObject({ id: z.string(), object: z.literal('response'), status: z.string() })
  .describe('A response as OpenAI has it; `millrace` has the run and its cost.');
const idParam = z.object({ id: z.string().describe('`resp_` and the id of any run of the tenant.') });

const createSchema = {
  operationId: 'createResponse',
  summary: 'Ask an agent for a response',
  description:
    'The API of OpenAI, for its clients: `model` is an agent. Whether the answer is a stream is decided by `stream` in the body; a stream that broke off is resumed with `GET /v1/responses/{id}?stream=true&starting_after=N`. A client that goes away does not stop the run. Without `background`, a run that waits for a person or for money answers 409 `run_suspended`, and one that takes too long 504 `still_running`; both name the run, which goes on.',
  headers: askingHeaders,
  body: responseRequest,
  response: { 200: response, ...wireErrors },
};

const getSchema = {
  operationId: 'getResponse',
  summary: 'Read a response, or follow it',
  description:
    'With `stream=true` server-sent events, from the first one on or after the number in `starting_after`, then live, until the response has ended. Once its events are past their retention, the last event alone is sent; it has the whole response.',
  params: idParam,
  querystring: z.object({
    stream: flagParam.optional(),
    starting_after: wholeNumberParam(0, Number.MAX_SAFE_INTEGER).optional().describe('Needs `stream`.'),
    include_obfuscation: z.enum(['false']).optional().describe('Answers are never padded.'),
  }),
  response: { 200: response, ...wireErrors },
};

const cancelRoute = route('write', {
  operationId: 'cancelResponse',
  summary: 'Cancel a response',
  description: 'One that has ended is answered as it is.',
  params: idParam,
  response: { 200: response, ...wireErrors },
});

const deleteRoute = route('write', {
  operationId: 'deleteResponse',
  summary: 'Delete a response',
  description:
    'Removes the record, the journal and the events of its run, which has to have ended: otherwise 409 `concurrent_run`. Its costs, its files and what a conversation has of it stay.',
  params: idParam,
  response: {
    200: z.object({ id: z.string(), object: z.literal('response'), deleted: z.literal(true) }),
    ...wireErrors,
  },
});

const itemsRoute = route('read', {
  operationId: 'listResponseInputItems',
  summary: 'List the input of a response',
  description: 'What was said before its answer, as far as it was in the request or came with the response before it.',
  params: idParam,
  querystring: pageParams,
  response: { 200: listShape(listedItem), ...wireErrors },
});

export function responseRoutes(app: App, services: Services): void {
  answerErrorsAsOpenAi(app, services, wireNameOf(endpoint));
  const config = { access: 'write', waits: true } as const;
  app.post(endpoint, { schema: createSchema, config, bodyLimit: maxWireBodyBytes }, async (request, reply) => {
    const { mill } = request;
    const asked = await askRun(endpoint, request, reply, services);
    using answer = services.openAnswers.wait(reply.raw);
    const wait = waitOf(answer, request, services);
    const { runId } = asked.run;
    const isBackground = asked.request.wire?.background === true;
    if (z.looseObject({ stream: z.literal(true) }).safeParse(request.body).success) {
      const onSuspended: OnSuspended = isBackground ? 'wait' : 'refuse';
      const events = responseEvents(mill, await wireOf(mill).record(runId), 0, { ...wait, onSuspended });
      return await sendStream(events, { framing: responseFraming, look: () => mill.get(runId) }, reply, services);
    }
    const run = isBackground ? await mill.get(runId) : await endOf(mill, runId, wait);
    return await reply.send(responseOf(run, asked.request) as never);
  });
  app.get(
    '/v1/responses/:id',
    { schema: getSchema, config: { access: 'read', waits: true } },
    async (request, reply) => {
      const { mill, params, query } = request;
      const record = await storedRun(params.id, wireOf(mill));
      const { stream = false, starting_after: last } = query;
      if (!stream && last !== undefined) throw new RunError('validation', 'starting_after needs stream=true');
      if (!stream) return await reply.send(responseOf(viewOf(record), record.request) as never);
      using answer = services.openAnswers.wait(reply.raw);
      const following = { ...waitOf(answer, request, services), onSuspended: 'wait' } as const;
      const events = responseEvents(mill, record, last === undefined ? 0 : last + 1, following);
      const look = () => mill.get(record.runId);
      return await sendStream(events, { framing: responseFraming, look }, reply, services);
    },
  );
  app.post('/v1/responses/:id/cancel', cancelRoute, async ({ mill, params }, reply) => {
    const record = await storedRun(params.id, wireOf(mill));
    if (!isTerminalStatus(record.status)) await mill.cancel(record.runId).catch(unlessEnded);
    const now = await wireOf(mill).record(record.runId);
    return await reply.send(responseOf(viewOf(now), now.request) as never);
  });
  app.delete('/v1/responses/:id', deleteRoute, async ({ mill, params }) => {
    const { runId } = await storedRun(params.id, wireOf(mill));
    await wireOf(mill).forget(runId);
    return { id: responseIdOf(runId), object: 'response' as const, deleted: true as const };
  });
  app.get('/v1/responses/:id/input_items', itemsRoute, async ({ mill, params, query }) =>
    pageOf(inputItemsOf(await storedRun(params.id, wireOf(mill))), query),
  );
}

function unlessEnded(error: unknown): void {
  if (!(error instanceof RunError && error.code === 'already_terminal')) throw error;
}

/** The events of a response from this number on. Throws as {@link projected}, and `replay_truncated` while it goes on. */
function responseEvents(
  mill: MillraceClient,
  record: RunRecord,
  from: number,
  following: Wait & { readonly onSuspended: OnSuspended },
): AsyncIterableIterator<ResponseEvent> {
  const projection = new ResponseProjection(record.request);
  const project = (event: RunEvent) => projection.next(event).filter((it) => it.sequence_number >= from);
  return stoppable([], async function* () {
    try {
      yield* projected(mill, record.runId, project, following);
    } catch (error) {
      const run = await mill.get(record.runId);
      if (!isGone(error) || !isTerminalStatus(run.status)) throw error;
      const end = lastEvents(run, record.runId).at(-1) as RunEvent;
      // Numbers of the events that are gone are not known: this one comes after all that its reader may have.
      const last = new ResponseProjection(record.request).last(end, run.createdAt);
      yield* last.map((event, index) => ({ ...event, sequence_number: from + index }));
    }
  });
}

function isGone(error: unknown): boolean {
  return error instanceof RunError && (error.code === 'execution_not_found' || error.code === 'replay_truncated');
}
