import { describe, expect, test } from 'vitest';
import { runRequestBody } from '../../../src/shared/contract/run.ts';
import { fieldsLeftToAgent, runRequestOf, type WireEndpoint } from '../../../src/producer/openai/run-request.ts';

const chat = '/v1/chat/completions';
const responses = '/v1/responses';
const said = [{ role: 'user', content: 'Where is order 7?' }];

function problemsOf(endpoint: WireEndpoint, body: object): readonly string[] {
  try {
    runRequestOf(endpoint, body);
  } catch (error) {
    const { details } = error as { details: readonly { path: string; message: string }[] };
    return details.map(({ path, message }) => `${path}: ${message}`);
  }
  return [];
}

describe('a whole conversation', () => {
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hello' },
    { role: 'assistant', content: 'Hello!', refusal: null, annotations: [], tool_calls: [] },
    { role: 'developer', content: [{ type: 'text', text: 'Speak French.' }] },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Where is' },
        { type: 'text', text: 'order 7?' },
      ],
    },
  ];
  const expected = {
    agent: 'support',
    input: 'Where is\n\norder 7?',
    history: [
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: 'Hello!' },
    ],
    instructions: 'Be brief.\n\nSpeak French.',
    wire: { endpoint: chat, model: 'support' },
  };

  test('becomes input, history and instructions, and is a request that a run accepts', () => {
    const request = runRequestOf(chat, { model: 'support', messages, stream: true, tools: null });
    expect(request).toEqual(expected);
    expect(runRequestBody.parse(request)).toEqual(expected);
  });

  test('is the same as the input of a response, whose instructions come first', () => {
    const input = messages.map(({ role, content }) => ({ role, content }));
    const body = { model: 'support', input, instructions: 'You are a parrot.' };
    expect(runRequestOf(responses, body)).toEqual({
      ...expected,
      instructions: 'You are a parrot.\n\nBe brief.\n\nSpeak French.',
      wire: { endpoint: responses, model: 'support' },
    });
  });

  test('that ends with the assistant is refused', () => {
    expect(problemsOf(chat, { model: 'support', messages: messages.slice(0, 3) })).toEqual([
      'messages: must end with a message of the user, which the agent answers',
    ]);
  });
});

test.each([
  ['support', { agent: 'support' }],
  ['agent:support', { agent: 'support' }],
  ['support@2', { agent: 'support', agentVersion: '2' }],
  ['agent:support@1.2', { agent: 'support', agentVersion: '1.2' }],
])('the model %s is an agent', (model, expected) => {
  expect(runRequestOf(chat, { model, messages: said })).toMatchObject(expected);
});

test('what metadata says about the run is mapped, and stays in its metadata', () => {
  const metadata = {
    thread: 't1',
    on_busy: 'reject',
    priority: '3',
    queue: 'runs-slow',
    batch: 'nightly',
    max_cost_usd: '0.05',
    on_exceed: 'pause_for_approval',
    deadline_ms: '60000',
    queue_ttl_ms: '5000',
    max_steps: '4',
    colour: 'green',
  };
  const request = runRequestOf(chat, { model: 'support', messages: said, metadata, max_tokens: 100 });
  expect(request).toEqual({
    agent: 'support',
    input: 'Where is order 7?',
    thread: 't1',
    onBusy: 'reject',
    priority: 3,
    queue: 'runs-slow',
    batch: 'nightly',
    budget: { maxCostUsd: 0.05, onExceed: 'pause_for_approval' },
    deadlineMs: 60_000,
    queueTtlMs: 5_000,
    limits: { maxSteps: 4 },
    overrides: { maxOutputTokens: 100 },
    metadata,
    wire: { endpoint: chat, model: 'support' },
  });
  runRequestBody.parse(request);
});

test('extras that make no sense name the key of metadata', () => {
  const metadata = { priority: 'high', deadline_ms: '0' };
  expect(problemsOf(chat, { model: 'support', messages: said, metadata })).toEqual([
    'metadata.priority: must be a whole number from 0 to 2097151, as text',
    expect.stringMatching(/^metadata.deadline_ms: must be a whole number from 1/),
  ]);
});

test('a schema of the answer is mapped from both endpoints', () => {
  const schema = { type: 'object', properties: { answer: { type: 'number' } } };
  const json_schema = { name: 'answer', schema, strict: true };
  expect(
    runRequestOf(chat, { model: 'a', messages: said, response_format: { type: 'json_schema', json_schema } }),
  ).toMatchObject({
    outputSchema: schema,
  });
  const text = { format: { type: 'json_schema', name: 'answer', schema } };
  expect(runRequestOf(responses, { model: 'a', input: 'Hi', text })).toMatchObject({ outputSchema: schema });
});

const tool = { type: 'function', function: { name: 'f', parameters: {} } };

test.each([
  ['tools', [tool], 'an agent has its own tools'],
  ['tool_choice', 'required', 'an agent has its own tools'],
  ['functions', [tool], 'an agent has its own tools'],
  ['n', 2, 'one answer'],
  ['logprobs', true, 'without probabilities'],
  ['audio', { voice: 'alloy' }, 'answers in text'],
  ['modalities', ['text', 'audio'], 'answers in text'],
  ['stop', ['\n'], 'cut the answers'],
  ['response_format', { type: 'json_object' }, 'json_schema'],
  ['frobnicate', 1, 'is not a known field'],
])('%s is refused by its name, with the reason', (field, value, reason) => {
  const [problem = '', ...others] = problemsOf(chat, { model: 'support', messages: said, [field]: value });
  expect(others).toEqual([]);
  expect(problem).toContain(field);
  expect(problem.toLowerCase()).toContain(reason.toLowerCase());
});

