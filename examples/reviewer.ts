// The answer of one agent goes to another while it is written, piece by piece and no faster than the other reads.
// Run it with `npm run example examples/reviewer.ts`. Without OPENAI_API_KEY the scripted model answers.

import { createAgent, defineAgent, pipe } from 'millrace/worker';

const writer = createAgent(defineAgent({ id: 'writer', model: 'gpt-5.2-mini', instructions: 'You write at length.' }));
const reviewer = createAgent(
  defineAgent({ id: 'reviewer', model: 'gpt-5.2-mini', instructions: 'You find mistakes in what you are given.' }),
);

const draft = writer.stream('Harbours are old. Ships come and go with the tide. What they bring is sold on the quay.');
for await (const { index, piece, outcome } of pipe(draft, reviewer, { pieceChars: 80 })) {
  console.log(`piece ${index + 1}: ${piece}`);
  console.log(`review: ${outcome.text}`);
}
const { status } = await draft.result;
console.log(`the writer has ${status}`);
