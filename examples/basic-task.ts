// A task in this process: the loop observes, checks, decides and acts until the list is tidy, and asks once on the way.
// Run it with `npm run example examples/basic-task.ts`. It needs nothing.

import { resumeAgentTaskStream, runAgentTaskStream, type AgentAdapter } from 'millrace/worker';

interface Inbox {
  readonly letters: readonly string[];
}
type Move = { readonly letter: string; readonly to: 'bin' | 'archive' };

const inbox = { letters: ['invoice', 'advertisement', 'letter without a sender'] };

const adapter: AgentAdapter<Inbox, Move> = {
  observe: () => inbox,
  validate: ({ state }) => [{ id: 'empty', passed: state.letters.length === 0, score: 1 - state.letters.length / 3 }],
  decide({ state, history }) {
    const [letter] = state.letters;
    if (letter === undefined) return { type: 'stop', reason: 'nothing is left' };
    if (letter !== 'letter without a sender')
      return { type: 'act', action: { letter, to: letter === 'invoice' ? 'archive' : 'bin' } };
    const last = history.at(-1);
    if (last?.decision.type !== 'ask') return { type: 'ask', question: `What becomes of the ${letter}?` };
    const answer = last.outcome.ok ? last.outcome.result : undefined;
    return { type: 'act', action: { letter, to: answer === 'keep it' ? 'archive' : 'bin' } };
  },
  act({ action }) {
    inbox.letters = inbox.letters.filter((letter) => letter !== action.letter);
    return `${action.letter}: ${action.to}`;
  },
};

const task = runAgentTaskStream(adapter, { task: { id: 'tidy-up' }, stopPolicies: { maxNoProgressSteps: 2 } });
for await (const event of task) console.log(event.type);
const asked = await task.result;
if (asked.status !== 'suspended') throw new Error('there was nothing to ask');

// The state is JSON: the answer may come days later, in another process.
const state = JSON.stringify(asked.state);
console.log(`\n${asked.question} keep it\n`);
const rest = resumeAgentTaskStream(state, 'keep it', adapter);
for await (const event of rest) console.log(event.type);
const done = await rest.result;
if (done.status !== 'completed') throw new Error(`the task is ${done.status}`);
for (const { stepNumber, outcome } of done.steps)
  console.log(`step ${stepNumber}: ${outcome.ok ? String(outcome.result) : 'failed'}`);
console.log(`${done.status} with a score of ${done.score}: ${done.reason}`);
