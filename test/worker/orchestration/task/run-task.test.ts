import { describe, expect, test } from 'vitest';
import { RunError } from '../../../../src/shared/base/errors.ts';
import { eventBodies, eventSchema } from '../../../../src/shared/contract/event.ts';
import { taskResult } from '../../../../src/shared/contract/orchestration/task.ts';
import type { AgentAdapter, TaskContext } from '../../../../src/worker/agents/adapter.ts';
import { runAgentTask, runAgentTaskStream } from '../../../../src/worker/orchestration/task/run-task.ts';
import { all } from '../../../support/http.ts';
import { counting, ended, hostWorld, replaying, type Add, type Counter } from './task-world.ts';

const task = { id: 'count' };
const always = { decide: () => ({ type: 'act', action: { add: 0 } }) as const };

describe('the loop', () => {
  test('observes before each decision, and checks what an action has done', async () => {
    const { adapter, calls } = counting();
    const result = ended(await runAgentTask(adapter, { task }));
    const round = ['decide', 'act', 'observe', 'validate'];
    expect(calls).toEqual(['observe', 'validate', ...round, ...round, ...round, 'decide']);
    expect(taskResult.parse(result)).toMatchObject({
      status: 'completed',
      pass: true,
      completed: true,
      stoppedBy: 'policy',
      reason: 'counted to three',
      score: 0.75,
      finalState: { count: 3 },
      finalEvals: [{ id: 'three', passed: true, score: 0.75 }],
      spentCostUsd: 0,
    });
    expect(result.steps).toHaveLength(3);
  });

  test('a step says what was decided, what came of it and how things stood before and after', async () => {
    const world = hostWorld();
    const { adapter } = counting({
      act: () => {
        world.clock.nowMs += 250;
        throw new Error('the counter is stuck, says Bearer abcdefgh12345');
      },
    });
    const { steps } = ended(await runAgentTask(adapter, { task, budget: { maxSteps: 1 }, host: world.host }));
    const evals = [{ id: 'three', passed: false, score: 0 }];
    expect(steps).toEqual([
      {
        stepNumber: 1,
        decision: { type: 'act', action: { add: 1 } },
        beforeState: { count: 0 },
        afterState: { count: 0 },
        beforeEvals: evals,
        afterEvals: evals,
        outcome: {
          ok: false,
          error: { code: 'internal', message: 'the counter is stuck, says Bearer [redacted]' },
          durationMs: 250,
        },
        startedAt: '2026-01-01T00:00:00.000Z',
        endedAt: '2026-01-01T00:00:00.250Z',
      },
    ]);
  });

  test('a failing action is one step, and the adapter decides again, unless the task is to stop', async () => {
    let tries = 0;
    const flaky = (over: object = {}) =>
      counting({
        act: () => {
          if (++tries === 1) throw new Error('not now');
          return {};
        },
        decide: ({ history }) =>
          history.at(-1)?.outcome.ok
            ? { type: 'stop', reason: 'done', pass: true }
            : { type: 'act', action: { add: 1 } },
        ...over,
      }).adapter;
    const result = ended(await runAgentTask(flaky(), { task }));
    expect(result).toMatchObject({ status: 'completed', stoppedBy: 'policy' });
    expect(result.steps.map(({ outcome }) => outcome.ok)).toEqual([false, true]);
    tries = 0;
    const stopped = ended(await runAgentTask(flaky(), { task, onActionFailure: 'stop' }));
    expect(stopped).toMatchObject({
      status: 'failed',
      stoppedBy: 'runtime-error',
      completed: false,
      error: { code: 'internal', message: 'not now' },
    });
    expect(stopped.steps).toHaveLength(1);
  });

  test.each(['observe', 'validate', 'decide', 'shouldStop'] as const)(
    'a throw of %s ends the task as failed, with its error',
    async (name) => {
      const { adapter } = counting({
        [name]: () => {
          throw new Error('out of order');
        },
      });
      expect(ended(await runAgentTask(adapter, { task }))).toMatchObject({
        status: 'failed',
        stoppedBy: 'runtime-error',
        completed: false,
        pass: false,
        error: { code: 'internal', message: 'out of order' },
      });
    },
  );

  test('an action that worked is written down also when nothing can be observed afterwards', async () => {
    let seen = 0;
    const { adapter } = counting({
      observe: () => {
        if (seen++ > 0) throw new Error('blind');
        return { count: 0 };
      },
    });
    const result = ended(await runAgentTask(adapter, { task }));
    expect(result).toMatchObject({ status: 'failed', stoppedBy: 'runtime-error', finalState: { count: 0 } });
    expect(result.steps).toMatchObject([{ outcome: { ok: true }, afterState: { count: 0 } }]);
  });

  test('what an adapter gets is frozen, and what it answers is copied', async () => {
    const state = { count: 0 };
    const seen: boolean[] = [];
    const { adapter } = counting({
      observe: () => state,
      act: (context) => {
        state.count++;
        const { state: given, history, task: spec, action } = context;
        seen.push(...[given, history, spec, action].map((value) => Object.isFrozen(value)));
        return state;
      },
    });
    const { steps } = ended(await runAgentTask(adapter, { task }));
    expect(steps.map(({ beforeState }) => beforeState)).toEqual([{ count: 0 }, { count: 1 }, { count: 2 }]);
    const repeated = replaying(new Map());
    state.count = 0;
    await runAgentTask(adapter, { task, host: repeated.host });
    expect(seen).toHaveLength(24);
    expect(seen).not.toContain(false);
  });

  test('a call has the same idempotency key whenever it is made again, and no other has it', async () => {
    const keys: string[] = [];
    const note = ({ idempotencyKey }: TaskContext) => void keys.push(idempotencyKey);
    const make = () => {
      const { adapter } = counting();
      return {
        ...adapter,
        act: (context: Parameters<typeof adapter.act>[0]) => {
          note(context);
          return adapter.act(context);
        },
      };
    };
    await runAgentTask(make(), { task });
    await runAgentTask(make(), { task });
    expect(keys).toEqual(['count:act:1', 'count:act:2', 'count:act:3', 'count:act:1', 'count:act:2', 'count:act:3']);
  });
});

