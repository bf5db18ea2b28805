import { expect, test } from 'vitest';
import { z } from 'zod';
import { RunError } from '../../../src/shared/base/errors.ts';
import { ToolError } from '../../../src/worker/tools/tool-error.ts';
import { LlmError } from '../../../src/worker/llm/errors.ts';
import type { LlmAnswer, LlmPart, LlmProvider } from '../../../src/worker/llm/provider.ts';
import { createIterableBackend } from '../../../src/worker/llm/backends/iterable.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { callsTool } from '../../../src/testing/scripts.ts';
import { graceMs } from '../../../src/shared/base/deadline.ts';
import { tool } from '../tools/world.ts';
import { bySteps, makeTurn, question } from './world.ts';

const usage = { input: 10, output: 5, cached: 0, cacheWrite: 0, total: 15 };
const look = tool('look', () => 'blue');
const callsLook = { toolCalls: [{ name: 'look' }] };

/** A provider that answers with exactly this, whatever its builder would say to it. */
function provider(answer: Partial<LlmAnswer>, parts: readonly LlmPart[] = []): LlmProvider {
  return {
    id: 'custom',
    capabilities: { tools: true, reasoning: true },
    async generate(_request, onPart) {
      for (const part of parts) onPart(part);
      return {
        message: { role: 'assistant', parts: [] },
        finishReason: 'stop',
        incompleteToolCalls: [],
        usage,
        ...answer,
      };
    },
  };
}

test('a plain answer completes the turn, is emitted, and is recorded in one write', async () => {
  const turn = makeTurn({ script: () => ({ text: 'It is blue.', usage }) });
  const outcome = await turn.run();
  expect(outcome).toMatchObject({
    status: 'completed',
    text: 'It is blue.',
    finishReason: 'stop',
    degraded: false,
    emptyResponse: false,
  });
  expect(turn.events).toEqual([
    { type: 'step.start', stepNumber: 1, model: 'model-1', modelSource: 'agent' },
    { type: 'text.delta', delta: 'It', model: 'model-1' },
    { type: 'text.delta', delta: ' is', model: 'model-1' },
    { type: 'text.delta', delta: ' blue.', model: 'model-1' },
    {
      type: 'llm.call',
      model: 'model-1',
      provider: 'scripted',
      requestId: 'R:step:1',
      attemptNumber: 1,
      outcome: 'succeeded',
      tokensIn: 10,
      tokensOut: 5,
      latencyMs: 0,
      finishReason: 'stop',
    },
    {
      type: 'cost.updated',
      model: 'model-1',
      inputTokens: 10,
      outputTokens: 5,
      costMicrocents: 20,
      cumulativeCostMicrocents: 20,
      attemptNumber: 1,
      priced: true,
      usageReported: true,
    },
    { type: 'text.complete', text: 'It is blue.' },
    { type: 'step.end', stepNumber: 1, usage, finishReason: 'stop' },
  ]);
  expect(turn.writes.map((entries) => entries.map((entry) => entry.t))).toEqual([['model_response']]);
  expect(outcome.state).toMatchObject({ step: 1, costMicrocents: 20, usage: { total: 15 } });
});

test('no event of the core says anything about the run around it', async () => {
  const turn = makeTurn({ script: bySteps(callsLook), tools: [look] });
  await turn.run();
  for (const event of turn.events) {
    for (const field of ['runId', 'sessionId', 'timestamp', 'sequenceNumber']) expect(event).not.toHaveProperty(field);
  }
});

test('a tool call is run and its result goes back with the call, under one id', async () => {
  const turn = makeTurn({ script: bySteps({ reasoning: 'Hm.', text: 'Let me look.', ...callsLook }), tools: [look] });
  expect(await turn.run()).toMatchObject({ status: 'completed', text: 'done' });
  expect(turn.requests).toHaveLength(2);
  const [assistant, result] = turn.requests[1]?.messages.slice(-2) ?? [];
  expect(assistant).toMatchObject({
    role: 'assistant',
    parts: [{ type: 'reasoning', text: 'Hm.' }, { type: 'text' }, { type: 'tool_call', id: 'call_1_1', name: 'look' }],
  });
  expect(result).toEqual({ role: 'tool', toolCallId: 'call_1_1', toolName: 'look', content: 'blue' });
});

