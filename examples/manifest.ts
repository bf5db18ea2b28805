// An agent as something that can be measured: a manifest with its levers, its rubric and its run, benchmarked for two people
// without Redis and without a network. Run it with `npm run example examples/manifest.ts`. It needs nothing.

import {
  createAgent,
  createIterableBackend,
  defineAgent,
  defineAgentManifest,
  runManifest,
  type ManifestContext,
} from 'millrace/worker';

interface Persona {
  readonly name: string;
  readonly question: string;
  readonly expects: RegExp;
}

const support = defineAgent({ id: 'support', model: 'small', instructions: 'You answer questions about orders.' });

const manifest = defineAgentManifest({
  id: 'support',
  repoRoot: `${import.meta.dirname}/../agents`,
  // What may be edited to make it better. Paths are checked when the manifest is declared.
  surfaces: { prompt: 'support.yaml', tools: 'tools' },
  knowledge: [{ id: 'orders', description: 'The orders of the last year', acquire: 'export them from the shop' }],
  rubric: {
    dimensions: [
      { id: 'right', weight: 0.8, score: ({ persona, output }) => (persona.expects.test(output.text) ? 1 : 0) },
      { id: 'short', weight: 0.2, score: ({ output }) => (output.text.length < 60 ? 1 : 0) },
    ],
  },
  run: { act },
});

function act({ question }: Persona, { provider, signal }: ManifestContext) {
  const stream = createAgent(support, { ...(provider && { provider }) }).stream(question, { signal });
  return { events: stream, output: stream.result };
}

// The model that is tried out: any provider will do.
const provider = createIterableBackend(async function* () {
  yield { type: 'text', delta: 'Order 7 was shipped yesterday.' };
  yield { type: 'end', usage: { input: 20, output: 6, cached: 0, cacheWrite: 0, total: 26 } };
});

const personas: readonly Persona[] = [
  { name: 'Ann', question: 'Where is order 7?', expects: /shipped/ },
  { name: 'Ben', question: 'Can I return order 7?', expects: /return/ },
];
for (const persona of personas) {
  const { score, events } = await runManifest(manifest, persona, { provider, timeoutMs: 10_000 });
  const parts = score.dimensions.map(({ id, score: points }) => `${id} ${points}`).join(', ');
  console.log(`${persona.name}: ${score.score.toFixed(2)} (${parts}) after ${events.length} events`);
}
