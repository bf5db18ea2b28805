import { expect, test } from 'vitest';
import type { RunHandle } from '../../src/producer/index.ts';
import { eventsOf } from '../support/check-run.ts';
import { call } from '../support/http.ts';
import { planInput, type PlannedStep } from '../support/plan.ts';
import { until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

const shared = shareWorld({ producer: true });

const high = '\ud83d';
const odd = `half ${high} \0`;
const repaired = 'half \ufffd \ufffd';

/** The model wants to call something that people decide about, in odd words. */
const charge = (id?: string): PlannedStep => ({
  calls: [{ name: 'charge', args: { id: odd }, ...(id !== undefined && { id }) }],
});

async function pendingOf(run: RunHandle) {
  await until('the run waits', async () => (await run.get()).status === 'suspended');
  return (await run.get()).pending;
}

async function decide(run: RunHandle, decision: unknown): Promise<number> {
  const { status } = await call('POST', `${shared.world.url}/v1/runs/${run.runId}/decisions`, decision);
  return status;
}

test('half characters of the model, and of an approval with other arguments, reach the tool repaired', async () => {
  const { world } = shared;
  const run = await world.submit('gated', [charge(`call ${high}`), charge(), { text: `done ${high}` }], {
    thread: 'odd',
  });
  const [asked] = await pendingOf(run);
  expect(asked).toMatchObject({ toolCallId: 'call \ufffd', args: { id: repaired } });
  const toolCallId = `call ${high}`;
  expect(
    await decide(run, {
      approvals: [{ toolCallId, granted: true, updatedArgs: { id: `edited ${odd}` }, reason: odd }],
    }),
  ).toBe(202);
  await until('the run asks again', async () => (await run.get()).pending[0]?.toolCallId === 'call_0');
  expect(await decide(run, { approvals: [{ toolCallId: 'call_0', granted: true }] })).toBe(202);
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'done \ufffd' } });
  expect(observed.executions.map(({ id }) => id)).toEqual([`edited ${repaired}`, repaired]);
  const next = await world.submit('gated', [{ text: 'The thread goes on.' }], { thread: 'odd' });
  expect((await world.ended(next)).view.status).toBe('completed');
});

test('an answer with half a character is what the model gets, repaired', async () => {
  const { world } = shared;
  const question = { calls: [{ name: 'ask_user', args: { question: odd } }] };
  const run = await world.submit('gated', [question, { text: 'Thanks.' }]);
  const [asked] = await pendingOf(run);
  expect(asked).toMatchObject({ kind: 'user_input', reason: repaired });
  expect(await decide(run, { answers: [{ questionId: asked?.toolCallId, text: odd }] })).toBe(202);
  await world.ended(run);
  expect(world.provider.callsOf(run.runId).at(-1)?.messages.at(-1)).toMatchObject({ role: 'tool', content: repaired });
});

const ends: readonly [string, string, (run: RunHandle) => Promise<unknown>, string][] = [
  ['is cancelled', 'gated', async (run) => await run.cancel({ reason: odd }), 'cancelled'],
  ['is denied', 'gated', async (run) => await run.deny({ reason: odd }), 'completed'],
  ['expires', 'hasty', async () => {}, 'completed'],
];

test.each(ends)('a run that waits in odd words %s, and its thread goes on', async (name, agent, end, status) => {
  const { world } = shared;
  const thread = name.replace(' ', '-');
  const run = await world.submit(agent, [charge(), { text: 'It was not to be.' }], { thread });
  const next = await world.submit(agent, [{ text: 'Next.' }], { thread });
  if (agent === 'gated') await pendingOf(run);
  await end(run);
  expect((await world.ended(run)).view.status).toBe(status);
  expect((await world.ended(next)).view).toMatchObject({ status: 'completed', result: { text: 'Next.' } });
});

test('a drain with odd words for a reason stops the run after its step', async () => {
  const { world } = shared;
  const held = { text: 'one two', hold: { gate: 'odd drain', afterPieces: 1 } };
  const run = await world.submit('plain', [
    { ...held, calls: [{ name: 'look', args: { id: 'l' } }] },
    { text: 'Never.' },
  ]);
  await until('the model speaks', () => world.provider.callsOf(run.runId).length > 0);
  await run.cancel({ drain: true, reason: odd });
  world.provider.gates.open('odd drain');
  const observed = await world.ended(run);
  expect(eventsOf(observed, 'run.cancelled')).toMatchObject([{ drained: true, reason: repaired }]);
});

test('a fan-out over odd inputs ends, and so does an agent that is asked in odd words', async () => {
  const { world } = shared;
  const input = planInput({ text: odd });
  const children = [1, 2, 3, 4, 5, 6].map((n) => ({ agent: 'plain', id: `c${n}`, input }));
  const fanOut = await world.mill.enqueue({ agent: 'plain', input: odd, fanOut: { children } });
  const asker = await world.submit('asker', [
    { calls: [{ name: 'ask_agent', args: { agent: 'plain', message: input } }] },
    { text: 'Read.' },
  ]);
  const [spread, asked] = [await world.ended(fanOut), await world.ended(asker)];
  expect(spread.view).toMatchObject({ status: 'completed' });
  expect(asked.view).toMatchObject({ status: 'completed', result: { text: 'Read.' } });
  expect(eventsOf(asked, 'tool.execute.end')).toMatchObject([{ toolName: 'ask_agent', outputSummary: repaired }]);
});

test('a call whose id is longer than a decision may name can be decided about, and goes back under its own id', async () => {
  const { world } = shared;
  const long = `call__thought__${'x'.repeat(2_000)}`;
  const run = await world.submit('gated', [charge(long), { text: 'Paid.' }]);
  const [asked] = await pendingOf(run);
  expect(asked?.toolCallId?.length).toBeLessThanOrEqual(512);
  expect(await decide(run, { approvals: [{ toolCallId: asked?.toolCallId, granted: true }] })).toBe(202);
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'Paid.' } });
  expect(observed.executions).toHaveLength(1);
  expect(world.provider.callsOf(run.runId).at(-1)?.messages.at(-1)).toMatchObject({ tool_call_id: long });
});
