import { describe, expect, test } from 'vitest';
import { answerOf, failureOf, responseOf, type AnsweredRun } from '../../../src/producer/openai/answer.ts';

const runId = '01JD0000000000000000000000';
const usage = { input: 10, cached: 4, cacheWrite: 1, output: 5, total: 20, byModel: {} };
const run: AnsweredRun = {
  runId,
  status: 'completed',
  result: { text: 'It is on its way.', finishReason: 'stop' },
  usage,
  costMicrocents: 2_500_000,
  steps: 2,
  createdAt: '2026-11-21T09:00:00.500Z',
  endedAt: '2026-11-21T09:00:02.000Z',
};
const chat = { model: 'support', messages: [{ role: 'user', content: 'Hi' }], metadata: { colour: 'green' } };
const response = { model: 'support@2', input: 'Hi', instructions: 'Be brief.' };

test('a completed run is a chat completion with usage, cost and the run', () => {
  expect(answerOf('/v1/chat/completions', run, chat)).toEqual({
    id: `chatcmpl-${runId}`,
    object: 'chat.completion',
    created: 1_795_251_600,
    model: 'support',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'It is on its way.', refusal: null, annotations: [] },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: {
      prompt_tokens: 15,
      completion_tokens: 5,
      total_tokens: 20,
      prompt_tokens_details: { cached_tokens: 4 },
    },
    metadata: { colour: 'green' },
    millrace: {
      run_id: runId,
      status: 'completed',
      agent: 'support',
      steps: 2,
      cost_usd: 0.025,
      cost_microcents: 2_500_000,
    },
  });
});

test('a completed run is a response with one message, and says what was asked', () => {
  expect(answerOf('/v1/responses', run, response)).toMatchObject({
    id: `resp_${runId}`,
    object: 'response',
    status: 'completed',
    created_at: 1_795_251_600,
    completed_at: 1_795_251_602,
    model: 'support@2',
    instructions: 'Be brief.',
    error: null,
    incomplete_details: null,
    output: [
      {
        id: `msg_${runId}_2`,
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'It is on its way.', annotations: [] }],
      },
    ],
    usage: { input_tokens: 15, input_tokens_details: { cached_tokens: 4 }, output_tokens: 5, total_tokens: 20 },
  });
});

describe('the status of a response', () => {
  const request = { agent: 'support', input: 'Hi' };
  test.each([
    [
      { status: 'queued', result: undefined },
      { status: 'queued', output: [] },
    ],
    [
      { status: 'running', result: undefined },
      { status: 'in_progress', output: [] },
    ],
    [
      { status: 'suspended', result: undefined },
      { status: 'in_progress', output: [] },
    ],
    [{ status: 'degraded' }, { status: 'completed' }],
    [
      { status: 'cancelled', result: undefined },
      { status: 'cancelled', output: [] },
    ],
    [
      { result: { text: 'It', finishReason: 'length' } },
      { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } },
    ],
    [
      { result: { text: 'It', incomplete: { reason: 'maxSteps' } } },
      { status: 'incomplete', incomplete_details: { reason: 'maxSteps' } },
    ],
    [
      { status: 'failed', result: undefined, error: { code: 'turn_limit', message: 'too many', retryable: false } },
      { status: 'failed', error: { code: 'turn_limit', message: 'too many' }, output: [] },
    ],
  ] as const)('of %j is %j', (changes, expected) => {
    expect(responseOf({ ...run, ...changes }, request)).toMatchObject(expected);
  });
});

test('a run without an answer is an error that names it, with the status of its code', () => {
  const error = { code: 'budget_exceeded', message: 'too dear', retryable: false } as const;
  expect(failureOf({ ...run, status: 'failed', error })).toEqual({
    status: 402,
    body: {
      error: {
        message: 'too dear',
        type: 'invalid_request_error',
        param: null,
        code: 'budget_exceeded',
        run_id: runId,
        details: { runId },
      },
    },
  });
  expect(failureOf({ ...run, status: 'cancelled' })).toMatchObject({ status: 409 });
  expect(failureOf(run)).toBeUndefined();
});