test('a step with tools ends after its tools, together with the last result', async () => {
  const turn = makeTurn({ script: bySteps({ text: 'Wait.', ...callsLook }), tools: [look] });
  await turn.run();
  expect(
    turn.events.slice(0, turn.events.findIndex((event) => event.type === 'step.end') + 1).map((event) => event.type),
  ).toEqual([
    'step.start',
    'text.delta',
    'tool.call.start',
    'llm.call',
    'cost.updated',
    'text.complete',
    'tool.call.end',
    'tool.execute.start',
    'tool.execute.end',
    'step.end',
  ]);
});

test('reasoning is announced once per step and its proof never becomes an event', async () => {
  const meta = { signature: 'proof' };
  const turn = makeTurn({
    providers: [
      provider(
        {
          message: {
            role: 'assistant',
            parts: [
              { type: 'reasoning', text: 'a b', provider: 'custom', meta },
              { type: 'text', text: 'x' },
            ],
          },
        },
        [
          { type: 'reasoning', delta: 'a' },
          { type: 'reasoning', delta: ' b' },
          { type: 'text', delta: 'x' },
        ],
      ),
    ],
  });
  await turn.run();
  expect(turn.eventsOf('agent.thinking')).toHaveLength(1);
  expect(turn.eventsOf('reasoning.delta').map((event) => event.delta)).toEqual(['a', ' b']);
  expect(JSON.stringify(turn.events)).not.toContain('proof');
  expect(JSON.stringify(turn.journal)).toContain('proof');
});

test('every delta is one event, and joined they are the text', async () => {
  const text = Array.from({ length: 50 }, (_, n) => `w${n}`).join(' ');
  const turn = makeTurn({ script: () => ({ text }) });
  await turn.run();
  const deltas = turn.eventsOf('text.delta').map((event) => event.delta);
  expect(deltas).toHaveLength(50);
  expect(deltas.join('')).toBe(text);
});

test('the arguments of a call are shown when they are whole, without secrets', async () => {
  const turn = makeTurn({
    script: bySteps({
      toolCalls: [
        { name: 'look', args: { at: 'hunter2-secret', password: 'p' } },
        { name: 'look', args: '{half' },
      ],
    }),
    tools: [look],
  });
  await turn.run();
  expect(turn.eventsOf('tool.call.end').map((event) => event.finalArgs)).toEqual([
    { at: '[redacted]', password: '[redacted]' },
    {},
  ]);
  expect(turn.eventsOf('tool.call.delta')).toEqual([]);
  expect(JSON.stringify(turn.events)).not.toContain('hunter2');
});

test('tool calls decide, whatever the finish reason says', async () => {
  const turn = makeTurn({ script: bySteps({ ...callsLook, finishReason: 'stop' }), tools: [look] });
  expect(await turn.run()).toMatchObject({ status: 'completed', text: 'done' });
  expect(turn.eventsOf('step.end').map((event) => event.finishReason)).toEqual(['stop', 'stop']);
});

test('an answer that was cut off by its length completes and says so', async () => {
  const turn = makeTurn({ script: () => ({ text: 'It is', finishReason: 'length' }) });
  expect(await turn.run()).toMatchObject({ status: 'completed', text: 'It is', finishReason: 'length' });
});

test('an answer without text is marked as empty and emits no text', async () => {
  const turn = makeTurn({ script: () => ({}) });
  expect(await turn.run()).toMatchObject({ status: 'completed', text: '', emptyResponse: true });
  expect(turn.eventsOf('text.complete')).toEqual([]);
});

