import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../src/worker/index.ts';
import type { LlmProvider } from '../../src/worker/llm/provider.ts';
import {
  assertAllAnswered,
  assertCompleted,
  byAgent,
  calls,
  fails,
  recordedModel,
  scriptedModel,
  testAgent,
} from '../../src/testing/index.ts';
import { pageFolder } from '../support/docs-page.ts';

const lookupOrder = defineTool({
  name: 'lookup_order',
  description: 'Finds an order by its number.',
  inputSchema: z.object({ order: z.string() }),
  trust: 'web-search',
  execute: ({ order }) => `Order ${order} was shipped.`,
});
const support = defineAgent({ id: 'support', model: 'gpt-5.2-mini', tools: [lookupOrder] });
const script = () => scriptedModel([calls('lookup_order', { order: '7' }), { text: ['It was ', 'shipped.'] }]);

const newFile = () => join(pageFolder(), 'deep', 'talk.json');

/** A model with what a real provider says about itself. */
function realModel(): LlmProvider {
  const model = script();
  return {
    ...model,
    id: 'openai',
    capabilities: { tools: true, reasoning: true, responseFormat: true },
    contextWindowOf: () => 9_000,
    secrets: () => ['hunter2-of-the-provider'],
  };
}

test('what a provider answered is repeated from the file, delta by delta, without the provider', async () => {
  const file = newFile();
  const recorded = recordedModel({ file, from: realModel() });
  expect(recorded.isRecording).toBe(true);
  const first = await testAgent(support, { model: recorded }).run('Where is order 7?');
  const replayed = recordedModel({ file });
  expect(replayed).toMatchObject({ isRecording: false, id: 'openai', left: 2 });
  expect(replayed.capabilities).toEqual(recorded.capabilities);
  expect(replayed.contextWindowOf?.('gpt-5.2-mini')).toBe(9_000);
  const second = await testAgent(support, { model: replayed }).run('Where is order 7?');
  assertCompleted(second, 'It was shipped.');
  assertAllAnswered(replayed);
  expect(second.events).toEqual(first.events);
  expect(second.costMicrocents).toBe(first.costMicrocents);
});

test('a file that is there is never recorded again', async () => {
  const file = newFile();
  await testAgent(support, { model: recordedModel({ file, from: script() }) }).run('Where is order 7?');
  const from = scriptedModel([]);
  const again = await testAgent(support, { model: recordedModel({ file, from }) }).run('Where is order 7?');
  assertCompleted(again, 'It was shipped.');
  expect(from.requests).toEqual([]);
});

test('a request that differs fails with the first difference, on the way to it and in the request', async () => {
  const file = newFile();
  await testAgent(support, { model: recordedModel({ file, from: script() }) }).run('Where is order 7?');
  const other = await testAgent(support, { model: recordedModel({ file }) }).run('Where is order 8?');
  expect(other).toMatchObject({ status: 'failed', error: { code: 'validation' } });
  expect(other.error?.message).toBe(
    [
      `Request 1 of the recording ${file} is another one, first at messages[0].content:`,
      '  recorded: "Where is order 7?"',
      '  asked:    "Where is order 8?"',
      'Delete the file to record it again.',
    ].join('\n'),
  );
  const model = recordedModel({ file });
  const tools = { lookup_order: () => 'Order 7 was lost.' };
  const later = await testAgent(support, { model, tools }).run('Where is order 7?');
  expect(later.error?.message).toContain('Request 2 of the recording');
  expect(later.error?.message).toMatch(/messages\[3\]\.content:\n {2}recorded: .*was shipped.*\n {2}asked: .*was lost/);
  expect(() => assertAllAnswered(model)).toThrow('the model has one answer that nothing asked for');
});

test('a request more than there are answers says so', async () => {
  const file = newFile();
  await testAgent(support, { model: recordedModel({ file, from: scriptedModel(['Hi.']) }) }).run('Hello.');
  const agent = testAgent(support, { model: recordedModel({ file }) });
  assertCompleted(await agent.run('Hello.'));
  const { error } = await agent.run('Hello.');
  expect(error?.message).toContain('has one answer, and the model is asked once more');
});

test('errors are repeated as they were, and retried', async () => {
  const file = newFile();
  const from = scriptedModel([fails('rate_limit', { retryAfterMs: 2_000, status: 429 }), 'Hi.']);
  const first = await testAgent(support, { model: recordedModel({ file, from }) }).run('Hello.');
  const model = recordedModel({ file });
  const agent = testAgent(support, { model });
  const second = await agent.run('Hello.');
  expect(second.events).toEqual(first.events);
  expect(second.events.map(({ type }) => type)).toContain('llm.call');
  expect(model.requests).toHaveLength(2);
});