test('values that ask for nothing are no reason to refuse', () => {
  const nothing = {
    n: 1,
    logprobs: false,
    tools: [],
    modalities: ['text'],
    tool_choice: 'auto',
    audio: null,
    stop: null,
  };
  expect(problemsOf(chat, { model: 'support', messages: said, ...nothing })).toEqual([]);
});

test('pictures and documents become parts of the input, those of earlier messages first', () => {
  const picture = 'data:image/png;base64,AAAA';
  const messages = [
    { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://example.com/a.png', detail: 'low' } }] },
    { role: 'assistant', content: 'A cat.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'And this?' },
        { type: 'image_url', image_url: { url: picture } },
        { type: 'file', file: { file_id: 'file-01JD0000000000000000000000', filename: 'a.pdf' } },
      ],
    },
  ];
  const request = runRequestOf(chat, { model: 'support', messages });
  expect(request.history).toEqual([{ role: 'assistant', content: 'A cat.' }]);
  expect(request.input).toEqual([
    { type: 'text', text: 'From earlier messages:' },
    { type: 'image', url: 'https://example.com/a.png', detail: 'low' },
    { type: 'text', text: 'And this?' },
    { type: 'image', url: picture },
    { type: 'file', fileId: 'file-01JD0000000000000000000000', name: 'a.pdf' },
  ]);
  const content = [
    { type: 'input_image', image_url: picture, detail: 'auto' },
    { type: 'input_file', file_url: 'https://example.com/a.pdf' },
    { type: 'input_file', file_data: 'data:application/pdf;base64,AAAA', filename: 'b.pdf' },
  ];
  expect(runRequestOf(responses, { model: 'support', input: [{ role: 'user', content }] }).input).toEqual([
    { type: 'image', url: picture, detail: 'auto' },
    { type: 'file', url: 'https://example.com/a.pdf' },
    { type: 'file', url: 'data:application/pdf;base64,AAAA', name: 'b.pdf' },
  ]);
});

test('results of tools, and sounds, are refused by their place', () => {
  const messages = [...said, { role: 'tool', tool_call_id: 'c', content: 'shipped' }, ...said];
  expect(problemsOf(chat, { model: 'support', messages })).toEqual([expect.stringMatching(/^messages\.1.*own tools/)]);
  const sound = [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } }] }];
  expect(problemsOf(chat, { model: 'support', messages: sound })[0]).toMatch(/^messages\.0\.content/);
});

test('fields that the agent decides are named, and only those that were given', () => {
  const body = { model: 'support', messages: said, temperature: 0, top_p: null, n: 1, seed: 7 };
  expect(fieldsLeftToAgent(chat, body)).toEqual(['temperature', 'seed']);
  const asked = { model: 'support', input: 'Hi', text: { verbosity: 'low' }, user: 'kim', metadata: {} };
  expect(fieldsLeftToAgent(responses, asked)).toEqual(['user', 'text.verbosity']);
});

describe('a response', () => {
  test('goes on from the one before it, in its thread or with what was said', () => {
    const body = { model: 'support', input: 'And order 8?', previous_response_id: 'resp_01JD0000000000000000000000' };
    const history = [
      { role: 'user' as const, content: 'Where is order 7?' },
      { role: 'assistant' as const, content: 'Shipped.' },
    ];
    const runId = '01JD0000000000000000000000';
    expect(runRequestOf(responses, body, { previous: { runId, thread: undefined, history } })).toMatchObject({
      history,
      input: 'And order 8?',
      wire: { previous: runId },
    });
    const inThread = runRequestOf(responses, body, { previous: { runId, thread: 't1', history: [] } });
    expect(inThread).toMatchObject({ thread: 't1' });
    expect(inThread.history).toBeUndefined();
    expect(problemsOf(responses, body)).toEqual([expect.stringContaining('a line of a batch')]);
  });

  test.each([
    [{ conversation: 'conv_1', store: false }, 'store'],
    [{ background: true, store: false }, 'background'],
    [{ conversation: 'conv_1', metadata: { thread: 't' } }, 'conversation'],
    [{ include: ['message.output_text.logprobs'] }, 'include'],
  ])('with %j is refused at %s', (fields, path) => {
    expect(problemsOf(responses, { model: 'support', input: 'Hi', ...fields })[0]).toMatch(new RegExp(`^${path}:`));
  });

  test('with store: false is a run that is not kept', () => {
    expect(runRequestOf(responses, { model: 'support', input: 'Hi', store: false })).toMatchObject({ store: false });
  });

  test('takes back the items that it answered with', () => {
    const input = [
      { role: 'user', content: 'Hi' },
      { type: 'reasoning', id: 'rs_1', summary: [] },
      {
        type: 'message',
        id: 'msg_1',
        status: 'completed',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'Hello!', annotations: [], logprobs: [] }],
      },
      { role: 'user', content: [{ type: 'input_text', text: 'Bye' }] },
    ];
    expect(runRequestOf(responses, { model: 'support', input })).toMatchObject({
      history: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: 'Hello!' },
      ],
      input: 'Bye',
    });
  });

  test('refuses calls of tools in its input', () => {
    const input = [{ type: 'function_call_output', call_id: 'c', output: 'x' }];
    expect(problemsOf(responses, { model: 'support', input })[0]).toMatch(/own tools/);
  });
});

test('a line of a batch is neither streamed nor in the background', () => {
  const caller = { isBatchLine: true } as const;
  expect(() => runRequestOf(chat, { model: 'a', messages: said, stream: true }, caller)).toThrow(/stream/);
  expect(() => runRequestOf(responses, { model: 'a', input: 'Hi', background: true }, caller)).toThrow(/background/);
});