test.each([
  ['a refusal of the content', { finishReason: 'content_filter' as const }, 'content_filter', false],
  ['an answer that ended in an error', { finishReason: 'error' as const }, 'provider_unavailable', true],
  ['a stop for tools without any', { finishReason: 'tool_use' as const }, 'provider_unavailable', false],
])(
  '%s fails the turn, is not part of the conversation, and its cost counts',
  async (_what, answer, code, retryable) => {
    const turn = makeTurn({ providers: [provider(answer)] });
    const outcome = await turn.run();
    expect(outcome).toMatchObject({ status: 'failed', error: { code, retryable }, engaged: true });
    expect(outcome.state.messages).toEqual(question);
    expect(outcome.state.costMicrocents).toBe(20);
    expect(turn.journal.map((entry) => entry.t)).toEqual(['attempted']);
  },
);

test('a call that was cut off never runs and fails the turn', async () => {
  let ran = false;
  const turn = makeTurn({
    script: () => ({ text: 'Now', toolCalls: [{ name: 'look', args: '{"at":"sk' }], finishReason: 'length' }),
    tools: [tool('look', () => (ran = true))],
  });
  expect(await turn.run()).toMatchObject({
    status: 'failed',
    error: { code: 'incomplete_tool_call', retryable: true },
    partialText: 'Now',
  });
  expect(turn.eventsOf('tool.call.incomplete')).toEqual([
    { type: 'tool.call.incomplete', toolCallId: 'call_1_1', toolName: 'look' },
  ]);
  expect(ran).toBe(false);
});

test('a failed turn keeps the usage of the steps before it', async () => {
  const turn = makeTurn({
    script: bySteps(
      { ...callsLook, usage },
      { error: { kind: 'overloaded', status: 500, message: 'hunter2-secret is busy' } },
    ),
    tools: [look],
  });
  const outcome = await turn.run();
  expect(outcome).toMatchObject({
    status: 'failed',
    error: { code: 'provider_unavailable', retryable: true },
    engaged: true,
  });
  expect(outcome.state).toMatchObject({ usage: { total: 15 }, costMicrocents: 20, step: 1 });
  expect(outcome.state.attempts.map((attempt) => attempt.outcome)).toEqual(['succeeded', 'failed']);
  expect(JSON.stringify([turn.events, turn.journal])).not.toContain('hunter2');
});

test('a turn that never reached a provider says so', async () => {
  const mute = { ...createScriptedProvider(() => ({})), capabilities: { tools: false, reasoning: false } };
  const turn = makeTurn({ providers: [mute], tools: [look] });
  expect(await turn.run()).toMatchObject({ status: 'failed', engaged: false });
  expect(turn.eventsOf('llm.call').map((event) => event.outcome)).toEqual(['skipped']);
  expect(turn.eventsOf('cost.updated')).toEqual([]);
});

test.each([
  ['auth', 'provider_auth', false],
  ['rate_limit', 'provider_rate_limit', true],
  ['overloaded', 'provider_unavailable', true],
  ['timeout', 'provider_unavailable', true],
  ['transport', 'provider_unavailable', true],
  ['content_filter', 'content_filter', false],
  ['bad_request', 'validation', false],
  ['context_length', 'context_length_exceeded', false],
  ['unknown', 'internal', false],
] as const)(
  'a model error of kind %s fails the turn with %s, whatever its message says',
  async (kind, code, retryable) => {
    const turn = makeTurn({ script: () => ({ error: { kind, message: '429 rate limit cancelled' } }) });
    expect(await turn.run()).toMatchObject({ status: 'failed', error: { code, retryable } });
  },
);

test('each attempt is one cost event, numbered over the run, and the sum never falls', async () => {
  let calls = 0;
  const turn = makeTurn({
    script: (request) =>
      ++calls % 3 === 0
        ? bySteps({ ...callsLook, usage }, { text: 'ok', usage })(request, new AbortController().signal)
        : { error: { kind: 'overloaded' } },
    maxAttempts: 3,
    tools: [look],
  });
  const outcome = await turn.run();
  const costs = turn.eventsOf('cost.updated');
  expect(
    costs.map((event) => [
      event.attemptNumber,
      event.costMicrocents,
      event.cumulativeCostMicrocents,
      event.usageReported,
    ]),
  ).toEqual([
    [1, 0, 0, false],
    [2, 0, 0, false],
    [3, 20, 20, true],
    [4, 0, 20, false],
    [5, 0, 20, false],
    [6, 20, 40, true],
  ]);
  expect(outcome.state.costMicrocents).toBe(40);
  expect(outcome.state.usage.byModel['model-1']).toMatchObject({ attemptCount: 6, total: 30 });
});

