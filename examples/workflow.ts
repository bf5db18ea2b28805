// Two nodes of a workflow in this process, without Redis: the second one's prompt takes in what the first one answered.
// Run it with `npm run example examples/workflow.ts`. It needs nothing: a provider of its own stands in for a model.

import { createAgentNodeExecutor, createIterableBackend, defineAgent } from 'millrace/worker';

const model = createIterableBackend(
  async function* ({ messages }) {
    const asked = messages.at(-1);
    yield { type: 'text', delta: `[answer to: ${asked?.role === 'user' ? asked.content : ''}]` };
    yield { type: 'end', usage: { input: 10, output: 5, cached: 0, cacheWrite: 0, total: 15 } };
  },
  { id: 'local' },
);

const execute = createAgentNodeExecutor({ resolveProvider: (id) => (id === 'local' ? model : undefined) });
const writer = defineAgent({ id: 'writer', provider: 'local', model: 'small', instructions: 'You write.' });
const nodes = [
  { id: 'plan', prompt_template: 'Plan a text about {{ inputs.topic }}.' },
  { id: 'draft', prompt_template: 'Write it: {{ run.outputs.plan }}' },
];

const outputs: Record<string, unknown> = {};
for (const node of nodes) {
  const outcome = await execute({
    vertex: { type: 'agent', agent_ref: 'writer', resolvedAgent: writer, ...node },
    inputs: { topic: 'tides' },
    outputs,
    emit: (event) => event.type === 'text.delta' && process.stdout.write(`${node.id}: ${event.delta}\n`),
    signal: AbortSignal.timeout(10_000),
  });
  if (outcome.kind !== 'completed') throw new Error(`${node.id}: ${JSON.stringify(outcome)}`);
  outputs[node.id] = outcome.output;
  console.log(`${node.id} took ${outcome.tokensUsed.input} + ${outcome.tokensUsed.output} tokens`);
}
