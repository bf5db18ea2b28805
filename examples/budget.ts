// Runs of one batch share a cap. The ones that do not fit wait without a worker, and go on after a top-up.
// Needs a Redis, nothing else: `REDIS_URL=redis://127.0.0.1:6379 npm run example examples/budget.ts`. The worker is in
// this process and its model only pretends, at the price of a real one.

import { formatUsd, isTerminal, Millrace } from 'millrace';
import { defineAgent, startWorker, type LlmProvider } from 'millrace/worker';

const redis = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379';
const prefix = 'example-budget';

const pretending: LlmProvider = {
  id: 'pretending',
  capabilities: { tools: false, reasoning: false },
  async generate({ messages }, onPart) {
    const text = 'The parcel arrived broken, and the customer wants a new one.';
    onPart({ type: 'text', delta: text });
    // As models count: about four characters to a token.
    const input = Math.round(JSON.stringify(messages).length / 4);
    return {
      message: { role: 'assistant', parts: [{ type: 'text', text }] },
      finishReason: 'stop',
      incompleteToolCalls: [],
      usage: { input, output: 200, cached: 0, cacheWrite: 0, total: input + 200 },
    };
  },
};

const summarise = defineAgent({ id: 'summarise', model: 'gpt-5.2-mini', maxOutputTokens: 300 });

await using mill = new Millrace({ redis, prefix });
const worker = await startWorker({ redis, prefix, agents: [summarise], provider: pretending });
try {
  const batch = `letters-${Date.now()}`;
  await mill.budgets.set('batch', batch, { maxCostUsd: 0.0022, onExceed: 'pause_for_approval' });
  const letters = Array.from(
    { length: 8 },
    (_, index) => `Letter ${index + 1}: ${'it arrived broken, again. '.repeat(150)}`,
  );
  const runs = await Promise.all(letters.map((input) => mill.enqueue({ agent: 'summarise', input, batch })));

  const waits = await Promise.all(runs.map(({ runId }) => waitsForMoney(runId)));
  const before = await mill.budgets.get('batch', batch);
  const waiting = waits.filter(Boolean).length;
  console.log(`${formatUsd(before.spentMicrocents)} of $0.0022 spent, ${waiting} of 8 runs wait for money`);

  const after = await mill.budgets.topUp('batch', batch, { usd: 0.01 }, { idempotencyKey: `${batch}-more` });
  console.log(`the cap is ${formatUsd(after.capMicrocents ?? 0)} now`);
  const results = await Promise.all(runs.map((run) => run.result()));
  const done = results.filter(({ status }) => status === 'completed').length;
  const { spentMicrocents } = await mill.budgets.get('batch', batch);
  console.log(`${done} of 8 runs answered for ${formatUsd(spentMicrocents)}`);
} finally {
  await worker.stop(1_000);
}

/** Follows a run until it has ended, or waits. */
async function waitsForMoney(runId: string): Promise<boolean> {
  for await (const event of mill.events(runId)) {
    if (event.type === 'run.suspended') return true;
    if (isTerminal(event)) return false;
  }
  return false;
}
