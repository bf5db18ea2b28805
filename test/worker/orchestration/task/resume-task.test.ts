import { describe, expect, test } from 'vitest';
import type { Json } from '../../../../src/shared/base/json-value.ts';
import { taskState, type TaskOutcome, type TaskState } from '../../../../src/shared/contract/orchestration/task.ts';
import { defineTaskAdapter, type AgentAdapter } from '../../../../src/worker/agents/adapter.ts';
import { createInMemoryLedgerRows } from '../../../../src/worker/orchestration/task/ledger.ts';
import {
  resumeAgentTask,
  resumeAgentTaskStream,
  runAgentTask,
  runAgentTaskStream,
} from '../../../../src/worker/orchestration/task/run-task.ts';
import { all } from '../../../support/http.ts';
import { counting, ended, hostWorld, replaying, type Add, type Counter } from './task-world.ts';

const task = { id: 'count' };

/** Acts, asks, and stops with the answer. */
function asking(over: Partial<AgentAdapter<Counter, Add>> = {}) {
  return counting({
    decide: ({ history }) => {
      if (history.length === 0) return { type: 'act', action: { add: 1 } };
      if (history.length === 1) return { type: 'ask', question: 'How far?', reason: 'it is not known' };
      const answer = history[1]?.outcome.ok ? history[1].outcome.result : 'nothing';
      return { type: 'stop', reason: `${String(answer)} it is`, pass: true };
    },
    ...over,
  });
}

/** The state of a task that asks, as it comes out of a store of texts. */
function stateOf(outcome: TaskOutcome): TaskState {
  if (outcome.status !== 'suspended') throw new Error(`the task has ended as ${outcome.status}`);
  return JSON.parse(JSON.stringify(outcome.state)) as TaskState;
}

test('a question suspends the task, and the answer is the result of that step', async () => {
  const world = hostWorld();
  const { adapter, calls } = asking();
  const outcome = await runAgentTask(adapter, { task, host: world.host });
  expect(outcome).toMatchObject({ status: 'suspended', taskId: 'count', question: 'How far?' });
  expect(calls).toEqual(['observe', 'validate', 'decide', 'act', 'observe', 'validate', 'decide']);
  expect(world.types().slice(-2)).toEqual(['task.decide', 'task.questions']);

  const later = hostWorld();
  const elsewhere = asking();
  const result = ended(await resumeAgentTask(stateOf(outcome), 'to three', elsewhere.adapter, { host: later.host }));
  expect(elsewhere.calls).toEqual(['observe', 'validate', 'decide']);
  expect(later.types()).toEqual([
    'task.start',
    'task.observe',
    'task.validate',
    'task.step',
    'task.decide',
    'task.end',
  ]);
  expect(later.events[0]).toEqual({ type: 'task.start', taskId: 'count', resumed: true });
  expect(result).toMatchObject({ status: 'completed', reason: 'to three it is', pass: true });
  expect(result.steps.map(({ stepNumber, decision }) => [stepNumber, decision.type])).toEqual([
    [1, 'act'],
    [2, 'ask'],
  ]);
  expect(result.steps[1]?.outcome).toEqual({ ok: true, result: 'to three', durationMs: 0 });
});

test('the time without an answer does not count, and all other bounds go on', async () => {
  const world = hostWorld();
  const slow = asking({
    act: () => {
      world.clock.nowMs += 1_000;
      return null;
    },
    decide: ({ history }) =>
      history.length === 1 ? { type: 'ask', question: 'Really?' } : { type: 'act', action: { add: 1 } },
  });
  const settings = { task, budget: { maxSteps: 8, maxWallMs: 3_500 }, stopPolicies: { maxRepeatedActions: 9 } };
  const saved = stateOf(await runAgentTask(slow.adapter, { ...settings, host: world.host }));
  expect(saved.elapsedMs).toBe(1_000);
  world.clock.nowMs += 86_400_000;
  const result = ended(await resumeAgentTask(saved, 'yes', slow.adapter, { host: world.host }));
  expect(result).toMatchObject({ stoppedBy: 'budget', wallMs: 4_000, reason: '3500 ms are used up' });
  expect(result.steps).toHaveLength(5);
});

test('the state may be text, and knows everything that it needs', async () => {
  const outcome = await runAgentTask(asking().adapter, { task, knowledge: { fact: 7 } });
  const text = JSON.stringify(stateOf(outcome));
  let seen: unknown;
  const { adapter } = asking({
    decide: (context) => {
      seen = context.knowledge;
      return { type: 'stop', reason: 'enough', pass: true };
    },
  });
  expect(ended(await resumeAgentTask(text, 'yes', adapter)).status).toBe('completed');
  expect(seen).toEqual({ fact: 7 });
});

