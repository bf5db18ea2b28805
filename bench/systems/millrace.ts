import { z } from 'zod';
import { defineAgent, defineTool, startWorker } from '../../src/worker/index.ts';
import { instructions, lookup, model, serveParent, systemEnv, toolName, workerEnv } from '../workload.ts';

// A Millrace worker as shipped: journal, owner check, replay log, cost, metrics.

const { redisUrl, baseUrl, prefix, concurrency } = systemEnv();
const lookupOrder = defineTool({
  name: toolName,
  description: 'Finds an order by its number.',
  inputSchema: z.object({ order: z.string() }),
  effect: 'read',
  execute: ({ order }) => lookup(order),
});
const agent = defineAgent({ id: 'bench', model, instructions, tools: [lookupOrder] });
await startWorker({
  redis: redisUrl,
  prefix,
  agents: [agent],
  concurrency,
  env: { OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: 'bench', ...workerEnv() },
});
serveParent();
