import { describe, expect, test } from 'vitest';
import { agentDefinition, limits, type AgentInput } from '../../../src/shared/agent.ts';
import { budgetCap } from '../../../src/shared/money.ts';
import { runRequest } from '../../../src/shared/run.ts';
import { effectiveBudget, effectiveLimits } from '../../../src/worker/run/limits.ts';

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

  test('what an author leaves open holds by default, but for steps, which the worker bounds', () => {
    const defaults = limits.parse({});
    expect(effectiveLimits(agent(), ask({ limits: greedy }), caps)).toEqual({ ...defaults, maxSteps: 1_000 });
  });

  test('an agent says what callers may raise, and an operator raises all but what the worker bounds', () => {
    const author = agent({ limits: lowest, callersMayRaise: ['maxSteps', 'wallTimeMs'] });
    const raised = { ...lowest, maxSteps: 1_000, wallTimeMs: greedy.wallTimeMs };
    expect(effectiveLimits(author, ask({ limits: greedy }), caps)).toEqual(raised);
    const asked = ask({ limits: greedy, raise: true });
    expect(effectiveLimits(agent({ limits: lowest }), asked, caps)).toEqual({ ...greedy, maxSteps: 1_000 });
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
    ['to have a person asked', cents(0.02, { onExceed: 'pause' })],
    ['models without a price', cents(50, { unpriced: 'allow' })],
  ] as const)('a request for %s keeps the cap of the author', ([, asked]) => {
    const own = cents(0.02, { unpriced: 'deny' });
    expect(effective(own, asked)).toEqual({ usd: 0.02, onExceed: 'fail', unpriced: 'deny' });
  });

  test('a smaller cap and a stricter rule hold', () => {
    const own = cents(1, { onExceed: 'warn' });
    expect(effective(own, cents(0.5, { onExceed: 'pause' }))).toMatchObject({
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
