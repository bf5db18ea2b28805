// An agent on a model server that speaks the OpenAI wire, its words as they come. Give it a server:
// `OPENAI_BASE_URL=http://127.0.0.1:11434/v1 npm run example examples/streaming-backend.ts llama3.2`
// A second model is a fallback only because it is named here.

import { createAgent, createOpenAICompatibleBackend, defineAgent } from 'millrace/worker';

const [model = 'gpt-5.2-mini', fallback] = process.argv.slice(2);
const backend = createOpenAICompatibleBackend({
  baseUrl: process.env['OPENAI_BASE_URL'] ?? 'https://api.openai.com/v1',
  apiKey: process.env['OPENAI_API_KEY'] ?? 'none',
  model,
  acceptsSensitivity: ['public', 'internal'],
});

const agent = createAgent(
  defineAgent({ id: 'guide', model, ...(fallback !== undefined && { fallbackModels: [fallback] }) }),
  { provider: backend },
);
const stream = agent.stream('Why is there tide twice a day?');
for await (const event of stream) {
  if (event.type === 'text.delta') process.stdout.write(event.delta);
  if (event.type === 'cost.updated') process.stdout.write(`\n[${event.model}: ${event.outputTokens} tokens]`);
}
const { status, text, error } = await stream.result;
console.log(`\n${status}${error ? `: ${error.code}` : ` with ${text.length} characters`}`);