describe('a task ends', () => {
  test('after 8 steps unless the budget has another number', async () => {
    const { adapter } = counting(always);
    const result = ended(await runAgentTask(adapter, { task }));
    expect(result).toMatchObject({ status: 'failed', stoppedBy: 'budget', completed: false, pass: false });
    expect(result.steps).toHaveLength(8);
  });

  test('when the same action is decided too often in a row, before the last of them', async () => {
    const { adapter, calls } = counting(always);
    const result = ended(await runAgentTask(adapter, { task, stopPolicies: { maxRepeatedActions: 2 } }));
    expect(result).toMatchObject({ status: 'failed', stoppedBy: 'stop-policy', completed: true });
    expect(calls.filter((name) => name === 'act')).toHaveLength(1);
  });

  test('another action in between is no repetition, and the order of fields makes no other action', async () => {
    const acts = [{ a: 1, b: 2 }, { c: 1 }, { b: 2, a: 1 }, { a: 1, b: 2 }];
    const { adapter } = counting({
      decide: ({ history }) => ({ type: 'act', action: acts[history.length] as unknown as Add }),
      act: () => null,
    });
    const result = ended(await runAgentTask(adapter, { task, stopPolicies: { maxRepeatedActions: 2 } }));
    expect(result.steps).toHaveLength(3);
    expect(result.stoppedBy).toBe('stop-policy');
  });

  test('when nothing moves for too many steps; a score that moves enough is progress', async () => {
    const stopPolicies = { maxNoProgressSteps: 2 };
    const { adapter } = counting(always);
    const still = ended(await runAgentTask(adapter, { task, stopPolicies }));
    expect(still).toMatchObject({ stoppedBy: 'stop-policy', completed: true, status: 'failed' });
    expect(still.steps).toHaveLength(2);
    const creeping = (by: number) => {
      let score = 0;
      return counting({ ...always, validate: () => [{ id: 'three', passed: false, score: (score += by) }] }).adapter;
    };
    expect(ended(await runAgentTask(creeping(0.0005), { task, stopPolicies })).steps).toHaveLength(2);
    expect(ended(await runAgentTask(creeping(0.01), { task, stopPolicies })).steps).toHaveLength(8);
    let seen = 0;
    const moving = counting({ ...always, observe: () => ({ count: seen++ }), validate: () => [] });
    expect(ended(await runAgentTask(moving.adapter, { task, stopPolicies })).steps).toHaveLength(8);
    const coarse = { ...stopPolicies, minScoreDelta: 0.1 };
    expect(ended(await runAgentTask(creeping(0.01), { task, stopPolicies: coarse })).steps).toHaveLength(2);
  });

  test('when its own stop policy says so', async () => {
    const { adapter, calls } = counting({
      shouldStop: ({ state }) => ({ stop: state.count === 2, pass: true, reason: 'two will do', score: 0.9 }),
    });
    const result = ended(await runAgentTask(adapter, { task }));
    expect(result).toMatchObject({
      status: 'completed',
      stoppedBy: 'stop-policy',
      reason: 'two will do',
      score: 0.9,
    });
    expect(calls.filter((name) => name === 'decide')).toHaveLength(2);
  });

  test.each([
    [{ pass: true }, [], 'completed'],
    [{ pass: false }, [{ id: 'a', passed: true }], 'failed'],
    [{}, [], 'failed'],
    [{}, [{ id: 'a', passed: true }], 'completed'],
    [
      {},
      [
        { id: 'a', passed: true },
        { id: 'b', passed: false },
      ],
      'failed',
    ],
    [
      {},
      [
        { id: 'a', passed: true },
        { id: 'b', passed: false, severity: 'warning' as const },
      ],
      'completed',
    ],
  ])('by a stop with %j over the evals %j as it has passed', async (verdict, evals, status) => {
    const { adapter } = counting({
      validate: () => evals,
      decide: () => ({ type: 'stop', reason: 'enough', ...verdict }),
    });
    const result = ended(await runAgentTask(adapter, { task }));
    expect(result).toMatchObject({ status, pass: status === 'completed', completed: true, stoppedBy: 'policy' });
  });

  test('when its time is up, between calls and in the middle of one', async () => {
    const world = hostWorld();
    const slow = counting({
      ...always,
      act: () => {
        world.clock.nowMs += 200_000;
        return null;
      },
    });
    const result = ended(await runAgentTask(slow.adapter, { task, host: world.host }));
    expect(result).toMatchObject({ stoppedBy: 'budget', status: 'failed', wallMs: 400_000 });
    expect(result.steps).toHaveLength(2);
    let reason: unknown;
    const hanging = counting({
      decide: ({ signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => reject((reason = signal.reason)));
        }),
    });
    const cut = ended(await runAgentTask(hanging.adapter, { task, budget: { maxWallMs: 60 } }));
    expect(cut).toMatchObject({ stoppedBy: 'budget', status: 'failed', completed: false });
    expect(reason).toMatchObject({ name: 'TimeoutError' });
  });

  test('when it is aborted: before it begins, and while an adapter works that does not listen', async () => {
    const early = counting();
    const signal = AbortSignal.abort('not needed any more');
    expect(ended(await runAgentTask(early.adapter, { task, signal }))).toMatchObject({
      status: 'aborted',
      stoppedBy: 'abort',
      reason: 'not needed any more',
      completed: false,
    });
    expect(early.calls).toEqual([]);
    const stop = new AbortController();
    const stubborn = counting({
      act: () => {
        stop.abort();
        return new Promise(() => {});
      },
    });
    const result = ended(await runAgentTask(stubborn.adapter, { task, signal: stop.signal }));
    expect(result).toMatchObject({ status: 'aborted', stoppedBy: 'abort', finalState: { count: 0 } });
    expect(result.steps).toEqual([]);
  });

  test('a timeout that the adapter itself throws is a failure like any other, not the end of the time', async () => {
    const { adapter } = counting({
      decide: () => {
        throw new RunError('run_timeout', 'the run took too long');
      },
    });
    expect(ended(await runAgentTask(adapter, { task }))).toMatchObject({
      stoppedBy: 'runtime-error',
      error: { code: 'run_timeout' },
    });
  });
});

