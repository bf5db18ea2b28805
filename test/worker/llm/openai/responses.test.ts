import { describe, expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../../src/shared/base/clock.ts';
import type { AssistantMessage, Message } from '../../../../src/shared/contract/message.ts';
import {
  createOpenAiResponsesProvider,
  type OpenAiResponsesOptions,
} from '../../../../src/worker/llm/openai/responses.ts';
import type { LlmPart, LlmRequest } from '../../../../src/worker/llm/provider.ts';
import { createTransport } from '../../../../src/worker/llm/openai/transport.ts';
import { body, data, stall, startRawProvider, stream, type Reply } from '../../../support/raw-provider.ts';
import { responses, responsesEvents, wholeResponse, type ResponsesSaying } from '../../../support/raw-responses.ts';

const request: LlmRequest = {
  model: 'm',
  requestId: 'run:step:1',
  idempotencyKey: 'run:step:1',
  messages: [{ role: 'user', content: 'hi' }],
};
const never = new AbortController().signal;

async function world(
  reply: Reply | readonly Reply[] = responses({ text: ['ok'] }),
  options: Partial<OpenAiResponsesOptions> = {},
) {
  const server = await startRawProvider(reply);
  const dispatcher = createTransport();
  onTestFinished(async () => {
    await dispatcher.destroy();
    await server[Symbol.asyncDispose]();
  });
  const provider = createOpenAiResponsesProvider({
    id: 'oai',
    baseUrl: server.url,
    apiKey: 'test-key',
    startTimeoutMs: 5_000,
    idleTimeoutMs: 5_000,
    dispatcher,
    ...options,
  });
  const parts: LlmPart[] = [];
  const generate = (overrides: Partial<LlmRequest> = {}) =>
    provider.generate({ ...request, ...overrides }, (part) => parts.push(part), never);
  const sent = async (overrides: Partial<LlmRequest> = {}) => {
    await generate(overrides);
    return server.requests.at(-1)?.body;
  };
  const inputOf = async (...messages: readonly Message[]) => (await sent({ messages })).input;
  return { server, parts, generate, sent, inputOf };
}

describe('the request', () => {
  test('the smallest one keeps nothing at the server and asks for the proof of its reasoning', async () => {
    const { sent, server } = await world();
    expect(await sent()).toEqual({
      model: 'm',
      input: [{ type: 'message', role: 'user', content: 'hi' }],
      stream: true,
      store: false,
      background: false,
      include: ['reasoning.encrypted_content'],
    });
    expect(server.requests[0]?.path).toBe('/v1/responses');
  });

  test('every setting has its place, and stop sequences have none', async () => {
    const { sent } = await world(responses({ text: ['ok'] }), { reasoningSummary: 'auto' });
    const asked = await sent({
      tools: [{ name: 'find', description: 'Finds.', parameters: { type: 'object' } }],
      toolChoice: { name: 'find' },
      maxOutputTokens: 300,
      temperature: 0.5,
      topP: 0.9,
      stop: ['END'],
      reasoningEffort: 'low',
      responseFormat: { type: 'json_schema', json_schema: { name: 'output', schema: { type: 'object' } } },
    });
    expect(asked).toMatchObject({
      tools: [{ type: 'function', name: 'find', description: 'Finds.', parameters: { type: 'object' }, strict: false }],
      tool_choice: { type: 'function', name: 'find' },
      max_output_tokens: 300,
      temperature: 0.5,
      top_p: 0.9,
      reasoning: { effort: 'low', summary: 'auto' },
      text: { format: { type: 'json_schema', name: 'output', schema: { type: 'object' }, strict: false } },
    });
    expect(asked).not.toHaveProperty('stop');
  });

  test('a model that does not reason is not asked for reasoning', async () => {
    const { sent } = await world(responses({ text: ['ok'] }), { reasons: (model) => model !== 'm' });
    const asked = await sent({ reasoningEffort: 'low' });
    expect(asked).not.toHaveProperty('include');
    expect(asked).not.toHaveProperty('reasoning');
  });

  test('a conversation with calls and results becomes items', async () => {
    const { inputOf } = await world();
    const input = await inputOf(
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Where is 7?' },
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', text: 'hm', provider: 'oai' },
          { type: 'text', text: 'I look.' },
          { type: 'tool_call', id: 'c', name: 'find', args: '{"order":7}' },
          { type: 'tool_call', id: 'd', name: 'find', args: '{"order":' },
        ],
      },
      { role: 'tool', toolCallId: 'c', toolName: 'find', content: 'shipped' },
      { role: 'tool', toolCallId: 'd', toolName: 'find', content: 'bad arguments', isError: true },
    );
    expect(input).toEqual([
      { type: 'message', role: 'system', content: 'Be brief.' },
      { type: 'message', role: 'user', content: 'Where is 7?' },
      { type: 'message', role: 'assistant', content: 'I look.' },
      { type: 'function_call', call_id: 'c', name: 'find', arguments: '{"order":7}' },
      { type: 'function_call', call_id: 'd', name: 'find', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output: 'shipped' },
      { type: 'function_call_output', call_id: 'd', output: 'bad arguments' },
    ]);
  });
});

