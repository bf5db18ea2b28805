// Conversations in this process: a message in, a response out, one turn at a time for each thread. Every part of the runner
// may be replaced; here the prompt knows what day it is, and something happens after each answer.
// Run it with `npm run example examples/runner.ts`. Without OPENAI_API_KEY the scripted model answers.

import { createRunner, defineAgent, runnerDefaults } from 'millrace/worker';

const search = defineAgent({ id: 'search', model: 'gpt-5.2-mini', instructions: 'You know where orders are.' });
const support = defineAgent({
  id: 'support',
  model: 'gpt-5.2-mini',
  instructions: 'You answer briefly.',
  capabilities: ['agents'],
});

const defaults = runnerDefaults({ agents: [support, search] });
const { runAgent } = createRunner({
  ...defaults,
  buildSystemPrompt: ({ instructions }) => `${instructions} Today is ${new Date().toDateString()}.`,
  postRun: { dispatch: (agentId, threadId) => console.log(`[${agentId} has answered in ${threadId}]`) },
});

for (const message of ['Where is order 7?', 'And order 8?']) {
  await runAgent('support', 'customer-42', message, {
    onToolUse: (_name, _input, summary) => console.log(`[${summary}]`),
    onResponse: (_agentId, _threadId, text) => console.log(text),
  });
}

for (const { role, text } of await defaults.threads.messages('customer-42')) console.log(`${role}: ${text}`);
console.log(`${defaults.usage.of('support').total > 0 ? 'some' : 'no'} tokens were used`);
