// A call that needs a person: the run waits without a worker, and goes on with the arguments that were approved.
// Needs a Redis, nothing else: `REDIS_URL=redis://127.0.0.1:6379 npm run example examples/approvals.ts`. The worker is in
// this process and its model only pretends.

import { Millrace } from 'millrace';
import { defineAgent, defineTool, startWorker, type LlmProvider } from 'millrace/worker';
import { z } from 'zod';

const redis = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379';
const prefix = 'example-approvals';

const refund = defineTool({
  name: 'refund',
  description: 'Pays the money for an order back.',
  inputSchema: z.object({ order: z.string(), amount: z.number() }),
  needsApproval: ({ amount }) => amount > 10,
  async execute({ order, amount }, { idempotencyKey }) {
    console.log(`the tool pays ${amount} for order ${order}, with the key ${idempotencyKey}`);
    return { paid: amount };
  },
});

/** Asks for a refund, then says what came of it. */
const pretending: LlmProvider = {
  id: 'pretending',
  capabilities: { tools: true, reasoning: false },
  async generate({ messages }, onPart) {
    const result = messages.findLast((message) => message.role === 'tool')?.content;
    if (result === undefined) {
      const call = { type: 'tool_call', id: 'call_1', name: 'refund', args: '{"order":"7","amount":420}' } as const;
      return { message: { role: 'assistant', parts: [call] }, finishReason: 'tool_use', incompleteToolCalls: [] };
    }
    const text = `The refund is done: ${result}`;
    onPart({ type: 'text', delta: text });
    return {
      message: { role: 'assistant', parts: [{ type: 'text', text }] },
      finishReason: 'stop',
      incompleteToolCalls: [],
    };
  },
};

const clerk = defineAgent({ id: 'clerk', model: 'any', tools: [refund], approvals: { ttlMs: 3_600_000 } });

await using mill = new Millrace({ redis, prefix });
const worker = await startWorker({ redis, prefix, agents: [clerk], provider: pretending });
try {
  const run = await mill.enqueue({ agent: 'clerk', input: 'Pay order 7 back.' });
  for await (const event of run.events()) {
    if (event.type === 'tool.approval.requested')
      console.log(`${event.toolName} waits for a person, with ${JSON.stringify(event.args)}`);
    if (event.type === 'run.suspended') {
      // The person: here, or anywhere else that reaches Redis or the producer.
      const { run: after } = await run.approve({ updatedArgs: { order: '7', amount: 42 }, by: 'kim' });
      console.log(`approved with other arguments; the run is ${after.status}`);
    }
    if (event.type === 'tool.approval.granted') console.log(`granted by ${event.by}`);
  }
  const { text } = await run.result();
  console.log(text);
} finally {
  await worker.stop(1_000);
}
