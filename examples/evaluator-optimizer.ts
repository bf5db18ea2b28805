// An answer is evaluated and made again with the critique, until it passes or four were tried.
// Run it with `npm run example examples/evaluator-optimizer.ts`. Without OPENAI_API_KEY the scripted model answers.

import { answerOf, createAgent, defineAgent, evaluatorOptimizer } from 'millrace/worker';

const writer = createAgent(
  defineAgent({ id: 'writer', model: 'gpt-5.2-mini', instructions: 'You write one sentence.' }),
);

const { termination, best, usage } = await evaluatorOptimizer(
  {
    input: 'Explain tides.',
    async generator(input, critique, _iteration, signal) {
      const asked = critique === undefined ? input : `${input} ${critique}`;
      return answerOf(await writer.run(asked, { signal }));
    },
    // A rubric does the same with a model that judges, or with a schema.
    evaluator: (text) => (/moon/i.test(text) ? { passed: true } : { passed: false, critique: 'Name the moon.' }),
    maxIterations: 4,
  },
  { emit: (event) => console.log(JSON.stringify(event)) },
);
console.log(`${termination} after ${best?.iteration} answers and ${usage.total} tokens: ${best?.output}`);