describe('knowledge', () => {
  const requirements = [
    { id: 'status', description: 'Filing status', question: 'What is the filing status?' },
    { id: 'rates', description: 'The rates of the year', acquire: 'read the rates from the gazette' },
    { id: 'nickname', description: 'What the customer is called', required: false },
  ];
  const needing = { task: { ...task, requirements } };

  test('that is required and missing blocks a task before anything is observed, decided or done', async () => {
    const world = hostWorld();
    const { adapter, calls } = counting();
    const result = ended(await runAgentTask(adapter, { ...needing, host: world.host, knowledge: { rates: null } }));
    expect(taskResult.parse(result)).toMatchObject({
      status: 'blocked',
      pass: false,
      completed: false,
      stoppedBy: 'policy',
      missing: ['status', 'rates', 'nickname'],
      questions: ['What is the filing status?', 'The rates of the year'],
      acquisitionPlan: ['read the rates from the gazette'],
      steps: [],
      finalState: null,
    });
    expect(calls).toEqual([]);
    expect(world.types()).toEqual(['task.start', 'task.readiness', 'task.questions', 'task.acquisition', 'task.end']);
  });

  test('that is only wished for blocks nothing', async () => {
    const knowledge = { status: 'single', rates: [0.1, 0.2] };
    const { adapter } = counting({
      decide: (context) => ({ type: 'stop', reason: JSON.stringify(context.knowledge), pass: true }),
    });
    const result = ended(await runAgentTask(adapter, { ...needing, knowledge }));
    expect(result).toMatchObject({ status: 'completed', reason: JSON.stringify(knowledge) });
  });

  test('that the adapter finds when it gets what is missing lets the task begin', async () => {
    const world = hostWorld();
    const { adapter, calls } = counting({
      onKnowledgeBlocked: ({ missing }) => ({ knowledge: Object.fromEntries(missing.map((id) => [id, 'found'])) }),
    });
    const result = ended(await runAgentTask(adapter, { ...needing, host: world.host }));
    expect(result.status).toBe('completed');
    expect(calls.slice(0, 2)).toEqual(['onKnowledgeBlocked', 'observe']);
    expect(world.events.filter(({ type }) => type === 'task.readiness')).toEqual([
      { type: 'task.readiness', ready: false, missing: ['status', 'rates', 'nickname'] },
      { type: 'task.readiness', ready: true, missing: [] },
    ]);
  });

  test('that the adapter does not find, or not all of it, leaves the task blocked', async () => {
    for (const onKnowledgeBlocked of [() => undefined, () => ({ knowledge: { status: 'single' } })]) {
      const { adapter, calls } = counting({ onKnowledgeBlocked });
      expect(ended(await runAgentTask(adapter, needing)).status).toBe('blocked');
      expect(calls).toEqual(['onKnowledgeBlocked']);
    }
  });
});

