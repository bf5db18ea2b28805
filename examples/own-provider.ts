// A model provider of your own behind middleware, and a choice of the model that refuses what is not allowed.
// Run it with `npm run example examples/own-provider.ts`, or with a model: `… examples/own-provider.ts parrot-large`.
// It needs nothing. The same options exist for startWorker.

import {
  createAgent,
  createIterableBackend,
  defineAgent,
  resolveChatModel,
  validateChatModelId,
  type Middleware,
} from 'millrace/worker';

const { model, source } = resolveChatModel([{ model: process.argv[2], source: 'request' }], 'parrot-small');
const verdict = await validateChatModelId(model, { allowlist: ['parrot-small', 'parrot-large'] });
if (!verdict.ok) throw new Error(`${verdict.reason}: ${verdict.message}`);
console.log(`model ${model}, from ${source}`);

// Any async generator is a provider. This one repeats the message.
const parrot = createIterableBackend(
  async function* ({ messages }) {
    const last = messages.at(-1);
    if (last?.role === 'user') for (const word of last.content.split(/(?= )/)) yield { type: 'text', delta: word };
    yield { type: 'end', usage: { input: 0, output: 7, cached: 0, cacheWrite: 0, total: 7 } };
  },
  { id: 'parrot' },
);

const logging: Middleware = {
  name: 'log',
  kind: 'observe',
  async generate(request, onPart, signal, next) {
    const answer = await next(request, onPart, signal);
    console.log(`[${request.model} answered with ${answer.usage?.total} tokens]`);
    return answer;
  },
};

// Innermost: what leaves has passed it, whatever the others add.
const masking: Middleware = {
  name: 'mask',
  kind: 'redact',
  async generate(request, onPart, signal, next) {
    const messages = request.messages.map((message) =>
      message.role === 'user' ? { ...message, content: message.content.replace(/\S+@\S+/g, '[address]') } : message,
    );
    return await next({ ...request, messages }, onPart, signal);
  },
};

const agent = createAgent(defineAgent({ id: 'parrot', model }), { provider: parrot, middleware: [logging, masking] });
console.log((await agent.run('Write to ann@example.org that order 7 was sent.')).text);