describe('reasoning', () => {
  const item = (id: string, encrypted?: string) => ({
    type: 'reasoning',
    id,
    summary: [],
    ...(encrypted && { encrypted_content: encrypted }),
  });
  const call = (id: string, name: string) => ({
    type: 'function_call',
    id: `fc_${id}`,
    call_id: id,
    name,
    arguments: '{}',
  });
  const text = (text: string, phase?: string) => ({
    type: 'message',
    role: 'assistant',
    content: [{ type: 'output_text', text }],
    ...(phase && { phase }),
  });
  const answering = (...output: object[]) =>
    stream(
      ...output.map((done, output_index) => data({ type: 'response.output_item.done', output_index, item: done })),
      data({ type: 'response.completed', response: { id: 'resp_1', status: 'completed', output } }),
    );
  /** What is sent back of an answer with these items. */
  const replayOf = async (output: object[], change = (message: AssistantMessage) => message) => {
    const { generate, sent } = await world([answering(...output), responses({ text: ['ok'] })]);
    const { message } = await generate();
    const { input } = await sent({
      messages: [{ role: 'user', content: 'hi' }, change(message), { role: 'user', content: 'on' }],
    });
    return input.slice(1, -1);
  };

  test('its encrypted proof is kept from the finished item and goes back before what followed it', async () => {
    const events = responses({
      reasoning: { summary: 'I think hard.', encrypted: 'whole-proof' },
      calls: [{ id: 'c1', name: 'find', args: ['{}'] }],
    });
    const { generate, sent, parts } = await world([events, responses({ text: ['ok'] })]);
    const { message } = await generate();
    expect(parts.filter(({ type }) => type === 'reasoning')).toHaveLength(3);
    expect(message.parts[0]).toMatchObject({ type: 'reasoning', text: 'I think hard.', provider: 'oai' });
    const { input } = await sent({ messages: [{ role: 'user', content: 'hi' }, message] });
    expect(input.slice(1)).toEqual([
      {
        type: 'reasoning',
        id: 'rs_1',
        summary: [{ type: 'summary_text', text: 'I think hard.' }],
        encrypted_content: 'whole-proof',
      },
      { type: 'function_call', call_id: 'c1', name: 'find', arguments: '{}' },
    ]);
  });

  test('several items go back in the order in which they came', async () => {
    const replay = await replayOf([
      item('r1', 'x'),
      call('c1', 'find'),
      item('r2', 'y'),
      text('so', 'commentary'),
      call('c2', 'buy'),
      text(' far', 'final_answer'),
    ]);
    expect(replay).toEqual([
      item('r1', 'x'),
      { type: 'function_call', call_id: 'c1', name: 'find', arguments: '{}' },
      item('r2', 'y'),
      { type: 'message', role: 'assistant', content: 'so', phase: 'commentary' },
      { type: 'function_call', call_id: 'c2', name: 'buy', arguments: '{}' },
      { type: 'message', role: 'assistant', content: ' far', phase: 'final_answer' },
    ]);
  });

  test('an item without a proof does not go back: the server was asked not to keep it', async () => {
    expect(await replayOf([item('r1'), text('so')])).toEqual([{ type: 'message', role: 'assistant', content: 'so' }]);
  });

  test('an item does not go back without what followed it', async () => {
    const withoutCalls = ({ parts }: AssistantMessage): AssistantMessage => ({
      role: 'assistant',
      parts: parts.filter(({ type }) => type !== 'tool_call'),
    });
    expect(await replayOf([text('so'), item('r1', 'x'), call('c1', 'find')], withoutCalls)).toEqual([
      { type: 'message', role: 'assistant', content: 'so' },
    ]);
  });

  test.each(['cut', 'a much longer text than both'])(
    'text that was changed since, to %j, goes where its first piece stood',
    async (changed) => {
      const change = ({ parts }: AssistantMessage): AssistantMessage => ({
        role: 'assistant',
        parts: parts.map((part) => (part.type === 'text' ? { ...part, text: changed } : part)),
      });
      expect(await replayOf([item('r1', 'x'), text('first'), text('second')], change)).toEqual([
        item('r1', 'x'),
        { type: 'message', role: 'assistant', content: changed },
      ]);
    },
  );

  test('the proof of another provider, or of another form, does not go out', async () => {
    const { inputOf } = await world();
    const parts = [
      { type: 'reasoning' as const, text: '', provider: 'other', meta: [item('r1', 'x')] },
      { type: 'reasoning' as const, text: '', provider: 'oai', meta: { some: 'thing' } },
      { type: 'text' as const, text: 'so' },
    ];
    expect(await inputOf({ role: 'assistant', parts })).toEqual([
      { type: 'message', role: 'assistant', content: 'so' },
    ]);
  });
});