describe('what is not right', () => {
  test('about the options is reported all at once', async () => {
    const options = { task: { id: 'a b', colour: 1 }, budget: { maxSteps: 0, maxCostUsd: 1, maxCostMicrocents: 1 } };
    await expect(runAgentTask(counting().adapter, options as never)).rejects.toMatchObject({
      code: 'validation',
      details: [
        expect.stringMatching(/^task\.id: /),
        'task.colour: is not a known field',
        expect.stringMatching(/^budget\.maxSteps: /),
        'budget: give maxCostMicrocents or maxCostUsd, not both',
      ],
    });
    await expect(runAgentTask({ observe: 1, decide: () => 1 } as never, { task })).rejects.toMatchObject({
      code: 'validation',
      details: expect.arrayContaining(['observe: must be a function', 'act: must be a function']),
    });
  });

  test.each<[string, Partial<AgentAdapter<Counter, Add>>]>([
    ['a date', { observe: () => ({ count: new Date() }) as never }],
    ['nothing to be seen', { observe: () => undefined as never }],
    ['a number that is none', { observe: () => ({ count: Number.NaN }) }],
    ['a state that is too large', { observe: () => ({ count: 1, text: 'x'.repeat(256 * 1024) }) as never }],
    ['a state that is too deep', { observe: () => nested(60) as never }],
    ['a state that contains itself', { observe: () => circle() as never }],
    ['an eval without an id', { validate: () => [{ passed: true }] as never }],
    [
      'two evals with one id',
      {
        validate: () => [
          { id: 'a', passed: true },
          { id: 'a', passed: true },
        ],
      },
    ],
    ['a score beyond the best', { validate: () => [{ id: 'a', passed: true, score: 7 }] }],
    [
      'evals that are too large',
      { validate: () => many(60).map((id) => ({ id, passed: true, detail: 'x'.repeat(2_000) })) },
    ],
    ['an unknown decision', { decide: () => ({ type: 'continue', action: 1 }) as never }],
    ['an action that is missing', { decide: () => ({ type: 'act' }) as never }],
    ['an action that is too large', { decide: () => ({ type: 'act', action: 'x'.repeat(70_000) }) as never }],
    ['a result that is a function', { act: () => () => 1 }],
    ['a result that is an instance', { act: () => new Map() }],
    ['a cost that is negative', { getActionCostUsd: () => -1 }],
    ['a cost that is none', { getActionCostUsd: () => 'much' as never }],
    ['a verdict without stop', { shouldStop: () => ({ pass: true }) as never }],
  ])('in what an adapter answers ends the task with validation: %s', async (_, over) => {
    const result = ended(await runAgentTask(counting(over).adapter, { task }));
    expect(result).toMatchObject({ status: 'failed', stoppedBy: 'runtime-error', error: { code: 'validation' } });
  });

  test('fields that are undefined are no fields, and an action that answers nothing answers null', async () => {
    const { adapter } = counting({
      observe: () => ({ count: 3, note: undefined }),
      act: () => undefined,
      decide: ({ history }) =>
        history.length === 0 ? { type: 'act', action: { add: 1 } } : { type: 'stop', reason: 'enough' },
    });
    const result = ended(await runAgentTask(adapter, { task }));
    expect(result.finalState).toEqual({ count: 3 });
    expect(result.steps[0]?.outcome).toMatchObject({ ok: true, result: null });
  });
});