test('the request ids of a step are equal for each attempt and model and differ from step to step', async () => {
  let calls = 0;
  const first = createScriptedProvider(() => ({ error: { kind: 'overloaded' } }), { id: 'one' });
  const second = createScriptedProvider(() => (++calls === 1 ? callsLook : { text: 'ok' }), { id: 'two' });
  const turn = makeTurn({ providers: [first, second], maxAttempts: 2, tools: [look] });
  await turn.run();
  expect(turn.requests.map((request) => request.requestId)).toEqual([1, 1, 1, 2].map((step) => `R:step:${step}`));
  expect(turn.requests.every((request) => request.idempotencyKey === request.requestId)).toBe(true);
  expect(turn.eventsOf('agent.model.fellback')).toHaveLength(1);
});

test('tokens of a provider session come back with the next request', async () => {
  let calls = 0;
  const session: LlmProvider = {
    ...provider({}),
    generate: async () => {
      const parts = ++calls === 1 ? [{ type: 'tool_call' as const, id: 'c', name: 'look', args: '{}' }] : [];
      const message = { role: 'assistant' as const, parts };
      return {
        message,
        finishReason: 'stop',
        incompleteToolCalls: [],
        sessionToken: `s${calls}`,
        checkpointToken: `c${calls}`,
      };
    },
  };
  const turn = makeTurn({ providers: [session], tools: [look] });
  await turn.run();
  expect(turn.requests.map(({ sessionToken, checkpointToken }) => [sessionToken, checkpointToken])).toEqual([
    [undefined, undefined],
    ['s1', 'c1'],
  ]);
});

test('an answer without tokens leaves those before it in force, one of another model does not', async () => {
  const answers = (id: string, tokens: readonly (string | undefined)[]): LlmProvider => {
    let calls = 0;
    return {
      ...provider({}),
      id,
      generate: async (_request, _onPart, signal) => {
        signal.throwIfAborted();
        if (calls >= tokens.length) throw new LlmError('overloaded', id, 'gone');
        const sessionToken = tokens[calls++];
        const message = {
          role: 'assistant' as const,
          parts: [{ type: 'tool_call' as const, id: `${id}${calls}`, name: 'look', args: '{}' }],
        };
        return { message, finishReason: 'tool_use', incompleteToolCalls: [], ...(sessionToken && { sessionToken }) };
      },
    };
  };
  const turn = makeTurn({
    providers: [answers('one', ['s1', undefined, undefined]), answers('two', [undefined, undefined])],
    tools: [look],
  });
  await turn.run();
  const [first, second, third, fourth, ...later] = turn.requests.map(({ sessionToken }) => sessionToken);
  expect([first, second, third, fourth]).toEqual([undefined, 's1', 's1', 's1']);
  expect(later.every((token) => token === undefined)).toBe(true);
  expect(later.length).toBeGreaterThan(2);
});

