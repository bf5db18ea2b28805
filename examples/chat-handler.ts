// The chat handler of a product: it checks who asks, stores what was answered, and streams lines to the browser. The run
// is on a worker, so that neither a browser that goes away nor a web process that dies stops the answer.
// Needs a Redis, nothing else: `REDIS_URL=redis://127.0.0.1:6379 npm run example examples/chat-handler.ts`. The worker is
// in this process and its model only pretends.

import { deriveExecutionId, handleChatTurn, Millrace } from 'millrace';
import { createIterableBackend, defineAgent, startWorker } from 'millrace/worker';
import { z } from 'zod';

const redis = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379';
const prefix = 'example-chat-handler';
const mill = new Millrace({ redis, prefix, tenant: 'shop' });

const question = z.object({ sessionId: z.string(), turnIndex: z.int().min(0), message: z.string() });
/** The product's table of messages. Its key is the turn, so that storing twice is the same as once. */
const messages = new Map<string, string>();
let completed = 0;

/** Any framework that speaks `Request` and `Response` takes it as it is. */
async function chat(request: Request): Promise<Response> {
  const userId = request.headers.get('x-user');
  if (!userId) return new Response('who are you?', { status: 401 });
  const asked = question.safeParse(await request.json());
  if (!asked.success) return new Response(z.prettifyError(asked.error), { status: 400 });
  const { sessionId, turnIndex, message } = asked.data;
  // A name of its own for every start of this example; a product would leave the id as it is.
  const executionId = deriveExecutionId({ projectId: `shop-${process.pid}`, sessionId, turnIndex });

  const { body, contentType } = handleChatTurn({
    identity: { tenantId: 'shop', sessionId, userId, turnIndex },
    hooks: {
      async produce() {
        const turn = await mill.chat({ agent: 'support', message, sessionId, turnIndex, userId }, { executionId });
        return turn.producer();
      },
      transformFinalText: (text) => text.replaceAll(/\b\d{4,}\b/g, '[number]'),
      persistAssistantMessage: ({ finalText }) => void messages.set(executionId, finalText),
      onTurnComplete: () => void (completed += 1),
    },
    log: (what, facts) => console.error(what, facts),
  });
  return new Response(body, { headers: { 'content-type': contentType, 'x-execution-id': executionId } });
}

/** The browser: shows text as it comes, and answers whether the turn was replayed. */
async function browse(turn: object): Promise<boolean> {
  const headers = { 'x-user': 'kim' };
  const response = await chat(
    new Request('http://shop.example/chat', { method: 'POST', headers, body: JSON.stringify(turn) }),
  );
  let replayed = false;
  let rest = '';
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const { type, data } = JSON.parse(line);
      if (type === 'session.run.started') replayed = data.replayed === true;
      if (type === 'message.part.updated') process.stdout.write(data.delta);
    }
  }
  process.stdout.write('\n');
  return replayed;
}

const pretending = createIterableBackend(async function* () {
  for (const delta of ['Order ', '1042 ', 'is ', 'on its way.']) yield { type: 'text', delta } as const;
});
const support = defineAgent({ id: 'support', model: 'any', instructions: 'You answer briefly.' });
const worker = await startWorker({ redis, prefix, agents: [support], provider: pretending });
try {
  const turn = { sessionId: 's-1', turnIndex: 0, message: 'Where is order 1042?' };
  await browse(turn);
  // The browser was not sure that it had everything and asks again: nothing is answered or stored a second time.
  const replayed = await browse(turn);
  console.log(`replayed: ${replayed}, completed: ${completed}, stored: ${[...messages.values()].join()}`);
} finally {
  await worker.stop(1_000);
  await mill.close();
}