function nested(levels: number): unknown {
  return levels === 0 ? 1 : { in: nested(levels - 1) };
}

function circle(): unknown {
  const round: Record<string, unknown> = {};
  round['round'] = round;
  return round;
}

function many(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `e${index}`);
}

describe('events', () => {
  const round = ['task.decide', 'task.act', 'task.observe', 'task.validate', 'task.step'];
  const golden = [
    'task.start',
    'task.readiness',
    'task.observe',
    'task.validate',
    ...round,
    ...round,
    ...round,
    'task.decide',
    'task.end',
  ];

  test('come in an order that never changes, each in the form of the table', async () => {
    const stream = runAgentTaskStream(counting().adapter, { task: { ...task, intent: 'count to three' } });
    const events = await all(stream);
    for (const event of events) eventSchema.parse(event);
    expect(events.map(({ type }) => type)).toEqual(golden);
    expect(events.map(({ sequenceNumber }) => sequenceNumber)).toEqual(events.map((_, index) => index + 1));
    expect(events[0]).toMatchObject({ type: 'task.start', taskId: 'count', intent: 'count to three', runId: 'count' });
    expect(events.at(-1)).toMatchObject({
      type: 'task.end',
      status: 'completed',
      pass: true,
      score: 0.75,
      reason: 'counted to three',
      stoppedBy: 'policy',
    });
    expect(events.filter(({ type }) => type === 'task.step')).toHaveLength(ended(await stream.result).steps.length);
  });

  test('are the same for the stream and for the call that only waits', async () => {
    const world = hostWorld();
    const waited = await runAgentTask(counting().adapter, { task, host: world.host });
    const stream = runAgentTaskStream(counting().adapter, { task, host: hostWorld().host });
    const streamed = (await all(stream)).map(bodyOf);
    expect(streamed).toEqual(world.events);
    expect(await stream.result).toEqual(waited);
  });

  test('that are not read, or not any more, block nothing', async () => {
    expect((await runAgentTaskStream(counting().adapter, { task }).result).status).toBe('completed');
    const left = runAgentTaskStream(counting().adapter, { task });
    for await (const event of left) if (event.type === 'task.observe') break;
    expect((await left.result).status).toBe('completed');
  });

  test('of what is too large have its outline', async () => {
    const world = hostWorld();
    const { adapter } = counting({
      observe: () => ({ count: 1, text: 'x'.repeat(40_000) }) as Counter,
      decide: ({ history }) =>
        history.length === 0
          ? { type: 'act', action: { add: 1, text: 'y'.repeat(40_000) } as Add }
          : { type: 'stop', reason: 'enough' },
      act: () => 'z'.repeat(40_000),
    });
    const { steps } = ended(await runAgentTask(adapter, { task, host: world.host }));
    expect(JSON.stringify(world.events).length).toBeLessThan(5_000);
    expect(world.events.find(({ type }) => type === 'task.step')).toMatchObject({
      record: { stepNumber: 1, cut: true, decision: { type: 'act', action: null }, beforeState: null },
    });
    expect(steps[0]).not.toHaveProperty('cut');
    expect(JSON.stringify(steps).length).toBeGreaterThan(160_000);
  });

  test('the table knows all of them', () => {
    for (const type of golden) expect(eventBodies).toHaveProperty([type]);
  });
});