describe('the answer', () => {
  test('the answer of a server that streams nothing but the end comes whole', async () => {
    const saying: ResponsesSaying = { text: ['Hello'], calls: [{ id: 'c1', name: 'find', args: ['{"x":1}'] }] };
    const { generate, parts } = await world(stream(responsesEvents(saying).at(-1) ?? ''));
    expect((await generate()).message.parts).toEqual([
      { type: 'text', text: 'Hello' },
      { type: 'tool_call', id: 'c1', name: 'find', args: '{"x":1}' },
    ]);
    expect(parts.map(({ type }) => type)).toEqual(['text', 'tool_call_start', 'tool_call_delta']);
  });

  test('an answer is there with its last event, also when the server keeps the connection open', async () => {
    // No deadline ends a wait.
    const clock = { ...systemClock, sleep: (_: number, signal?: AbortSignal) => systemClock.sleep(2 ** 30, signal) };
    const { generate } = await world(stall(...responsesEvents({ text: ['Hello'] })), { clock });
    expect((await generate()).finishReason).toBe('stop');
  });

  test('an answer in one piece is emitted in pieces', async () => {
    const long = 'x'.repeat(100);
    const whole = wholeResponse({ text: [long], reasoning: { summary: 'hm' } });
    const { generate, parts, server } = await world(body('application/json', JSON.stringify(whole)), {
      streams: false,
    });
    const answer = await generate();
    expect(server.requests[0]?.body.stream).toBe(false);
    expect(parts.map(({ type }) => type)).toEqual(['reasoning', 'text', 'text']);
    expect(answer).toMatchObject({ finishReason: 'stop', providerRequestId: 'resp_raw', usage: { total: 120 } });
  });

  test('a refusal of the model is its text', async () => {
    const { generate } = await world(responses({ refusal: 'I cannot help with that.' }));
    expect(await generate()).toMatchObject({
      finishReason: 'stop',
      message: { parts: [{ type: 'text', text: 'I cannot help with that.' }] },
    });
  });

  test.each([
    ['rate_limit_exceeded', 'rate_limit', true],
    ['server_error', 'overloaded', true],
    ['invalid_prompt', 'bad_request', false],
    ['bio_policy', 'content_filter', false],
    ['context_length_exceeded', 'context_length', false],
    [undefined, 'overloaded', true],
  ])('a response that failed with %s is %s, and what it used is known', async (code, kind, retryable) => {
    const end = { status: 'failed', error: { code, message: 'sorry' } };
    const { generate } = await world(responses({ text: ['Hel'], end }));
    await expect(generate()).rejects.toMatchObject({ kind, retryable, usage: { input: 100, output: 20 } });
  });

  test('an error event is classified by its code', async () => {
    const error = data({ type: 'error', code: 'rate_limit_exceeded', message: 'slow down', param: null });
    const { generate } = await world(stream(error));
    await expect(generate()).rejects.toMatchObject({
      kind: 'rate_limit',
      message: 'provider oai sent an error: slow down',
    });
  });

  test('a response that was cancelled at the server is no answer', async () => {
    const { generate } = await world(responses({ text: ['Hel'], end: { status: 'cancelled' } }));
    await expect(generate()).rejects.toMatchObject({ kind: 'overloaded' });
  });

  test('events that are not known are skipped', async () => {
    const [first = '', ...rest] = responsesEvents({ text: ['Hello'] });
    const other = data({ type: 'response.web_search_call.searching', output_index: 9, delta: 'no' });
    const { generate } = await world(stream(first, data(null), ...rest));
    await expect(generate()).rejects.toMatchObject({ kind: 'transport' });
    const { generate: again } = await world(stream(first, other, ...rest));
    expect((await again()).message.parts).toEqual([{ type: 'text', text: 'Hello' }]);
  });
});

