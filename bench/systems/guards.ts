import { z } from 'zod';
import { flowMode } from '../../src/shared/contract/flow.ts';
import { defineAgent, defineTool, startWorker } from '../../src/worker/index.ts';
import { instructions, model, pageOf, serveParent, systemEnv, toolName } from '../workload.ts';

// A worker with the agent of the benchmark once for each mode of the data-flow policy. Its tool answers with a page that a stranger
// wrote, and what it sends with is a sink.

const { redisUrl, baseUrl, prefix, concurrency } = systemEnv();
const readPage = defineTool({
  name: toolName,
  description: 'Reads a page.',
  inputSchema: z.object({ order: z.string() }),
  effect: 'read',
  trust: 'external',
  maxResultTokens: 0,
  execute: ({ order }) => pageOf(order),
});
const send = defineTool({
  name: 'send_mail',
  description: 'Sends a mail.',
  inputSchema: z.object({ to: z.string(), body: z.string() }),
  effect: 'idempotent',
  execute: () => 'sent',
});
const agents = flowMode.options.map((mode) =>
  defineAgent({ id: mode, model, instructions, tools: [readPage, send], dataFlowPolicy: { mode } }),
);
await startWorker({
  redis: redisUrl,
  prefix,
  agents,
  concurrency,
  env: { OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: 'bench' },
});
serveParent();