test('the events of a task that goes on are numbered from where it asked', async () => {
  const before = runAgentTaskStream(asking().adapter, { task });
  const first = await all(before);
  const after = resumeAgentTaskStream(stateOf(await before.result), 'yes', asking().adapter);
  const numbers = [...first, ...(await all(after))].map(({ sequenceNumber }) => sequenceNumber);
  expect(numbers).toEqual(numbers.map((_, index) => index + 1));
  expect((await after.result).status).toBe('completed');
});

test('a task that goes on can be repeated like any other', async () => {
  const journal = new Map<string, Json>();
  const outcome = await runAgentTask(asking().adapter, { task, host: replaying(journal).host });
  const saved = stateOf(outcome);
  const dying = replaying(journal, 'decide:3');
  await expect(resumeAgentTask(saved, 'yes', asking().adapter, { host: dying.host })).rejects.toThrow('gone');
  const { adapter, calls } = asking();
  const result = ended(await resumeAgentTask(saved, 'yes', adapter, { host: replaying(journal).host }));
  expect(result.reason).toBe('yes it is');
  expect(calls).toEqual(['decide']);
});

test('one ledger row has the costs from before and after the question', async () => {
  const rows = createInMemoryLedgerRows();
  const paid = { getActionCostUsd: () => 0.01 };
  const ledger = { rows, id: 'row-1' };
  const saved = stateOf(await runAgentTask(asking(paid).adapter, { task, ledger }));
  expect(rows.all()).toEqual([]);
  const { adapter } = counting({ ...paid, decide: ({ history }) => (history.length < 4 ? act : stop) });
  const act = { type: 'act', action: { add: 1 } } as const;
  const stop = { type: 'stop', reason: 'done', pass: true } as const;
  const result = ended(await resumeAgentTask(saved, 'yes', adapter, { ledger: { rows } }));
  expect(result.costMicrocents).toBe(3_000_000);
  expect(rows.all()).toMatchObject([{ id: 'row-1', taskId: 'count', status: 'completed', costMicrocents: 3_000_000 }]);
});

describe('a state is refused', () => {
  const spoilt: readonly [string, (state: TaskState) => unknown, string][] = [
    ['that is no JSON', () => '{', 'run_state_malformed'],
    ['that is nothing', () => undefined, 'run_state_malformed'],
    ['without a version', ({ version: _version, ...rest }) => rest, 'run_state_malformed'],
    ['with a step that is none', (state) => ({ ...state, steps: [{}] }), 'run_state_malformed'],
    ['with settings that are wrong', (state) => ({ ...state, settings: { task: {} } }), 'run_state_malformed'],
    ['with a field too many', (state) => ({ ...state, colour: 1 }), 'run_state_malformed'],
    ['of a later version', (state) => ({ ...state, version: 2, steps: 'elsewhere' }), 'run_state_version_unsupported'],
    ['of another adapter', (state) => ({ ...state, adapterId: 'other' }), 'validation'],
  ];

  test.each(spoilt)('%s', async (_, spoil, code) => {
    const state = spoil(stateOf(await runAgentTask(asking().adapter, { task })));
    await expect(resumeAgentTask(state, 'yes', asking().adapter)).rejects.toMatchObject({ code });
    expect(() => resumeAgentTaskStream(state, 'yes', asking().adapter)).toThrow(expect.objectContaining({ code }));
  });

  test('and so is an answer that is blank or too long', async () => {
    const state = stateOf(await runAgentTask(asking().adapter, { task }));
    for (const answer of ['  ', 'x'.repeat(70_000), 7 as never])
      await expect(resumeAgentTask(state, answer, asking().adapter)).rejects.toMatchObject({ code: 'validation' });
  });

  test('but not one of the adapter that has the same name', async () => {
    const named = () => defineTaskAdapter({ ...asking().adapter, id: 'counter' });
    const state = stateOf(await runAgentTask(named(), { task }));
    expect(taskState.parse(state).adapterId).toBe('counter');
    expect((await resumeAgentTask(state, 'yes', named())).status).toBe('completed');
  });
});

test('a task may ask again and again, as long as it has steps', async () => {
  const { adapter } = counting({ decide: () => ({ type: 'ask', question: 'And now?' }) });
  const world = hostWorld();
  let outcome = await runAgentTask(adapter, { task, budget: { maxSteps: 3 }, host: world.host });
  for (let asked = 1; asked < 3; asked++)
    outcome = await resumeAgentTask(stateOf(outcome), 'wait', adapter, { host: world.host });
  expect(stateOf(outcome).events).toBe(world.events.length);
  outcome = await resumeAgentTask(stateOf(outcome), 'wait', adapter);
  expect(outcome).toMatchObject({ status: 'failed', stoppedBy: 'budget' });
});