test('tools that a provider runs itself are emitted and not run, and are no part of the conversation', async () => {
  let ran = 0;
  const relayed = createIterableBackend(async function* () {
    yield { type: 'tool_relayed_call', id: 'b1', name: 'look', args: { at: 'sky', apiKey: 'k' } };
    yield { type: 'tool_relayed_result', id: 'b1', output: 'blue', isError: false };
    yield { type: 'tool_relayed_call', id: 'b2', name: 'bash', args: 'ls' };
    yield { type: 'tool_relayed_result', id: 'b2', output: 'denied', isError: true };
    yield { type: 'tool_relayed_result', id: 'never begun', output: '?', isError: false };
    yield { type: 'text', delta: 'done' };
  });
  const turn = makeTurn({ providers: [relayed], tools: [tool('look', () => ran++)] });
  expect(await turn.run()).toMatchObject({ status: 'completed', text: 'done' });
  expect(ran).toBe(0);
  expect(turn.requests).toHaveLength(1);
  expect(turn.events.filter(({ type }) => type.startsWith('tool.'))).toEqual([
    { type: 'tool.call.start', toolCallId: 'b1', toolName: 'look' },
    { type: 'tool.call.end', toolCallId: 'b1', finalArgs: { at: 'sky', apiKey: '[redacted]' } },
    expect.objectContaining({ type: 'tool.execute.start', toolCallId: 'b1', relayed: true }),
    {
      type: 'tool.execute.end',
      toolCallId: 'b1',
      toolName: 'look',
      success: true,
      outputSummary: 'blue',
      durationMs: 0,
      relayed: true,
    },
    expect.objectContaining({ type: 'tool.call.start', toolCallId: 'b2' }),
    expect.objectContaining({ type: 'tool.call.end', toolCallId: 'b2' }),
    expect.objectContaining({ type: 'tool.execute.start', toolCallId: 'b2', relayed: true }),
    {
      type: 'tool.execute.error',
      toolCallId: 'b2',
      toolName: 'bash',
      success: false,
      error: { kind: 'execution_failed', message: 'denied', hint: 'try_alternative' },
      durationMs: 0,
      relayed: true,
    },
  ]);
  expect(JSON.stringify(turn.journal)).not.toContain('blue');
});

test('the result of a tool keeps its label in the journal and in the conversation', async () => {
  const look = tool('look', () => 'top secret', { sensitivity: 'secret' });
  const turn = makeTurn({ script: callsTool('look'), tools: [look] });
  await turn.run();
  expect(turn.journal).toContainEqual(expect.objectContaining({ t: 'tool_result', sensitivity: 'secret' }));
  expect(turn.requests[1]?.messages.at(-1)).toMatchObject({
    role: 'tool',
    content: 'top secret',
    sensitivity: 'secret',
  });
  const other = makeTurn({ script: callsTool('look'), tools: [tool('look', () => 'x')] });
  await other.run();
  expect(other.requests[1]?.messages.at(-1)).not.toHaveProperty('sensitivity');
});

test('with a limit of 16 steps a model that always asks for a tool is called 17 times and its tool 16 times', async () => {
  let ran = 0;
  const turn = makeTurn({ script: () => callsLook, tools: [tool('look', () => ran++)] });
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'turn_limit', retryable: false } });
  expect(turn.requests).toHaveLength(17);
  expect(ran).toBe(16);
});

test('the limit of model calls ends the turn before the next one', async () => {
  const turn = makeTurn({ script: () => callsLook, tools: [look], limits: { maxLlmCalls: 2 } });
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'turn_limit' } });
  expect(turn.requests).toHaveLength(2);
});

test('a batch over the limit of tool calls does not run, not even its intent is recorded', async () => {
  let ran = 0;
  const put = tool('put', () => ran++, { effect: 'once' });
  const toolCalls = Array.from({ length: 3 }, () => ({ name: 'put' }));
  const turn = makeTurn({ script: () => ({ toolCalls }), tools: [put], limits: { maxToolCalls: 5 } });
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'turn_limit' } });
  expect(ran).toBe(3);
  expect(turn.journal.filter((entry) => entry.t === 'tool_intent')).toHaveLength(1);
});

test('the model sees three corrections, its fourth mistake ends the turn', async () => {
  const turn = makeTurn({ script: () => ({ toolCalls: [{ name: 'lock' }] }), tools: [look] });
  const message =
    'the model made a mistake in 4 steps, last in a call of lock (unknown_tool); limits.maxCorrections allows 3 corrections';
  expect(await turn.run()).toMatchObject({
    status: 'failed',
    error: { code: 'tool_failed', retryable: false, message },
  });
  expect(turn.requests).toHaveLength(4);
  const last = turn.requests.at(-1)?.messages ?? [];
  expect(last.filter((message) => message.role === 'tool' && message.isError)).toHaveLength(3);
});

test('arguments that are too large are shown as such, and the model may write others', async () => {
  const args = JSON.stringify({ at: 'x'.repeat(300_000) });
  const turn = makeTurn({ script: bySteps({ toolCalls: [{ name: 'look', args }] }), tools: [look] });
  expect(await turn.run()).toMatchObject({ status: 'completed' });
  const [written] = turn.events.filter((event) => event.type === 'tool.call.end');
  expect(written?.finalArgs).toEqual({ truncated: 'the arguments are larger than 262144 bytes' });
});

