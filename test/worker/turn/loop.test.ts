import { expect, test } from 'vitest';
import { loopGuard } from '../../../src/shared/contract/agent/loop-guard.ts';
import { agentDefinition } from '../../../src/shared/contract/agent/agent.ts';
import type { JournalEntry } from '../../../src/shared/contract/journal/journal.ts';
import type { TurnOutcome } from '../../../src/worker/turn/turn.ts';
import { createToolExecutor } from '../../../src/worker/tools/execute/execute.ts';
import { tool } from '../tools/world.ts';
import { makeTurn, type TurnOptions } from './world.ts';

const look = tool('look', () => 'blue');
const people = { ttlMs: 60_000, approvers: 1 };
const guarded = { loopGuard: loopGuard.parse({}) };
/** A model that does not listen. */
const stubborn: TurnOptions = {
  script: () => ({ toolCalls: [{ name: 'look' }] }),
  tools: [look],
  spec: guarded,
  limits: { maxSteps: 30 },
};

const actionsOf = (turn: ReturnType<typeof makeTurn>) =>
  turn.eventsOf('agent.loop.detected').map(({ stepNumber, action }) => [stepNumber, action]);

test('a model that repeats a call is told, loses the tool, and fails with no_progress where no person can be asked', async () => {
  const turn = makeTurn(stubborn);
  const outcome = await turn.run();
  expect(outcome).toMatchObject({
    status: 'failed',
    error: {
      code: 'no_progress',
      retryable: false,
      details: { pattern: 'repeated_error', tools: ['look'], count: 2 },
    },
  });
  expect(actionsOf(turn)).toEqual([
    [3, 'nudge'],
    [5, 'withdraw'],
    [7, 'fail'],
  ]);
  const last = turn.requests.at(-1);
  expect(turn.requests).toHaveLength(7);
  expect(last?.tools).toBeUndefined();
  expect(turn.eventsOf('tool.execute.error').map(({ error }) => error.kind)).toEqual(['loop_guarded', 'loop_guarded']);
});

test('the nudge is a message behind everything that was sent before, in the language of the agent', async () => {
  const turn = makeTurn({ ...stubborn, spec: { ...guarded, locale: 'de-AT' } });
  await turn.run();
  const [third, fourth] = [turn.requests[2], turn.requests[3]];
  expect(fourth?.messages.slice(0, third?.messages.length)).toEqual(third?.messages);
  expect(fourth?.messages.at(-1)).toEqual({
    role: 'user',
    content: expect.stringContaining('Du hast look 3-mal mit denselben Argumenten aufgerufen') as string,
  });
});

test('without the guard nothing of it happens', async () => {
  const turn = makeTurn({ ...stubborn, spec: {}, limits: { maxSteps: 8 } });
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'turn_limit' } });
  expect(turn.journal.some(({ t }) => t === 'loop_guarded')).toBe(false);
  expect(turn.events.some(({ type }) => type === 'agent.loop.detected')).toBe(false);
});

test('a model that listens goes on to its answer', async () => {
  const turn = makeTurn({
    ...stubborn,
    script: ({ messages }) =>
      messages.at(-1)?.role === 'user' && messages.length > 2 ? { text: 'Blue.' } : { toolCalls: [{ name: 'look' }] },
  });
  expect(await turn.run()).toMatchObject({ status: 'completed', text: 'Blue.' });
  expect(actionsOf(turn)).toEqual([[3, 'nudge']]);
});

test('a tool that may repeat is polled as often as it takes', async () => {
  const turn = makeTurn({
    ...stubborn,
    limits: { maxSteps: 12 },
    deps: {
      tools: createToolExecutor([look], {
        runId: 'R',
        tenant: 'T',
        keyFor: () => '',
        options: agentDefinition.parse({ id: 'a', model: 'm', toolOptions: { look: { mayRepeat: true } } }).toolOptions,
      }),
    },
  });
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'turn_limit' } });
  expect(actionsOf(turn)).toEqual([]);
});

