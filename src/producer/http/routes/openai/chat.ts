import { z } from 'zod';
import { isTerminal } from '../../../../shared/contract/event.ts';
import type { MillraceClient } from '../../../client/facade.ts';
import { ChatProjection } from '../../../openai/chat-chunks.ts';
import { chatCompletionOf, errorOf } from '../../../openai/answer.ts';
import { chatRequest } from '../../../openai/chat-request.ts';
import { wireNameOf } from '../../../openai/run-request.ts';
import type { App, Services } from '../../app.ts';
import { sendStream } from '../../event-stream.ts';
import { askRun, type AskedRun } from './asking.ts';
import { answerErrorsAsOpenAi, wireErrors } from './error-shape.ts';
import { chatFraming, done } from './framing.ts';
import { askingHeaders, maxWireBodyBytes } from './shapes.ts';
import { endOf, projected, waitOf, type Wait } from './waiting.ts';

const endpoint = '/v1/chat/completions';

const chatCompletion = z
  .looseObject({ id: z.string(), object: z.literal('chat.completion') })
  .describe('A chat completion as OpenAI has it; `millrace` has the run and its cost.');

const chatSchema = {
  operationId: 'createChatCompletion',
  summary: 'Complete a chat with an agent',
  description:
    'The API of OpenAI, for its clients: `model` is an agent. Whether the answer is a stream is decided by `stream` in the body. A client that goes away does not stop the run. A run that waits for a person or for money answers 409 `run_suspended`, one that takes too long 504 `still_running`; both name the run, which goes on.',
  headers: askingHeaders,
  body: chatRequest,
  response: { 200: chatCompletion, ...wireErrors },
};

export function chatRoutes(app: App, services: Services): void {
  answerErrorsAsOpenAi(app, services, wireNameOf(endpoint));
  const options = {
    schema: chatSchema,
    config: { access: 'write', waits: true },
    bodyLimit: maxWireBodyBytes,
  } as const;
  app.post(endpoint, options, async (request, reply) => {
    const asked = await askRun(endpoint, request, reply, services);
    using answer = services.openAnswers.wait(reply.raw);
    const wait = waitOf(answer, request, services);
    const { stream, stream_options: streaming } = request.body as { stream?: unknown; stream_options?: unknown };
    if (stream === true) {
      const chunks = await chunksOf(asked, streaming, request.mill, wait);
      const look = () => request.mill.get(asked.run.runId);
      return await sendStream(chunks, { framing: chatFraming, look }, reply, services);
    }
    const run = await endOf(request.mill, asked.run.runId, wait);
    const error = errorOf(run);
    if (error) throw error;
    return await reply.send(chatCompletionOf(run, asked.request) as never);
  });
}

async function chunksOf({ run: { runId }, request }: AskedRun, streaming: unknown, mill: MillraceClient, wait: Wait) {
  const { createdAt } = await mill.get(runId);
  const withUsage = z.looseObject({ include_usage: z.literal(true) }).safeParse(streaming).success;
  const projection = new ChatProjection({ runId, createdAt, request, withUsage });
  return projected<object | typeof done>(
    mill,
    runId,
    (event) => (isTerminal(event) ? [...projection.next(event), done] : projection.next(event)),
    { ...wait, onSuspended: 'refuse' },
  );
}