test('several mistakes in one step are one round of correction', async () => {
  const turn = makeTurn({
    script: bySteps({ toolCalls: [{ name: 'a' }, { name: 'b' }] }, { toolCalls: [{ name: 'c' }] }),
    limits: { maxCorrections: 2 },
  });
  expect(await turn.run()).toMatchObject({ status: 'completed', state: { counters: { corrections: 2 } } });
});

test('the model gets the error of a failing tool by default', async () => {
  const broken = tool('look', () => Promise.reject(new Error('no sky')));
  const turn = makeTurn({ script: bySteps(callsLook), tools: [broken] });
  expect(await turn.run()).toMatchObject({ status: 'completed', text: 'done', degraded: false });
  expect(turn.requests[1]?.messages.at(-1)).toMatchObject({ role: 'tool', isError: true });
});

test('a failing tool ends the run where the agent says so', async () => {
  const broken = tool('look', () => Promise.reject(new Error('bullmq:movedToWait')));
  const turn = makeTurn({ script: bySteps(callsLook), tools: [broken], spec: { toolFailure: 'fail' } });
  const outcome = await turn.run();
  expect(outcome).toMatchObject({ status: 'failed', error: { code: 'tool_failed', retryable: true } });
  expect(outcome.status === 'failed' && outcome.error.message).toMatch(/^a tool failed: /);
  expect(turn.requests).toHaveLength(1);
});

test('where no script can be run at all, a run that such a failure ends has an error of its own', async () => {
  const broken = tool('look', () => Promise.reject(new ToolError('sandbox_unavailable', 'no process for scripts')));
  const turn = makeTurn({ script: bySteps(callsLook), tools: [broken], spec: { toolFailure: 'fail' } });
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'sandbox_error', retryable: true } });
});

test('the start of a call names the attempt of the model that asked for it', async () => {
  const turn = makeTurn({ script: bySteps(callsLook, callsLook), tools: [look] });
  await turn.run();
  const starts = turn.events.filter((event) => event.type === 'tool.execute.start');
  expect(starts.map(({ attemptNumber }) => attemptNumber)).toEqual([1, 2]);
});

test('a failing tool ends the run as degraded where the agent says so', async () => {
  const broken = tool('look', () => Promise.reject(new Error('no sky')));
  const turn = makeTurn({ script: bySteps(callsLook), tools: [broken], spec: { toolFailure: 'degrade' } });
  const outcome = await turn.run();
  expect(outcome).toMatchObject({ status: 'completed', degraded: true, finishReason: 'error' });
  expect(outcome.status === 'completed' && outcome.text).toContain('no sky');
});

test('a mistake of the model goes back to it even where failing tools end the run', async () => {
  const turn = makeTurn({ script: bySteps({ toolCalls: [{ name: 'lock' }] }), spec: { toolFailure: 'fail' } });
  expect(await turn.run()).toMatchObject({ status: 'completed', text: 'done' });
});

test('an answer of the wanted shape is given as data', async () => {
  const schema = z.toJSONSchema(z.object({ colour: z.string() }));
  const turn = makeTurn({
    script: () => ({ text: '```json\n{"colour":"blue"}\n```' }),
    spec: { outputSchema: schema },
  });
  expect(await turn.run()).toMatchObject({ status: 'completed', structured: { colour: 'blue' } });
  expect(turn.requests[0]?.responseFormat).toMatchObject({ type: 'json_schema', json_schema: { schema } });
});

test('an answer of another shape fails the turn and is kept as partial text', async () => {
  const schema = z.toJSONSchema(z.object({ colour: z.string() }));
  const turn = makeTurn({ script: () => ({ text: '{"color":1}' }), spec: { outputSchema: schema } });
  expect(await turn.run()).toMatchObject({
    status: 'failed',
    error: { code: 'output_validation_failed' },
    partialText: '{"color":1}',
  });
});