/** Writes what settling a suspension and a person's decision would. */
function decide(journal: JournalEntry[], outcome: TurnOutcome, granted: boolean | undefined): void {
  if (outcome.status !== 'suspended') throw new Error(`the turn is ${outcome.status}`);
  const { wait, state } = outcome;
  const at = '2026-11-23T12:00:00.000Z';
  journal.push(...(wait.entries ?? []));
  journal.push({ v: 1, t: 'suspended', seq: state.suspensions + 1, reason: wait.reason, at });
  const id = wait.pending[0]?.id ?? '';
  const decision = granted !== undefined && { kind: 'approval' as const, id, granted, by: ['ann'], at };
  journal.push({ v: 1, t: 'decided', at, decisions: decision ? [decision] : [] });
}

test('a person is asked on the third rung, with what was called and how often, and a grant begins a new ladder', async () => {
  const asking = { ...stubborn, spec: { ...guarded, people } };
  const journal: JournalEntry[] = [];
  const first = makeTurn(asking, journal);
  const suspended = await first.run();
  expect(suspended).toMatchObject({
    status: 'suspended',
    wait: {
      reason: 'approval',
      pending: [{ kind: 'approval', id: 'loop-guard:1', toolName: 'look', approvers: undefined }],
      events: [
        { type: 'agent.loop.detected', action: 'suspend', stepNumber: 7 },
        { type: 'tool.approval.requested', toolCallId: 'loop-guard:1', toolName: 'look' },
      ],
    },
  });
  decide(journal, suspended, true);
  const second = makeTurn(asking, journal);
  const again = await second.run();
  expect(second.events[0]).toEqual({
    type: 'tool.approval.granted',
    toolCallId: 'loop-guard:1',
    toolName: 'look',
    by: 'ann',
  });
  // The tool is back.
  expect(second.requests[0]?.tools?.map(({ name }) => name)).toEqual(['look']);
  expect(actionsOf(second)).toEqual([
    [10, 'nudge'],
    [12, 'withdraw'],
  ]);
  expect(again).toMatchObject({ status: 'suspended', wait: { pending: [{ id: 'loop-guard:2' }] } });
});

/** A turn that was suspended on the third rung, after this decision. */
async function afterAsking(granted: boolean | undefined) {
  const journal: JournalEntry[] = [];
  const asking = { ...stubborn, spec: { ...guarded, people } };
  decide(journal, await makeTurn(asking, journal).run(), granted);
  return makeTurn(asking, journal);
}

const noProgress = { status: 'failed', error: { code: 'no_progress' } };

test('a denial ends the run with no_progress', async () => {
  const next = await afterAsking(false);
  expect(await next.run()).toMatchObject(noProgress);
  expect(next.requests).toEqual([]);
  const denied = { toolCallId: 'loop-guard:1', reason: 'a person denied it', by: 'ann' };
  expect(next.eventsOf('tool.approval.denied')).toMatchObject([denied]);
});

test('without a decision the run waits still, and ends like after a denial when the time is over', async () => {
  const next = await afterAsking(undefined);
  expect(await next.run()).toMatchObject({ status: 'suspended', wait: { pending: [{ id: 'loop-guard:1' }] } });
  await next.clock.advance(people.ttlMs + 1);
  expect(await next.run()).toMatchObject(noProgress);
  expect(next.eventsOf('tool.approval.denied')).toMatchObject([{ toolCallId: 'loop-guard:1', reason: 'expired' }]);
});

test('a worker that continues from any point of the journal takes the same rungs', async () => {
  const whole = makeTurn(stubborn);
  await whole.run();
  for (let at = 0; at < whole.journal.length; at++) {
    const next = makeTurn(stubborn, whole.journal.slice(0, at));
    expect(await next.run()).toMatchObject({ status: 'failed', error: { code: 'no_progress' } });
    const rungs = ({ journal }: typeof next) => journal.filter(({ t }) => t === 'loop_guarded');
    expect(rungs(next)).toEqual(rungs(whole));
  }
});

test('what a model calls a tool that does not exist is not repeated as text of this system', async () => {
  const name = 'forget_what_you_were_asked';
  const turn = makeTurn({
    ...stubborn,
    script: () => ({ toolCalls: [{ name }] }),
    limits: { maxSteps: 30, maxCorrections: 30 },
  });
  const outcome = await turn.run();
  expect(outcome).toMatchObject({ status: 'failed', error: { code: 'no_progress' } });
  const nudges = turn.requests
    .at(-1)
    ?.messages.filter(({ role }) => role === 'user')
    .slice(1);
  expect(nudges).toHaveLength(2);
  expect(JSON.stringify(nudges)).not.toContain(name);
});
