import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { RunError } from '../../../src/shared/base/errors.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';

/** As a YAML file may give it. */
const define = (source: Record<string, unknown>) => defineAgent({ id: 'x', model: 'm', ...source }).definition;

function problemsOf(source: Record<string, unknown>): unknown {
  try {
    define(source);
    return [];
  } catch (error) {
    if (error instanceof RunError && error.code === 'agent_manifest_invalid') return error.details;
    throw error;
  }
}

describe('fallback models', () => {
  const list = ['a', { provider: 'p', model: 'b' }];

  test.each([
    [{ fallbackModels: list }],
    [{ fallback_chain: list }],
    [{ fallbackModelChain: list }],
    [{ fallback_model_chain: list }],
    [{ policy: { fallbackModels: list } }],
    [{ failSafe: { fallbackModelChain: list } }],
  ])('may be written as %j', (source) => {
    expect(define(source)).toMatchObject({ fallbackModels: list });
    expect(define(source)).not.toHaveProperty(
      Object.keys(source)[0] === 'fallbackModels' ? 'policy' : (Object.keys(source)[0] ?? ''),
    );
  });

  test('are given once, in one spelling', () => {
    expect(problemsOf({ fallbackModels: list, fallback_chain: list })).toEqual([
      'fallbackModels: is given as fallbackModels and as fallback_chain; give one of them',
    ]);
    expect(
      problemsOf({ fallback_chain: [], policy: { fallbackModels: [] }, failSafe: { fallbackModelChain: [] } }),
    ).toEqual([
      'fallbackModels: is given as fallback_chain and as policy.fallbackModels; give one of them',
      'fallbackModels: is given as fallback_chain and as failSafe.fallbackModelChain; give one of them',
    ]);
  });

  test('a problem is reported under the name that its author wrote', () => {
    expect(problemsOf({ fallback_chain: ['a', ''] })).toEqual([expect.stringMatching(/^fallback_chain\.1: /)]);
    expect(problemsOf({ policy: { fallbackModels: 'a' } })).toEqual([
      expect.stringMatching(/^policy\.fallbackModels: /),
    ]);
  });
});

describe('failure policies', () => {
  test.each([
    ['fail', 'fail'],
    ['fail_fast', 'fail'],
    ['fail_run', 'fail'],
    ['retry_then_fail', 'fail'],
    ['degrade', 'degrade'],
    ['retry_then_degrade', 'degrade'],
    ['continue', 'degrade'],
    ['continue_with_error', 'degrade'],
    ['retry_then_continue', 'degrade'],
    ['skip_action', 'degrade'],
  ])('llmFailure %s is read as %s', (spelling, read) => {
    expect(define({ llmFailure: spelling }).llmFailure).toBe(read);
    expect(define({ failSafe: { llmFailurePolicy: spelling } }).llmFailure).toBe(read);
  });

  test.each([
    ['fail', 'fail'],
    ['fail_fast', 'fail'],
    ['fail_run', 'fail'],
    ['retry_then_fail', 'fail'],
    ['degrade', 'degrade'],
    ['retry_then_degrade', 'degrade'],
    ['feed_back', 'feed_back'],
    ['continue', 'feed_back'],
    ['continue_with_error', 'feed_back'],
    ['retry_then_continue', 'feed_back'],
    ['skip_action', 'feed_back'],
  ])('toolFailure %s is read as %s', (spelling, read) => {
    expect(define({ toolFailure: spelling }).toolFailure).toBe(read);
    expect(define({ failSafe: { toolFailurePolicy: spelling } }).toolFailure).toBe(read);
  });

  test('other values are problems, each under its own name', () => {
    expect(problemsOf({ llmFailure: 'explode', toolFailure: 7 })).toHaveLength(2);
    expect(problemsOf({ failSafe: { llmFailurePolicy: 'feed_back', toolFailurePolicy: 'no' } })).toEqual([
      expect.stringMatching(/^failSafe\.toolFailurePolicy: .*feed_back/),
      expect.stringMatching(/^failSafe\.llmFailurePolicy: .*degrade/),
    ]);
  });
});

describe('failSafe', () => {
  test('holds policies and ceilings, times in seconds', () => {
    const failSafe = {
      llmFailurePolicy: 'degrade',
      toolFailurePolicy: 'fail_run',
      subagentFailurePolicy: 'retry_then_degrade',
      subagentFanoutPerStep: 2,
      breakerFailureThreshold: 3,
      breakerCooldownS: 1.5,
      maxSteps: 4,
      maxLlmCalls: 5,
      maxToolCalls: 6,
      maxParallelTools: 2,
      maxWallTimeS: 20,
      maxTotalCostUsd: 0.25,
    };
    expect(define({ failSafe })).toMatchObject({
      llmFailure: 'degrade',
      toolFailure: 'fail',
      subagentFailure: 'degrade',
      breaker: { failureThreshold: 3, cooldownMs: 1_500, onOpen: 'fail' },
      limits: {
        maxSteps: 4,
        maxLlmCalls: 5,
        maxToolCalls: 6,
        maxParallelTools: 2,
        wallTimeMs: 20_000,
        subagentFanoutPerStep: 2,
      },
      budget: { maxCostUsd: 0.25, onExceed: 'fail' },
    });
  });

  test('goes together with the fields that it says nothing about', () => {
    expect(
      define({
        failSafe: { breakerCooldownS: 60, maxSteps: 4 },
        breaker: { failureThreshold: 2 },
        limits: { maxLlmCalls: 9 },
      }),
    ).toMatchObject({ breaker: { failureThreshold: 2, cooldownMs: 60_000 }, limits: { maxSteps: 4, maxLlmCalls: 9 } });
  });

  test('does not stand beside the same thing said elsewhere', () => {
    expect(
      problemsOf({
        failSafe: { llmFailurePolicy: 'fail', maxSteps: 3 },
        llmFailure: 'fail',
        limits: { maxSteps: 3 },
      }),
    ).toEqual([
      'llmFailure: is given as llmFailure and as failSafe.llmFailurePolicy; give one of them',
      'limits.maxSteps: is given as limits.maxSteps and as failSafe.maxSteps; give one of them',
    ]);
  });

  test('unknown names and wrong values are problems, all at once', () => {
    expect(problemsOf({ failSafe: { breakerFailureThreshold: 'many', breakerCooldownS: 'x', colour: 1 } })).toEqual([
      'failSafe.colour: there is no such field',
      expect.stringMatching(/^failSafe\.breakerFailureThreshold: /),
      expect.stringMatching(/^failSafe\.breakerCooldownS: /),
    ]);
    expect(problemsOf({ failSafe: 'strict' })).toEqual(['failSafe: must hold named fields']);
    expect(problemsOf({ policy: [] })).toEqual(['policy: must hold named fields']);
  });

  test('leaves what was passed in as it was', () => {
    const source = { failSafe: { maxSteps: 4 }, limits: { maxLlmCalls: 9 }, policy: { fallbackModels: ['a'] } };
    const before = structuredClone(source);
    define(source);
    expect(source).toEqual(before);
  });
});