test('the policy is asked once per step', async () => {
  const steps: number[] = [];
  let calls = 0;
  const turn = makeTurn({
    script: (request) =>
      ++calls === 1 ? { error: { kind: 'overloaded' } } : bySteps(callsLook)(request, new AbortController().signal),
    maxAttempts: 2,
    tools: [look],
    deps: {
      callPolicy: async (step) => {
        steps.push(step);
        return { action: 'allow' };
      },
    },
  });
  await turn.run();
  expect(steps).toEqual([1, 2]);
  expect(turn.requests).toHaveLength(3);
});

test('a gate that refuses ends the turn before anything is sent', async () => {
  const turn = makeTurn({ deps: { admit: () => Promise.reject(new RunError('budget_exceeded', 'too dear')) } });
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'budget_exceeded' }, engaged: false });
  expect(turn.requests).toEqual([]);
});

test('an abort while the policy is asked sends nothing', async () => {
  const callPolicy = async () => {
    turn.stop.abort();
    return { action: 'allow' } as const;
  };
  const turn = makeTurn({ deps: { callPolicy } });
  expect(await turn.run()).toMatchObject({ status: 'cancelled' });
  expect(turn.requests).toEqual([]);
  expect(turn.events).toEqual([]);
});

test('an answer that arrives although the turn was aborted does not count', async () => {
  const message = { role: 'assistant' as const, parts: [{ type: 'text' as const, text: 'too late' }] };
  const turn = makeTurn({
    deps: {
      chain: {
        async run() {
          turn.stop.abort();
          const answer = { message, finishReason: 'stop' as const, incompleteToolCalls: [] };
          return { answer, provider: 'p', model: 'm', attempts: [] };
        },
      },
    },
  });
  expect(await turn.run()).toMatchObject({ status: 'cancelled', state: { messages: question } });
});

test('an abort while the model speaks cancels the turn and keeps what the call cost', async () => {
  const turn = makeTurn({
    script: () => {
      turn.stop.abort(new RunError('cancelled', 'stop'));
      return { text: 'never' };
    },
  });
  const outcome = await turn.run();
  expect(outcome).toMatchObject({ status: 'cancelled' });
  expect(outcome.state.attempts).toHaveLength(1);
  expect(turn.journal.map((entry) => entry.t)).toEqual(['attempted']);
});

test.each([
  ['a refused key', () => new LlmError('auth', 'custom', '401')],
  ['a rate limit', () => new LlmError('rate_limit', 'custom', '429')],
  ['a budget error', () => new RunError('budget_exceeded', 'too dear')],
  ['a defect', () => new TypeError('x is not a function')],
])('cancellation wins over %s', async (_what, error) => {
  const failing: LlmProvider = {
    ...provider({}),
    generate: async () => {
      turn.stop.abort();
      throw error();
    },
  };
  const turn = makeTurn({ providers: [failing] });
  expect(await turn.run()).toMatchObject({ status: 'cancelled' });
});

test('cancellation wins over a limit', async () => {
  const turn = makeTurn({
    script: () => callsLook,
    tools: [tool('look', () => turn.stop.abort())],
    limits: { maxLlmCalls: 1 },
  });
  expect(await turn.run()).toMatchObject({ status: 'cancelled' });
});

test('a tool that ignores a cancel is abandoned after its grace', async () => {
  const started = Promise.withResolvers<void>();
  const endless = tool('look', () => {
    started.resolve();
    return new Promise(() => {});
  });
  const turn = makeTurn({ script: () => callsLook, tools: [endless] });
  const outcome = turn.run();
  await started.promise;
  turn.stop.abort(new RunError('cancelled', 'stop'));
  await turn.clock.pass(graceMs);
  expect(await outcome).toMatchObject({ status: 'cancelled' });
  expect(turn.eventsOf('tool.execute.error')).toMatchObject([{ error: { kind: 'aborted' } }]);
});

test.each(['run_timeout', 'lock_lost'] as const)(
  'a signal that aborts with %s fails the turn with it',
  async (code) => {
    const turn = makeTurn({
      script: () => {
        turn.stop.abort(new RunError(code, 'over'));
        return { text: 'never' };
      },
    });
    expect(await turn.run()).toMatchObject({ status: 'failed', error: { code } });
  },
);

