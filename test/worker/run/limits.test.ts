import { describe, expect, test } from 'vitest';
import { agentDefinition, limits, requestBounds, type AgentInput } from '../../../src/shared/contract/agent/agent.ts';
import { budgetCap } from '../../../src/shared/contract/money.ts';
import { runRequest } from '../../../src/shared/contract/run.ts';
import {
  boundsOf,
  effectiveBudget,
  effectiveLimits,
  effectiveRetry,
  effectiveTaskLimits,
} from '../../../src/worker/run/limits.ts';

const caps = { maxSteps: 1_000 };
const lowest = {
  maxSteps: 2,
  maxLlmCalls: 3,
  maxToolCalls: 4,
  wallTimeMs: 5_000,
  maxCorrections: 1,
  maxParallelTools: 2,
  subagentFanoutPerStep: 1,
};
const greedy = {
  maxSteps: 10_000,
  maxLlmCalls: 10_000,
  maxToolCalls: 100_000,
  wallTimeMs: 86_400_000,
  maxCorrections: 100,
  maxParallelTools: 32,
  subagentFanoutPerStep: 64,
};
const agent = (more: Partial<AgentInput> = {}) => agentDefinition.parse({ id: 'a', model: 'm', ...more });
const ask = (more: object) => runRequest.parse({ agent: 'a', input: 'x', ...more });

describe('limits', () => {
  test('there is a greedy request for every limit', () => {
    expect(Object.keys(greedy)).toEqual(Object.keys(limits.shape));
  });

  test('a request gets no more than its agent gives, whichever limit it asks for', () => {
    const author = agent({ limits: lowest });
    expect(effectiveLimits(author, ask({ limits: greedy }), caps)).toEqual(lowest);
    expect(effectiveLimits(author, ask({ overrides: { maxTurns: 10_000 } }), caps)).toEqual(lowest);
  });

  test('a request gets less when it asks for less', () => {
    expect(effectiveLimits(agent(), ask({ limits: lowest }), caps)).toEqual(lowest);
    expect(effectiveLimits(agent({ limits: greedy }), ask({ limits: lowest }), caps)).toEqual(lowest);
    expect(effectiveLimits(agent(), ask({ overrides: { maxTurns: 2 } }), caps).maxSteps).toBe(2);
  });

  test('a limit that the author does not set has a default, but for steps, which the worker bounds', () => {
    const defaults = limits.parse({});
    expect(effectiveLimits(agent(), ask({ limits: greedy }), caps)).toEqual({ ...defaults, maxSteps: 1_000 });
  });

  test('an agent lists what callers may raise, and an operator raises all but what the worker bounds', () => {
    const author = agent({ limits: lowest, callersMayRaise: ['maxSteps', 'wallTimeMs'] });
    const raised = { ...lowest, maxSteps: 1_000, wallTimeMs: greedy.wallTimeMs };
    expect(effectiveLimits(author, ask({ limits: greedy }), caps)).toEqual(raised);
    const asked = ask({ limits: greedy, raise: true });
    expect(effectiveLimits(agent({ limits: lowest }), asked, caps)).toEqual({ ...greedy, maxSteps: 1_000 });
  });
});

describe('what a request asks for in places of its own', () => {
  const most = {
    maxFanOutChildren: 256,
    maxConcurrentChildren: 64,
    maxIterations: 50,
    maxNodeTries: 20,
    maxNodeBackoffMs: 86_400_000,
    maxMediaCount: 10,
    maxMediaSeconds: 600,
  };
  const least = {
    maxFanOutChildren: 2,
    maxConcurrentChildren: 1,
    maxIterations: 3,
    maxNodeTries: 2,
    maxNodeBackoffMs: 0,
    maxMediaCount: 1,
    maxMediaSeconds: 2,
  };

  test('an agent may bound all of it, as high as any request may go', () => {
    expect(Object.keys(most)).toEqual(requestBounds.keyof().options);
    expect(agent({ limits: most }).limits).toEqual(most);
    for (const [field, value] of Object.entries(most))
      expect(() => agent({ limits: { [field]: value + 1 } }), field).toThrow(field);
  });

  const boundsFor = (author: ReturnType<typeof agent>, asked: Partial<typeof most>, raise = false) => {
    const boundOf = boundsOf(author, { raise });
    return Object.fromEntries(requestBounds.keyof().options.map((field) => [field, boundOf(field, asked[field])]));
  };

  test('is its own where its agent has none, or more', () => {
    expect(boundsFor(agent(), most)).toEqual(most);
    expect(boundsFor(agent({ limits: most }), most)).toEqual(most);
    expect(boundsFor(agent({ limits: most }), least)).toEqual(least);
  });

  test('is no more than its agent gives, whatever it is', () => {
    expect(boundsFor(agent({ limits: least }), most)).toEqual(least);
    expect(boundsFor(agent({ limits: least }), {})).toEqual(least);
  });

  test('is raised where the agent allows that, and by an operator', () => {
    for (const field of requestBounds.keyof().options) {
      const author = agent({ limits: least, callersMayRaise: [field] });
      expect(boundsFor(author, most)).toEqual({ ...least, [field]: most[field] });
    }
    expect(boundsFor(agent({ limits: least }), most, true)).toEqual(most);
  });

  const node = { type: 'agent', id: 'n', prompt_template: 'x', retry: { max: 20 } };
  test('models of a node are tried no more often than those of its agent', () => {
    const own = { retry: { max: 2, backoff: 'linear' } } as const;
    const tries = (more: Partial<AgentInput>, request: object) => {
      const asked = ask(request);
      return effectiveRetry(agent(more), { retry: asked.node?.retry, raise: asked.raise });
    };
    expect(tries(own, { node })).toEqual({ max: 2, backoff: 'exponential' });
    expect(tries({ retry: { max: 9 } }, { node: { ...node, retry: { max: 3 } } })).toMatchObject({ max: 3 });
    expect(tries({}, { node })).toMatchObject({ max: 20 });
    expect(tries({ ...own, callersMayRaise: ['retry'] }, { node })).toMatchObject({ max: 20 });
    expect(tries(own, { node, raise: true })).toMatchObject({ max: 20 });
    expect(tries(own, {})).toEqual({ max: 2, backoff: 'linear' });
    expect(tries({}, {})).toMatchObject({ max: 1 });
  });
});