function bodyOf({
  v: _v,
  runId: _run,
  sequenceNumber: _number,
  timestamp: _at,
  ...body
}: {
  [field: string]: unknown;
}) {
  return body;
}

describe('a host', () => {
  test('that repeats a task from earlier answers makes no call again and gets the same task', async () => {
    const journal = new Map();
    const first = replaying(journal);
    const live = counting();
    const outcome = await runAgentTask(live.adapter, { task, host: first.host });
    const silent = counting();
    const again = replaying(journal);
    expect(await runAgentTask(silent.adapter, { task, host: again.host })).toEqual(outcome);
    expect(silent.calls).toEqual([]);
    expect(again.events).toEqual(first.events);
    expect(new Set(journal.keys()).size).toBe(live.calls.length);
  });

  test.each(['observe:0', 'decide:2', 'act:2', 'validate:2', 'decide:4'])(
    'whose worker dies at %s goes on from there elsewhere, with every call made once',
    async (crashAt) => {
      const journal = new Map();
      const { adapter, calls } = counting();
      const dying = replaying(journal, crashAt);
      await expect(runAgentTask(adapter, { task, host: dying.host })).rejects.toThrow('the worker is gone');
      expect(dying.types()).not.toContain('task.end');
      const next = replaying(journal);
      const result = ended(await runAgentTask(adapter, { task, host: next.host }));
      expect(result).toMatchObject({ status: 'completed', finalState: { count: 3 } });
      expect(next.events.slice(0, dying.events.length)).toEqual(dying.events);
      const round = ['decide', 'act', 'observe', 'validate'];
      expect(calls).toEqual(['observe', 'validate', ...round, ...round, ...round, 'decide']);
    },
  );

  test('repeats failures as well, and asks for no name twice', async () => {
    const journal = new Map();
    let tries = 0;
    const failing = () =>
      counting({
        act: () => {
          tries++;
          throw new Error('never');
        },
      }).adapter;
    const first = replaying(journal);
    const outcome = await runAgentTask(failing(), { task, host: first.host });
    expect(tries).toBe(8);
    expect(await runAgentTask(failing(), { task, host: replaying(journal).host })).toEqual(outcome);
    expect(tries).toBe(8);
    const named = hostWorld();
    await runAgentTask(counting().adapter, { task, host: named.host });
    expect(new Set(named.names).size).toBe(named.names.length);
  });

  test('that stops a task emits that itself: nothing is emitted in its place', async () => {
    const world = hostWorld({ step: async () => Promise.reject(new RunError('cancelled', 'handed over')) });
    await expect(runAgentTask(counting().adapter, { task, host: world.host })).rejects.toThrow('handed over');
    expect(world.types()).toEqual(['task.start', 'task.readiness']);
  });

  test('that answers with what no call has answered gets an error that says so', async () => {
    const world = hostWorld({ step: async () => ({ ok: 'perhaps' }) });
    await expect(runAgentTask(counting().adapter, { task, host: world.host })).rejects.toMatchObject({
      code: 'run_state_malformed',
    });
  });
});

test('a long task keeps all its steps, and of the oldest ones their outline', async () => {
  let largest = 0;
  const { adapter } = counting({
    observe: () => ({ count: 0, text: 'x'.repeat(200_000) }) as Counter,
    decide: ({ history }) => {
      largest = Math.max(largest, JSON.stringify(history).length);
      return { type: 'act', action: { add: history.length } };
    },
  });
  const { steps } = ended(await runAgentTask(adapter, { task, budget: { maxSteps: 12 } }));
  expect(steps.map(({ stepNumber }) => stepNumber)).toEqual(Array.from({ length: 12 }, (_, index) => index + 1));
  expect(steps[0]).toMatchObject({ cut: true, beforeState: null, outcome: { ok: true, result: null } });
  expect(steps.at(-1)).not.toHaveProperty('cut');
  expect(largest).toBeLessThan(2.1 * 1024 * 1024);
});
