// Three agents work on one question at the same time, each within a budget, and their answers become one.
// Run it with `npm run example examples/fan-out.ts`. Without OPENAI_API_KEY the scripted model answers.

import { childOf, createAgent, defineAgent, runFanOut } from 'millrace/worker';

const views = { history: 'How it came about.', law: 'What is allowed.', money: 'What it costs.' };

// A handle has one run at a time, so each child has its own.
const children = Object.entries(views).map(([id, view]) =>
  childOf(createAgent(defineAgent({ id, model: 'gpt-5.2-mini', instructions: view })), `Harbours, ${id}?`),
);

const { output, children: ended } = await runFanOut(
  {
    children,
    mergeStrategy: { kind: 'concat', separator: '\n', includeFailures: true },
    perBudget: { tokens: 4_000, toolCalls: 8, durationMs: 30_000 },
  },
  { emit: (event) => console.log(event.type) },
);
console.log(output);
for (const { agentId, status, usage } of ended) console.log(`${agentId}: ${status} with ${usage.total} tokens`);
