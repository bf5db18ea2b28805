import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { LlmRequest } from '../../../src/worker/llm/provider.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { foldJournal } from '../../../src/shared/contract/journal/fold.ts';
import { bySteps, makeTurn, question, type TurnOptions } from './world.ts';

const outputSchema = {
  type: 'object',
  properties: { n: { type: 'integer' } },
  required: ['n'],
  additionalProperties: false,
};
const right = { text: '{"n":1}' };
const wrong = { text: '{"n":"one"}' };

const turnWith = (attempts: number, ...answers: readonly { readonly text: string }[]) =>
  makeTurn({ script: bySteps(...answers), spec: { outputSchema, outputRepairAttempts: attempts } });

const lastOf = (request: LlmRequest | undefined) => request?.messages.at(-1);

test('a wrong answer is sent back once with what is wrong about it', async () => {
  const turn = turnWith(1, wrong, right);
  expect(await turn.run()).toMatchObject({ status: 'completed', structured: { n: 1 }, text: '{"n":1}' });
  expect(turn.requests).toHaveLength(2);
  expect(turn.requests[1]?.messages.slice(-2)).toEqual([
    expect.objectContaining({ role: 'assistant' }),
    { role: 'user', content: expect.stringMatching(/refused: .*\/n must be integer/) },
  ]);
});

test('by default nothing is sent back', async () => {
  const turn = turnWith(0, wrong, right);
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'output_validation_failed' } });
  expect(turn.requests).toHaveLength(1);
});

test('an answer that stays wrong fails the run once the attempts are used up', async () => {
  const turn = turnWith(2, wrong, { text: 'still no' }, wrong, right);
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'output_validation_failed' } });
  expect(turn.requests).toHaveLength(3);
  expect(lastOf(turn.requests[2])).toMatchObject({ content: expect.stringContaining('not JSON') });
});

test('a right answer is never sent back, in a code fence or not', async () => {
  for (const text of ['{"n":1}', '```json\n{"n":1}\n```', '  {"n":1}\n']) {
    const turn = turnWith(3, { text });
    expect(await turn.run()).toMatchObject({ status: 'completed', structured: { n: 1 } });
    expect(turn.requests).toHaveLength(1);
  }
});

test('where parsing is all that is asked for, another shape is no reason to send back', async () => {
  const spec = { outputSchema, outputRepairAttempts: 1, outputValidation: 'parse' as const };
  const shaped = makeTurn({ script: bySteps(wrong), spec });
  expect(await shaped.run()).toMatchObject({ status: 'completed', structured: { n: 'one' } });
  const prose = makeTurn({ script: bySteps({ text: 'one' }, right), spec });
  expect(await prose.run()).toMatchObject({ status: 'completed', structured: { n: 1 } });
  expect(prose.requests).toHaveLength(2);
});

test('an agent without a schema never sends anything back', async () => {
  const turn = makeTurn({ script: bySteps(wrong), spec: { outputRepairAttempts: 5 } });
  expect(await turn.run()).toMatchObject({ status: 'completed', text: wrong.text });
  expect(turn.requests).toHaveLength(1);
});

test('an answer that calls tools is not the final one', async () => {
  const look = defineTool({
    name: 'look',
    description: 'Looks.',
    inputSchema: z.object({}),
    effect: 'read',
    execute: () => 'blue',
  });
  const answers = [
    { text: 'let me see', toolCalls: [{ name: 'look' }] },
    wrong,
    { toolCalls: [{ name: 'look' }] },
    right,
  ];
  const turn = makeTurn({
    script: bySteps(...answers),
    tools: [look],
    spec: { outputSchema, outputRepairAttempts: 1 },
  });
  expect(await turn.run()).toMatchObject({ status: 'completed', structured: { n: 1 } });
  expect(turn.requests).toHaveLength(4);
  expect(turn.journal.map(({ t }) => t)).toEqual([
    'model_response',
    'tool_result',
    'model_response',
    'repair',
    'model_response',
    'tool_result',
    'model_response',
  ]);
});

test('where no model call is left the answer fails for what is wrong with it', async () => {
  const turn = makeTurn({
    script: bySteps(wrong, right),
    limits: { maxLlmCalls: 1 },
    spec: { outputSchema, outputRepairAttempts: 1 },
  });
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'output_validation_failed' } });
});

test('subscribers see the new answer as a step of its own', async () => {
  const turn = turnWith(1, wrong, right);
  await turn.run();
  expect(turn.eventsOf('step.start').map((event) => event.stepNumber)).toEqual([1, 2]);
  expect(turn.eventsOf('text.complete').map((event) => event.text)).toEqual([wrong.text, right.text]);
});

describe('another worker', () => {
  const options: TurnOptions = {
    script: bySteps(wrong, { text: '{"n":2.5}' }, right),
    spec: { outputSchema, outputRepairAttempts: 2 },
  };

  test('goes on from every place in the journal, and no answer is paid twice', async () => {
    const whole = makeTurn(options);
    await whole.run();
    expect(whole.journal.map(({ t }) => t)).toEqual([
      'model_response',
      'repair',
      'model_response',
      'repair',
      'model_response',
    ]);
    for (let kept = 0; kept <= whole.journal.length; kept++) {
      const next = makeTurn(options, whole.journal.slice(0, kept));
      expect(await next.run()).toMatchObject({ status: 'completed', structured: { n: 1 } });
      const answered = whole.journal.slice(0, kept).filter(({ t }) => t === 'model_response').length;
      expect(next.requests).toHaveLength(3 - answered);
      expect(next.journal).toEqual(whole.journal);
    }
  });

  test('may be handed the turn between the refusal and the new answer', async () => {
    let answers = 0;
    const first = makeTurn({
      ...options,
      script: (request, signal) => {
        answers++;
        return options.script?.(request, signal) ?? right;
      },
      deps: { stopRequested: () => (answers > 0 ? 'drain' : undefined) },
    });
    expect(await first.run()).toMatchObject({ status: 'stopped' });
    expect(first.journal.map(({ t }) => t)).toEqual(['model_response', 'repair']);
    const second = makeTurn(options, first.journal);
    expect(await second.run()).toMatchObject({ status: 'completed', structured: { n: 1 } });
    expect(second.requests).toHaveLength(2);
  });
});

test.each([
  ['before any answer', []],
  ['of another step', [{ step: 1 }]],
])('a refusal %s makes the journal malformed', (_what, before) => {
  const attempts = before.map(() => ({
    v: 1 as const,
    t: 'model_response' as const,
    step: 1,
    message: { role: 'assistant' as const, parts: [{ type: 'text' as const, text: 'x' }] },
    finishReason: 'stop' as const,
    usage: { input: 0, output: 0, cached: 0, cacheWrite: 0, total: 0 },
    attempts: [],
    provider: 'p',
    model: 'm',
  }));
  const entries = [...attempts, { v: 1 as const, t: 'repair' as const, step: before.length + 1, problem: 'x' }];
  expect(() => foldJournal(question, entries)).toThrow(expect.objectContaining({ code: 'run_state_malformed' }));
});
