// Three agents answer the same question as runs on workers, and a judge makes one answer of theirs. The fan-out holds no
// worker while it waits, so one that runs one at a time is enough.
// Run it with `npm run example examples/fan-out-queue.ts` while Redis runs. Without OPENAI_API_KEY the scripted model answers.

import { Millrace } from 'millrace';
import { defineAgent, defineJudge, startWorker } from 'millrace/worker';

const redis = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379';
const prefix = 'mr-fan-out-example';

const agents = ['optimist', 'pessimist', 'realist'].map((id) =>
  defineAgent({ id, model: 'gpt-5.2-mini', instructions: `Answer as the ${id} that you are.` }),
);
const judge = defineJudge({
  id: 'chair',
  judge: (children) => children.map(({ id, output = 'silent' }) => `${id}: ${output}`).join('\n'),
});

const worker = await startWorker({ redis, prefix, agents, judges: [judge], concurrency: 1, env: process.env });
await using mill = new Millrace({ redis, prefix });

const run = await mill.fanOut({
  input: 'Will it rain tomorrow?',
  children: agents.map(({ definition }) => ({ agent: definition.id })),
  mergeStrategy: { kind: 'judge-merge', judge: 'chair' },
  perBudget: { durationMs: 60_000 },
});
for await (const event of run.events()) {
  if (event.type === 'agent.fanout.merged') console.log(`merged: ${event.statuses.join(', ')}`);
}
const { status, text, costMicrocents } = await run.result();
console.log(`${text}\n${status} for ${costMicrocents} microcents`);

await worker.stop(5_000);
