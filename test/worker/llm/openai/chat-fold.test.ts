import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { toolCallsOf } from '../../../../src/shared/contract/message.ts';
import { LlmError } from '../../../../src/worker/llm/errors.ts';
import { ChatFold, type WireChunk } from '../../../../src/worker/llm/openai/chat-fold.ts';
import type { LlmPart } from '../../../../src/worker/llm/provider.ts';
import { rounds } from '../../../support/lane.ts';

function fold(...chunks: readonly WireChunk[]) {
  const parts: LlmPart[] = [];
  const folded = new ChatFold('p', (part) => parts.push(part));
  for (const chunk of chunks) folded.chunk(chunk);
  return { folded, parts };
}

const calls = (...fragments: readonly object[]): WireChunk => ({ choices: [{ delta: { tool_calls: fragments } }] });
const end = (finish_reason: string): WireChunk => ({ choices: [{ delta: {}, finish_reason }] });
const used = (usage: object): WireChunk => ({ choices: [], usage });

test('fragments of two calls that take turns are put together by their index', () => {
  const first = '{"order":7}';
  const second = '["other", "arguments"]';
  const fragments: WireChunk[] = [
    calls(
      { index: 1, id: 'b', function: { name: 'buy', arguments: '' } },
      { index: 0, id: 'a', function: { name: 'find', arguments: '' } },
    ),
  ];
  for (let i = 0; i < Math.max(first.length, second.length); i++) {
    fragments.push(
      calls({ index: 0, function: { arguments: first[i] ?? '' } }),
      calls({ index: 1, function: { arguments: second[i] ?? '' } }),
    );
  }
  const { folded } = fold(...fragments, end('tool_calls'));
  expect(toolCallsOf(folded.answer().message)).toEqual([
    { type: 'tool_call', id: 'b', name: 'buy', args: second },
    { type: 'tool_call', id: 'a', name: 'find', args: first },
  ]);
});

test('whole calls without an id, all at index 0, stay apart, and keep their proofs', () => {
  const proof = { google: { thought_signature: 'sig' } };
  const { folded } = fold(
    calls({ index: 0, id: '', function: { name: 'one', arguments: '{"a":1}' }, extra_content: proof }),
    calls({ index: 0, id: '', function: { name: 'one', arguments: '{"a":2}' } }),
    calls(
      { index: 0, function: { name: 'two', arguments: '{"b"' } },
      { index: 0, function: { name: 'two', arguments: ':3}' } },
    ),
    end('stop'),
  );
  const { message } = folded.answer();
  const found = toolCallsOf(message);
  expect(found.map(({ name, args }) => [name, args])).toEqual([
    ['one', '{"a":1}'],
    ['one', '{"a":2}'],
    ['two', '{"b":3}'],
  ]);
  expect(message.parts[0]).toMatchObject({ type: 'reasoning', text: '', meta: { calls: [[found[0]?.id, proof]] } });
});

test('calls with the same id, with none, and with gaps in their index stay apart', () => {
  const { folded, parts } = fold(
    calls({ index: 0, id: 'x', function: { name: 'one', arguments: '1' } }),
    calls({ index: 7, id: 'x', function: { name: 'two', arguments: '2' } }),
    calls({ index: 1_000_000_000, function: { name: 'three', arguments: '3' } }),
    end('tool_calls'),
  );
  const found = toolCallsOf(folded.answer().message);
  expect(found.map(({ name, args }) => [name, args])).toEqual([
    ['one', '1'],
    ['two', '2'],
    ['three', '3'],
  ]);
  expect(new Set(found.map(({ id }) => id)).size).toBe(3);
  expect(parts.filter((part) => part.type === 'tool_call_start').map(({ id }) => id)).toEqual(
    found.map(({ id }) => id),
  );
});

test('a server that gives every call index 0, or no index at all, does not melt its calls into one', () => {
  for (const index of [{ index: 0 }, {}]) {
    const { folded } = fold(
      calls({ ...index, id: 'a', function: { name: 'one', arguments: '{"x":' } }),
      calls({ ...index, function: { arguments: '1}' } }),
      calls({ ...index, id: 'b', function: { name: 'two', arguments: '{}' } }),
      end('tool_calls'),
    );
    expect(toolCallsOf(folded.answer().message).map(({ name, args }) => [name, args])).toEqual([
      ['one', '{"x":1}'],
      ['two', '{}'],
    ]);
  }
});

test('cached tokens are taken out of the input', () => {
  const { folded } = fold(
    end('stop'),
    used({
      prompt_tokens: 100,
      completion_tokens: 9,
      prompt_tokens_details: { cached_tokens: 80, cache_write_tokens: 5 },
    }),
  );
  expect(folded.answer().usage).toEqual({ input: 15, output: 9, cached: 80, cacheWrite: 5, total: 109 });
});

test('of several usage blocks the last one counts', () => {
  const { folded } = fold(
    used({ prompt_tokens: 1, completion_tokens: 1 }),
    end('stop'),
    used({ prompt_tokens: 10, completion_tokens: 2 }),
  );
  expect(folded.answer().usage).toMatchObject({ input: 10, output: 2, total: 12 });
});

test.each([
  [{ prompt_tokens: -1, completion_tokens: 2 }],
  [{ prompt_tokens: 'many' }],
  [{ prompt_tokens: 1.5 }],
  [{ prompt_tokens: 5, completion_tokens: 1e300 }],
])('nonsense %j counts as no usage', (usage) => {
  const { folded } = fold(end('stop'), used(usage));
  expect(folded.answer()).not.toHaveProperty('usage');
});

