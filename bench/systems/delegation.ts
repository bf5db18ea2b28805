import { z } from 'zod';
import { defineAgent, defineTool, startWorker } from '../../src/worker/index.ts';
import { lookup, model, serveParent, systemEnv, toolName } from '../workload.ts';

// A Millrace worker with an agent that asks others, and one that may ask no other.

const { redisUrl, baseUrl, prefix, concurrency } = systemEnv();
const lookupOrder = defineTool({
  name: toolName,
  description: 'Finds an order by its number.',
  inputSchema: z.object({ order: z.string() }),
  effect: 'read',
  execute: ({ order }) => lookup(order),
});
const asker = defineAgent({ id: 'asker', model, description: 'Asks others.', subagents: ['*', 'asker'] });
const plain = defineAgent({ id: 'plain', model, description: 'Answers.', tools: [lookupOrder] });
await startWorker({
  redis: redisUrl,
  prefix,
  agents: [asker, plain],
  concurrency,
  env: { OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: 'bench' },
});
serveParent();