test('agents that ask in another order than in the recording get their own answers', async () => {
  const file = newFile();
  const from = scriptedModel(byAgent({ a: ['I am A.'], b: ['I am B.'] }));
  const named = (id: string) => defineAgent({ id, model: 'gpt-5.2-mini', instructions: `You are ${id}.` });
  const [a, b] = [named('a'), named('b')] as const;
  const recorded = recordedModel({ file, from });
  for (const agent of [a, b]) await testAgent(agent, { model: recorded }).run('Who are you?');
  const model = recordedModel({ file });
  assertCompleted(await testAgent(b, { model }).run('Who are you?'), 'I am B.');
  assertCompleted(await testAgent(a, { model }).run('Who are you?'), 'I am A.');
});

test('no secret gets into the file, from whichever side and however it was cut', async () => {
  const file = newFile();
  const secret = 'hunter2-of-the-test';
  const leaking = scriptedModel([
    {
      reasoning: `I know ${secret}.`,
      text: ['The key is hunter2-of', '-the-provider, or sk-proj', '-abcdefghijkl, or hunter2-of-', 'the-test.'],
      toolCalls: [{ name: 'lookup_order', args: { order: '7', api_key: 'plain-words', password: 4711 } }],
    },
    fails('bad_request', { message: `refused: Bearer abcdefghijklmnop ${secret}` }),
  ]);
  const from = { ...leaking, secrets: () => ['hunter2-of-the-provider'] };
  const model = recordedModel({ file, from, secrets: [secret] });
  const found = { state: 'shipped', client_secret: 'plain-too', api_keys: ['listed-one', 815], 'sk-proj-as-a-name': 1 };
  const tools = { lookup_order: () => JSON.stringify(found) };
  await testAgent(support, { model, tools }).run(`Where is order 7? See https://x.test/?token=abc123 and ${secret}`);
  const text = readFileSync(file, 'utf8');
  for (const hidden of [
    'hunter2',
    'sk-proj',
    'abcdefghijkl',
    'plain-words',
    '4711',
    'plain-too',
    'abc123',
    'listed-one',
    '815',
  ])
    expect(text).not.toContain(hidden);
  expect(text).toContain('[redacted]');
  expect(text).toContain('shipped');
});

test('what was taken out of a request is equal to whatever stands there later', async () => {
  const file = newFile();
  const first = recordedModel({ file, from: scriptedModel(['Hi.']), secrets: ['the-first-secret'] });
  await testAgent(support, { model: first }).run('I am the-first-secret, you see.');
  const run = (input: string) => testAgent(support, { model: recordedModel({ file }) }).run(input);
  assertCompleted(await run('I am another, you see.'));
  expect((await run('I am another, you hear.')).status).toBe('failed');
});

test('texts that differ from run to run are made the same', async () => {
  const file = newFile();
  const normalise = (text: string) => text.replaceAll(/\d{4}-\d\d-\d\d/g, '<date>');
  const from = scriptedModel(['Hi.']);
  await testAgent(support, { model: recordedModel({ file, from, normalise }) }).run('It is 2026-01-01.');
  assertCompleted(await testAgent(support, { model: recordedModel({ file, normalise }) }).run('It is 2027-03-04.'));
  expect(readFileSync(file, 'utf8')).toContain('It is <date>.');
});

test('calls that are cancelled are not recorded', async () => {
  const file = newFile();
  const from = scriptedModel([{ text: 'Hi.' }]);
  const signal = AbortSignal.abort();
  const recorded = recordedModel({ file, from });
  const asked = { model: 'm', requestId: 'r', idempotencyKey: 'r', messages: [] };
  await expect(recorded.generate(asked, () => {}, signal)).rejects.toMatchObject({ kind: 'cancelled' });
  expect(() => recordedModel({ file })).toThrow(`there is no recording ${file}: give \`from\` the provider to record`);
});

test('a file that was cut or edited is refused with its problems', () => {
  const file = join(pageFolder(), 'talk.json');
  writeFileSync(file, '{"v":1,"provider":{');
  expect(() => recordedModel({ file })).toThrow(`recording ${file} cannot be used`);
  writeFileSync(file, JSON.stringify({ v: 2, exchanges: [{ request: {}, parts: [] }] }));
  expect(() => recordedModel({ file })).toThrow(/v: .*\n.*provider: .*\n(.*\n)*.*exchanges\.0: must have `request`/);
});
