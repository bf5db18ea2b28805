// A run on a worker, followed from here. Start the stack with `npm start` first, then run this with
// `npm run example examples/enqueue-and-follow.ts`; REDIS_URL is the one that `npm start` prints.

import { Millrace } from 'millrace';

await using mill = new Millrace({ redis: process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379' });
const run = await mill.enqueue({ agent: 'support', input: 'Where is order 1042?' });
console.log(`run ${run.runId} is ${run.status}`);
for await (const event of run.events()) {
  if (event.type === 'text.delta') process.stdout.write(event.delta);
}
const { status, costMicrocents } = await run.result();
console.log(`\n${status} for ${costMicrocents} microcents`);
