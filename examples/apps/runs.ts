// What a web app needs of Millrace, as two functions of the web's own types. The other files of this folder put them behind
// Express, Fastify and Next.

import { Millrace, RunError } from 'millrace';
import { z } from 'zod';

// One client for the process: it keeps one connection to Redis.
export const mill = new Millrace({
  redis: process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379',
  prefix: process.env['MILLRACE_PREFIX'] ?? 'mr',
});

/** `messageId` is your own id of the message: a browser that sends it again gets the same run. */
const question = z.object({ input: z.string().min(1), messageId: z.string().min(1) });

/** Starts a run and answers its id. */
export async function ask(asked: unknown): Promise<Response> {
  const message = question.safeParse(asked);
  if (!message.success) return problem(400, 'validation', z.prettifyError(message.error));
  const { input, messageId } = message.data;
  try {
    const { runId } = await mill.enqueue({ agent: 'support', input, executionId: messageId });
    return Response.json({ runId }, { status: 202 });
  } catch (error) {
    return refused(error);
  }
}

/**
 * The events of a run as server-sent events. `EventSource` of the browser reconnects by itself and sends the id of the last event
 * that it saw: the stream continues there, from any process of your app. When the browser goes away, only the stream ends.
 */
export async function follow(runId: string, { headers, signal }: Request): Promise<Response> {
  const after = Number(headers.get('last-event-id') ?? 0);
  try {
    await mill.get(runId);
  } catch (error) {
    return refused(error);
  }
  async function* lines() {
    for await (const event of mill.events(runId, { after, signal }))
      yield `id: ${event.sequenceNumber}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
  }
  const events = lines();
  const body = new ReadableStream<string>({
    async pull(controller) {
      const { done, value } = await events.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: () => void events.return(undefined),
  });
  return new Response(body.pipeThrough(new TextEncoderStream()), {
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' },
  });
}

function refused(error: unknown): Response {
  if (!(error instanceof RunError)) throw error;
  return problem(error.http, error.code, error.message);
}

function problem(status: number, code: string, message: string): Response {
  return Response.json({ error: { code, message } }, { status });
}
