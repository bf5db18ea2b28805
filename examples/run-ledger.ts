// What a task cost, in one row: a run of an agent is one action of it. Run it with
// `npm run example examples/run-ledger.ts`. Without OPENAI_API_KEY the scripted model answers, at the price of a real one.

import {
  createAgent,
  createInMemoryLedgerRows,
  defineAgent,
  RunLedger,
  runAgentTask,
  type AgentAdapter,
  type LedgerRow,
} from 'millrace/worker';

const agent = createAgent(
  defineAgent({ id: 'writer', model: 'gpt-5.2-mini', instructions: 'You write one sentence.' }),
);
// In a program that lasts, `put` and `get` over a table.
const rows = createInMemoryLedgerRows();

// One run, counted from its events.
const ledger = new RunLedger({ id: 'run-1' });
for await (const event of agent.stream('Write about tides.')) ledger.observe(event);
ledger.complete('completed');
await ledger.save(rows);
// Completed twice, kept once.
ledger.complete('completed');
await ledger.save(rows);

// A task that runs the agent: what its calls cost is charged to the task, which has a budget.
const texts: string[] = [];
const adapter: AgentAdapter<{ texts: number }, { about: string }> = {
  observe: () => ({ texts: texts.length }),
  validate: ({ state }) => [{ id: 'three-texts', passed: state.texts >= 3, score: state.texts / 3 }],
  decide: ({ state }) =>
    state.texts < 3
      ? { type: 'act', action: { about: ['tides', 'dunes', 'gulls'][state.texts] ?? '' } }
      : { type: 'stop', reason: 'all texts are there' },
  async act({ action, charge, signal }) {
    const stream = agent.stream(`Write about ${action.about}.`, { signal });
    for await (const event of stream) charge(event);
    texts.push((await stream.result).text);
  },
};
const task = { id: 'three-texts' };
const outcome = await runAgentTask(adapter, { task, budget: { maxCostUsd: 0.5 }, ledger: { rows } });
console.log(`${outcome.status}: ${texts.length} texts`);

for (const row of rows.all()) console.log(lineOf(row));
const row = await rows.get(task.id);
const same = outcome.status === 'completed' && outcome.costMicrocents === row?.costMicrocents;
console.log(same ? 'the row has what the task cost' : 'the row is wrong');

function lineOf({ id, status, llmCalls, tokensIn, tokensOut, costMicrocents }: LedgerRow): string {
  return `${id}: ${status}, ${llmCalls} calls, ${tokensIn} + ${tokensOut} tokens, ${costMicrocents} microcents`;
}