test('nonsense after a usage block leaves that block standing', () => {
  const { folded } = fold(used({ prompt_tokens: 3, completion_tokens: 1 }), end('stop'), used({ prompt_tokens: -3 }));
  expect(folded.answer().usage).toMatchObject({ input: 3, output: 1 });
});

test('more cached tokens than tokens never make a negative count', () => {
  const { folded } = fold(
    end('stop'),
    used({
      prompt_tokens: 10,
      completion_tokens: 0,
      prompt_tokens_details: { cached_tokens: 50, cache_write_tokens: 3 },
    }),
  );
  expect(folded.answer().usage).toEqual({ input: 0, output: 0, cached: 10, cacheWrite: 0, total: 10 });
});

test('the proof of reasoning is kept for the provider', () => {
  const details = [{ type: 'reasoning.encrypted', data: 'opaque' }];
  const { folded } = fold(
    { choices: [{ delta: { reasoning: 'so', reasoning_details: details } }] },
    { choices: [{ delta: { content: 'yes' } }] },
    end('stop'),
  );
  expect(folded.answer().message.parts[0]).toEqual({
    type: 'reasoning',
    text: 'so',
    provider: 'p',
    meta: { details, calls: [] },
  });
});

test('a refusal is text', () => {
  const { folded } = fold({ choices: [{ delta: { refusal: 'I will not.' } }] }, end('stop'));
  expect(folded.answer().message.parts).toEqual([{ type: 'text', text: 'I will not.' }]);
});

test.each([
  ['stop', 'stop'],
  ['eos', 'stop'],
  ['length', 'length'],
  ['max_tokens', 'length'],
])('the end %s is %s', (wire, expected) => {
  expect(fold(end(wire)).folded.answer().finishReason).toBe(expected);
});

test('an answer that ends in an error of the provider can be retried', () => {
  expect(() => fold(end('error')).folded.answer()).toThrow(
    expect.objectContaining({ kind: 'overloaded', retryable: true }),
  );
});

test('tool calls of a completion that did not stream are emitted after its text', () => {
  const parts: LlmPart[] = [];
  const folded = new ChatFold('p', (part) => parts.push(part));
  const tool_calls = [{ function: { name: 'one', arguments: '{}' } }, { function: { name: 'two', arguments: '{}' } }];
  folded.whole({ choices: [{ message: { content: 'Both.', tool_calls }, finish_reason: 'tool_calls' }] });
  expect(parts.map((part) => part.type)).toEqual([
    'text',
    'tool_call_start',
    'tool_call_delta',
    'tool_call_start',
    'tool_call_delta',
  ]);
  expect(toolCallsOf(folded.answer().message)).toHaveLength(2);
});

const anything = fc.jsonValue({ maxDepth: 1 });
const either = <T>(right: fc.Arbitrary<T>) =>
  fc.option(fc.oneof({ weight: 3, arbitrary: right }, anything), { nil: undefined });
const callLike = fc.record({
  index: either(fc.nat(2)),
  id: either(fc.constantFrom('a', 'b')),
  function: either(fc.record({ name: either(fc.constantFrom('f', 'g')), arguments: either(fc.string()) })),
});
const words = fc.record({
  content: either(fc.string()),
  reasoning: either(fc.string()),
  reasoning_details: either(fc.array(anything)),
  tool_calls: either(fc.array(either(callLike), { maxLength: 3 })),
});
const chunkLike = fc.record({
  id: either(fc.string()),
  usage: either(
    fc.record({
      prompt_tokens: either(fc.nat()),
      completion_tokens: either(fc.nat()),
      prompt_tokens_details: anything,
    }),
  ),
  choices: either(
    fc.array(
      either(
        fc.record({
          delta: either(words),
          message: either(words),
          finish_reason: either(fc.constantFrom('stop', 'length', 'tool_calls')),
        }),
      ),
      { maxLength: 2 },
    ),
  ),
});

test('no chunk, however strange, throws anything but a model error', () => {
  const strange = fc.property(fc.array(chunkLike, { maxLength: 5 }), fc.boolean(), (chunks, whole) => {
    const folded = new ChatFold('p', () => {});
    try {
      for (const chunk of chunks as unknown as WireChunk[]) {
        if (whole) folded.whole(chunk);
        else folded.chunk(chunk);
      }
      folded.answer();
    } catch (error) {
      if (!(error instanceof LlmError)) throw error;
    }
  });
  expect(() => fc.assert(strange, { numRuns: rounds({ fast: 500, all: 2_000 }) })).not.toThrow();
});

const reasoned = (reasoning_details: readonly unknown[]): WireChunk => ({
  choices: [{ delta: { reasoning_details } }],
});

test('more proofs of reasoning than are kept are no error, and 10,000 are kept', () => {
  const { folded } = fold(reasoned(Array.from({ length: 500_000 }, () => 0)), end('stop'));
  const [reasoning] = folded.answer().message.parts;
  expect(reasoning).toMatchObject({ meta: { details: { length: 10_000 } } });
});

test.each([
  ['of reasoning', (data: string) => reasoned([{ data }])],
  ['of a call', (data: string) => calls({ index: 0, id: 'a', function: { name: 'one' }, extra_content: { data } })],
])('proofs %s count to the size of an answer', (_, proof) => {
  const large = Array.from({ length: 11 }, () => proof('x'.repeat(1024 * 1024)));
  expect(() => fold(...large)).toThrow('over 10485760 characters');
});