describe('a task', () => {
  const asked = (limits: object | undefined, more: object = {}) => {
    const { taskRun, raise } = ask({ taskRun: { adapter: 'a', ...(limits && { limits }) }, ...more });
    if (!taskRun) throw new Error('there is no task');
    return { limits: taskRun.limits, raise };
  };
  const greedyTask = { maxSteps: 1_000, maxWallMs: 86_400_000, maxCostUsd: 50 };
  const own = { maxSteps: 3, maxWallMs: 1_000, maxCostUsd: 0.02 };
  const ownLimits = { maxSteps: 3, maxWallMs: 1_000, maxCostMicrocents: 2_000_000 };

  test('gets no more than its adapter gives, and less where less is asked for', () => {
    expect(effectiveTaskLimits(own, asked(greedyTask))).toEqual(ownLimits);
    for (const none of [{}, { maxCostUsd: 0 }, { maxCostMicrocents: -1 }])
      expect(effectiveTaskLimits(own, asked({ ...greedyTask, maxCostUsd: undefined, ...none }))).toEqual(ownLimits);
    expect(effectiveTaskLimits(own, asked({ maxSteps: 1, maxWallMs: 5, maxCostMicrocents: 7 }))).toEqual({
      maxSteps: 1,
      maxWallMs: 5,
      maxCostMicrocents: 7,
    });
    expect(effectiveTaskLimits({ maxSteps: 100 }, asked(undefined))).toEqual({ maxSteps: 8, maxWallMs: 300_000 });
    expect(effectiveTaskLimits(undefined, asked({ maxSteps: 20 }))).toEqual({ maxSteps: 20, maxWallMs: 300_000 });
  });

  test('gets what an operator asks for', () => {
    const all = { maxSteps: 1_000, maxWallMs: 86_400_000 };
    const raise = { raise: true };
    expect(effectiveTaskLimits(own, asked(greedyTask, raise))).toEqual(greedyTask);
    expect(effectiveTaskLimits(own, asked({ ...all, maxCostUsd: 0 }, raise))).toEqual({ ...all, maxCostUsd: 0 });
    expect(effectiveTaskLimits(own, asked(all, raise))).toEqual({ ...all, maxCostMicrocents: 2_000_000 });
  });
});

describe('budgets', () => {
  const cents = (maxCostUsd: number, more: object = {}) => ({ maxCostUsd, ...more });
  const effective = (own: object | undefined, asked: object | undefined, more: Partial<AgentInput> = {}) => {
    const definition = agent({ ...(own && { budget: own }), ...more });
    const found = effectiveBudget(definition, ask(asked ? { budget: asked } : {}));
    return found && { usd: (budgetCap(found) ?? 0) / 1e8, onExceed: found.onExceed, unpriced: found.unpriced };
  };

  test.for([
    ['no cap', cents(0)],
    ['less than no cap', cents(-1)],
    ['no cap in microcents', { maxCostMicrocents: 0 }],
    ['no amount', {}],
    ['a larger cap', cents(50)],
    ['to be only warned', cents(0, { onExceed: 'warn' })],
    ['to be only warned at a larger cap', cents(50, { onExceed: 'warn' })],
    ['to have a person asked', cents(0.02, { onExceed: 'pause_for_approval' })],
    ['models without a price', cents(50, { unpriced: 'allow' })],
  ] as const)('a request for %s keeps the cap of the author', ([, asked]) => {
    const own = cents(0.02, { unpriced: 'deny' });
    expect(effective(own, asked)).toEqual({ usd: 0.02, onExceed: 'fail', unpriced: 'deny' });
  });

  test('the smaller cap and the stricter rule win', () => {
    const own = cents(1, { onExceed: 'warn' });
    expect(effective(own, cents(0.5, { onExceed: 'pause_for_approval' }))).toMatchObject({
      usd: 0.5,
      onExceed: 'pause_for_approval',
    });
    expect(effective(undefined, cents(0.5))).toMatchObject({ usd: 0.5 });
    expect(effective(own, undefined)).toMatchObject({ usd: 1, onExceed: 'warn' });
    expect(effective(undefined, undefined)).toBeUndefined();
  });

  test('an agent may let callers raise its budget', () => {
    expect(effective(cents(1), cents(50), { callersMayRaise: ['budget'] })).toMatchObject({ usd: 50 });
  });
});
