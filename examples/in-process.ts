// An agent inside this process: no Redis, nothing durable, the same turn core, tools and events as on a worker.
// Run it with `npm run example examples/in-process.ts`. Without OPENAI_API_KEY the scripted model answers.

import { createAgent, defineAgent, defineTool } from 'millrace/worker';
import { z } from 'zod';

const lookupOrder = defineTool({
  name: 'lookup_order',
  description: 'Finds an order by its number.',
  inputSchema: z.object({ order: z.string() }),
  effect: 'read',
  execute: ({ order }) => ({ order, state: 'shipped' }),
});

const agent = createAgent(
  defineAgent({ id: 'support', model: 'gpt-5.2-mini', instructions: 'You answer briefly.', tools: [lookupOrder] }),
);

const stream = agent.stream('Where is order 7?');
for await (const event of stream) {
  if (event.type === 'tool.execute.end') console.log(`[${event.toolName}: ${event.outputSummary}]`);
  if (event.type === 'text.delta') process.stdout.write(event.delta);
}
const { status, steps, costMicrocents } = await stream.result;
console.log(`\n${status} in ${steps} steps for ${costMicrocents} microcents`);