test('a record that fails ends the turn with its error', async () => {
  const turn = makeTurn({ deps: { record: () => Promise.reject(new RunError('queue_unavailable', 'away')) } });
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'queue_unavailable' } });
});

test('a drain lets the step with its tools finish and then stops', async () => {
  let draining = false;
  const turn = makeTurn({
    script: () => callsLook,
    tools: [tool('look', () => (draining = true))],
    deps: { stopRequested: () => (draining ? 'drain' : undefined) },
  });
  const outcome = await turn.run();
  expect(outcome).toMatchObject({ status: 'stopped', reason: 'drain' });
  expect(outcome.state.messages.at(-1)).toMatchObject({ role: 'tool', content: 'true' });
  expect(turn.requests).toHaveLength(1);
});

test('a drain does not keep calls of an answered step from running', async () => {
  let ran = false;
  let asked = 0;
  const turn = makeTurn({
    script: () => callsLook,
    tools: [tool('look', () => (ran = true))],
    deps: { stopRequested: () => (asked++ > 0 ? 'drain' : undefined) },
  });
  expect(await turn.run()).toMatchObject({ status: 'stopped', reason: 'drain' });
  expect(ran).toBe(true);
});

test('a final answer is completed even when a stop was asked for', async () => {
  let answered = false;
  const turn = makeTurn({
    script: () => {
      answered = true;
      return { text: 'ok' };
    },
    deps: { stopRequested: () => (answered ? 'hand_over' : undefined) },
  });
  expect(await turn.run()).toMatchObject({ status: 'completed', text: 'ok' });
});

test.each(['once', 'read'] as const)(
  'a hand-over between answer and tools starts no %s tool and leaves none in doubt',
  async (effect) => {
    let leaving = false;
    let ran = 0;
    const options = { script: bySteps(callsLook), tools: [tool('look', () => ran++, { effect })] };
    const first = makeTurn({
      ...options,
      script: (request, signal) => {
        leaving = true;
        return options.script(request, signal);
      },
      deps: { stopRequested: () => (leaving ? 'hand_over' : undefined) },
    });
    expect(await first.run()).toMatchObject({ status: 'stopped', reason: 'hand_over' });
    expect(ran).toBe(0);
    const second = makeTurn(options, first.journal);
    expect(await second.run()).toMatchObject({ status: 'completed', text: 'done' });
    expect(ran).toBe(1);
    expect(second.requests).toHaveLength(1);
  },
);

test('a hand-over that is asked for once the intent is recorded waits for the tools', async () => {
  let asked = 0;
  const turn = makeTurn({
    script: () => callsLook,
    tools: [tool('look', () => 'blue', { effect: 'once' })],
    deps: { stopRequested: () => (++asked > 2 ? 'hand_over' : undefined) },
  });
  expect(await turn.run()).toMatchObject({ status: 'stopped', state: { openCalls: 0 } });
});

test('a hand-over does not interrupt tools that have begun', async () => {
  let leaving = false;
  const turn = makeTurn({
    script: () => callsLook,
    tools: [tool('look', () => (leaving = true), { effect: 'once' })],
    deps: { stopRequested: () => (leaving ? 'hand_over' : undefined) },
  });
  const outcome = await turn.run();
  expect(outcome).toMatchObject({ status: 'stopped', reason: 'hand_over', state: { openCalls: 0 } });
});

test('a turn that is over is not run again', async () => {
  const turn = makeTurn({}, [{ v: 1, t: 'closed', status: 'failed' }]);
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'internal' } });
  expect(turn.requests).toEqual([]);
});

test('the intent of the tools goes with the answer in one write', async () => {
  const turn = makeTurn({ script: bySteps(callsLook), tools: [tool('look', () => 1, { effect: 'once' })] });
  await turn.run();
  expect(turn.writes.map((entries) => entries.map((entry) => entry.t))).toEqual([
    ['model_response', 'tool_intent'],
    ['tool_result'],
    ['model_response'],
  ]);
});