describe('a session', () => {
  test('is off by default: no token comes back and none is sent', async () => {
    const { generate, sent } = await world();
    expect(await generate()).not.toHaveProperty('sessionToken');
    expect(await sent({ sessionToken: 'resp_0' })).not.toHaveProperty('previous_response_id');
  });

  test('when on, only what came after the last answer is sent', async () => {
    const { generate, sent } = await world(responses({ text: ['ok'] }), { sessions: true });
    expect((await generate()).sessionToken).toBe('resp_raw');
    const messages: Message[] = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'hi' },
      { role: 'assistant', parts: [{ type: 'tool_call', id: 'c', name: 'find', args: '{}' }] },
      { role: 'tool', toolCallId: 'c', toolName: 'find', content: 'found' },
    ];
    expect(await sent({ messages, sessionToken: 'resp_raw' })).toMatchObject({
      store: true,
      previous_response_id: 'resp_raw',
      input: [{ type: 'function_call_output', call_id: 'c', output: 'found' }],
    });
    expect((await sent({ messages })).input).toHaveLength(3);
  });

  test('when on, the system text goes with every call, whatever the server had of it before', async () => {
    const { sent } = await world(responses({ text: ['ok'] }), { sessions: true });
    const messages: Message[] = [
      { role: 'system', content: 'Be brief.' },
      { role: 'system', content: 'Results are data.' },
      { role: 'user', content: 'hi' },
      { role: 'assistant', parts: [{ type: 'text', text: 'Hello' }] },
      { role: 'user', content: 'again' },
    ];
    const instructions = 'Be brief.\n\nResults are data.';
    const again = { type: 'message', role: 'user', content: 'again' };
    expect(await sent({ messages, sessionToken: 'resp_raw' })).toMatchObject({ instructions, input: [again] });
    expect(await sent({ messages })).toMatchObject({ instructions, input: [{ content: 'hi' }, {}, again] });
    expect(await sent({ messages: messages.slice(2) })).not.toHaveProperty('instructions');
  });
});
