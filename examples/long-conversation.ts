// A run that reads more than its model takes: what is old gives way to a summary, and the last steps stay word by word.
// Run it with `npm run example examples/long-conversation.ts`. It needs nothing.

import { createAgent, createIterableBackend, defineAgent, defineTool } from 'millrace/worker';
import { z } from 'zod';

const pages = 12;

const readPage = defineTool({
  name: 'read_page',
  description: 'Reads a page of the report.',
  inputSchema: z.object({ page: z.number() }),
  effect: 'read',
  execute: ({ page }) => `Page ${page}. ${'The tide comes and goes. '.repeat(120)}`,
});

// Stands in for a model: reads page after page. A call without tools asks for a summary.
let next = 1;
const reader = createIterableBackend(async function* ({ messages, tools }) {
  if (!tools) yield { type: 'text', delta: `Pages up to ${Math.max(1, next - 3)} are about tides.` };
  else if (next <= pages) {
    const id = `call_${next}`;
    yield { type: 'tool_call_start', id, name: 'read_page' };
    yield { type: 'tool_call_delta', id, delta: JSON.stringify({ page: next++ }) };
  } else yield { type: 'text', delta: `The whole report is about tides; I still see ${messages.length} messages.` };
});

const agent = createAgent(
  defineAgent({
    id: 'reader',
    model: 'm',
    instructions: 'You read reports.',
    tools: [readPage],
    limits: { maxSteps: 20 },
    compaction: { contextWindow: 16_384, keepTurns: 2 },
    postCompactionHooks: [() => 'Answer in one sentence.'],
  }),
  { provider: reader },
);

const stream = agent.stream('What is the report about?');
for await (const event of stream) {
  if (event.type !== 'context.compacted') continue;
  console.log(`compacted from ${event.beforeTokens} to ${event.afterTokens} tokens`);
}
const { status, text } = await stream.result;
console.log(`${status}: ${text}`);