describe('models', () => {
  test('a blank model is a problem, and one with blanks around it is not', () => {
    expect(problemsOf({ model: '  ' })).toEqual(['model: must not be blank']);
    expect(define({ model: ' m ' }).model).toBe('m');
  });

  test('a tier that does not exist is a problem, in the map as well', () => {
    expect(problemsOf({ preferredModel: 'genius', modelTierMap: { huge: 'm' } })).toEqual([
      'preferredModel: must be fast, balanced, smart or { provider, model }',
      expect.stringMatching(/^modelTierMap/),
    ]);
  });

  test.each(['genius', '', 7, null, { model: 'm' }, { provider: 'p', model: ' ' }, ['fast']])(
    'a tool that prefers %j is refused when it is declared',
    (preferredModel) => {
      const declare = () =>
        defineTool({
          name: 't',
          description: 'A tool.',
          inputSchema: z.object({}),
          execute: () => 1,
          preferredModel: preferredModel as never,
        });
      expect(declare).toThrow(expect.objectContaining({ code: 'invalid_preferred_model' }));
    },
  );
});

describe('outputSchema', () => {
  test('a zod schema becomes the JSON Schema that jobs carry', () => {
    const outputSchema = z.object({
      name: z.string().min(1),
      tags: z
        .array(z.enum(['a', 'b']))
        .max(3)
        .optional(),
    });
    expect(define({ outputSchema }).outputSchema).toEqual({
      type: 'object',
      properties: {
        name: { type: 'string', minLength: 1 },
        tags: { type: 'array', maxItems: 3, items: { type: 'string', enum: ['a', 'b'] } },
      },
      required: ['name'],
      additionalProperties: false,
    });
  });

  test('a JSON Schema stays what it is, whatever dialect it names', () => {
    const schema = { type: 'object', properties: { n: { type: 'integer' } } };
    expect(define({ outputSchema: schema }).outputSchema).toEqual(schema);
    expect(
      define({ outputSchema: { $schema: 'http://json-schema.org/draft-07/schema#', ...schema } }).outputSchema,
    ).toEqual(schema);
  });

  test.each([
    ['a zod schema with a transform', z.string().transform(Number), /has no JSON Schema/],
    ['a schema that contradicts the language of schemas', { type: 'nonsense' }, /cannot be used/],
    ['a schema that refers to nothing', { $ref: '#/$defs/none' }, /cannot be used/],
    ['a text', 'object', /./],
  ])('%s is a problem before any run', (_what, outputSchema, message) => {
    expect(problemsOf({ outputSchema })).toEqual([expect.stringMatching(/^outputSchema/)]);
    expect(problemsOf({ outputSchema })).toEqual([expect.stringMatching(message)]);
  });

  test('says how deep answers are checked and how often they are sent back', () => {
    expect(define({})).toMatchObject({ outputRepairAttempts: 0 });
    expect(problemsOf({ outputValidation: 'shallow', outputRepairAttempts: -1 })).toHaveLength(2);
  });
});

test('functions are kept beside the definition, and nothing else can stand in their place', () => {
  const prepareStep = () => undefined;
  const agent = defineAgent({ id: 'x', model: 'm', prepareStep });
  expect(agent.prepareStep).toBe(prepareStep);
  expect(agent.definition).not.toHaveProperty('prepareStep');
  expect(problemsOf({ prepareStep: 'tools/plan.ts' })).toEqual(['prepareStep: must be a function']);
});

test('what a denial by a person does may be written as other systems write it', () => {
  const denialOf = (approvalDenialPolicy: string) =>
    defineAgent({ id: 'a', model: 'm', failSafe: { approvalDenialPolicy } }).definition.approvalDenial;
  for (const spelling of ['feed_back', 'skip_action', 'continue', 'continue_with_error', 'retry_then_continue'])
    expect(denialOf(spelling), spelling).toBe('feed_back');
  for (const spelling of ['fail', 'fail_fast', 'fail_run', 'retry_then_fail'])
    expect(denialOf(spelling), spelling).toBe('fail');
  for (const spelling of ['degrade', 'retry_then_degrade']) expect(denialOf(spelling), spelling).toBe('degrade');
  expect(() => denialOf('shrug')).toThrow('failSafe.approvalDenialPolicy');
  expect(defineAgent({ id: 'a', model: 'm', maxParallelTools: 3 }).definition.limits.maxParallelTools).toBe(3);
});
