import { describe, expect, test } from 'vitest';
import type { ModelHint } from '../../../src/shared/contract/agent/agent.ts';
import { chooseModel, type ModelPreferences } from '../../../src/worker/turn/choose-model.ts';

const spec = { provider: 'p', model: 'exact' };
const tools = new Map<string, ModelHint>([
  ['slow', 'smart'],
  ['middle', 'balanced'],
  ['quick', 'fast'],
  ['special', spec],
  ['other', { provider: 'q', model: 'second' }],
]);
const tiers = {
  fast: { provider: 't', model: 'small' },
  balanced: { provider: 't', model: 'medium' },
  smart: { provider: 't', model: 'big' },
};
const base = (modelSource: string) => ({ model: 'base', modelSource });
const withTiers = (more: Partial<ModelPreferences> = {}): ModelPreferences => ({ tiers, tools, ...more });

describe('the strongest wish of the tools that were called', () => {
  test.each([
    [[], 'base', 'agent'],
    [['plain'], 'base', 'agent'],
    [['quick'], 'small', 'tier-map'],
    [['quick', 'middle'], 'medium', 'tier-map'],
    [['middle', 'slow', 'quick'], 'big', 'tier-map'],
    [['slow', 'special'], 'exact', 'spec'],
    [['other', 'special'], 'second', 'spec'],
    [['quick', 'quick'], 'small', 'tier-map'],
  ])('of %j is %s', (called, model, source) => {
    expect(chooseModel(base('agent'), withTiers(), called)).toMatchObject({ model, source, only: false });
  });
});

describe('who comes first', () => {
  const everything = withTiers({ agent: 'balanced' });

  test.each([
    ['prepareStep before the request', 'override', ['slow'], { model: 'forced' }, 'forced', 'prepare-step'],
    ['the request before the tools', 'override', ['slow'], {}, 'base', 'override'],
    ['the tools before the node', 'node', ['slow'], {}, 'big', 'tier-map'],
    ['the node before the preference of the agent', 'node', [], {}, 'base', 'node'],
    ['the tools before the preference of the agent', 'agent', ['quick'], {}, 'small', 'tier-map'],
    ['the preference of the agent before its model', 'agent', [], {}, 'medium', 'agent-preferred'],
  ])('%s', (_what, modelSource, called, forced, model, source) => {
    expect(chooseModel(base(modelSource), everything, called, forced)).toMatchObject({ model, source });
  });

  test('a preference for one model of a provider needs no tier', () => {
    expect(chooseModel(base('agent'), { tiers: {}, tools: new Map(), agent: spec }, [])).toEqual({
      model: 'exact',
      source: 'agent-preferred',
      primary: spec,
      only: false,
    });
  });
});

describe('a tier that is not mapped', () => {
  const some = { tiers: { fast: tiers.fast }, tools };

  test('is skipped for the next weaker wish, with the reason', () => {
    expect(chooseModel(base('agent'), some, ['slow', 'middle', 'quick'])).toMatchObject({
      model: 'small',
      source: 'tier-map',
      reason: 'no model is mapped to the tier smart, balanced',
    });
  });

  test('is skipped for the preference of the agent, and then for the default', () => {
    expect(chooseModel(base('agent'), { ...some, agent: 'fast' }, ['slow'])).toMatchObject({
      model: 'small',
      source: 'agent-preferred',
      reason: expect.stringContaining('smart'),
    });
    expect(chooseModel(base('agent'), { ...some, agent: 'smart' }, ['slow'])).toEqual({
      model: 'base',
      source: 'agent',
      only: false,
      reason: 'no model is mapped to the tier smart',
    });
  });
});

test('what the chain gets names a model only where it is another than the plan begins with', () => {
  expect(chooseModel(base('agent'), withTiers(), [])).not.toHaveProperty('primary');
  expect(chooseModel(base('agent'), withTiers(), ['slow']).primary).toEqual(tiers.smart);
});

test('a forced provider alone keeps the model, and nothing else is tried', () => {
  expect(chooseModel(base('agent'), withTiers(), ['slow'], { provider: 'b' })).toEqual({
    model: 'base',
    source: 'prepare-step',
    primary: { model: 'base', provider: 'b' },
    only: true,
  });
});
