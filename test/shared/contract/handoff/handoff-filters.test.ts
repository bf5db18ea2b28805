import { summaryMessage, summaryText } from '../../../../src/shared/contract/thread/summary-message.ts';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AssistantPart, Message, Sensitivity } from '../../../../src/shared/contract/message.ts';
import {
  boundary,
  defaultHandoffFilter,
  filterFrom,
  filters,
  type HandoffFilter,
} from '../../../../src/shared/contract/handoff/handoff-filters.ts';
import { pairMessages } from '../../../../src/shared/contract/thread/turn-log.ts';
import { rounds } from '../../../support/lane.ts';

const system = (content: string): Message => ({ role: 'system', content });
const user = (content: string): Message => ({ role: 'user', content });
const said = (text: string): Message => ({ role: 'assistant', parts: [{ type: 'text', text }] });
const call = (id: string): AssistantPart => ({ type: 'tool_call', id, name: 'look', args: '{}' });
const asks = (...ids: string[]): Message => ({ role: 'assistant', parts: ids.map(call) });
const thought: AssistantPart = { type: 'reasoning', text: 'hm', provider: 'p', meta: { signature: 's' } };
const answers = (id: string, sensitivity?: Sensitivity): Message => ({
  role: 'tool',
  toolCallId: id,
  toolName: 'look',
  content: `result ${id}`,
  ...(sensitivity && { sensitivity }),
});

const id = fc.constantFrom('a', 'b');
const text = fc.string({ unit: 'grapheme', maxLength: 30 });
const tier = fc.constantFrom<Sensitivity>('public', 'internal', 'secret');
const part = fc.oneof(
  text.map((one): AssistantPart => ({ type: 'text', text: one })),
  id.map(call),
  fc.constant(thought),
);
/** Anything goes here: calls without answers, answers without calls, ids that repeat. */
const transcript = fc.array(
  fc.oneof(
    text.map(system),
    text.map(user),
    fc.array(part, { maxLength: 4 }).map((parts): Message => ({ role: 'assistant', parts })),
    fc.tuple(id, fc.option(tier, { nil: undefined })).map(([one, label]) => answers(one, label)),
  ),
  { maxLength: 24 },
);
const tiers = fc.uniqueArray(tier, { minLength: 1 });
const single: fc.Arbitrary<HandoffFilter> = fc.oneof(
  fc.integer({ min: 1, max: 12 }).map(filters.lastN),
  fc.constantFrom(
    filters.lastUser(),
    filters.full(),
    filters.stripReasoning(),
    filters.stripSensitiveOutputs(),
    filters.stripToolCalls(),
  ),
  fc.integer({ min: 200, max: 400 }).map((summaryLength) => filters.summary({ summaryLength })),
  tiers.map((keep) => filters.bySensitivity({ keep })),
  tiers.map((drop) => filters.bySensitivity({ drop })),
  tier.map((maxTier) => filters.bySensitivity({ maxTier })),
);
const composed = fc.array(single, { maxLength: 4 }).map((steps) => filters.compose(...steps));
const anyFilter = fc.oneof(single, composed, composed.map(boundary));

test('a filter that is replayed from its descriptor answers the same bytes', () => {
  fc.assert(
    fc.property(anyFilter, transcript, (filter, messages) => {
      const replayed = filterFrom(JSON.parse(JSON.stringify(filter.descriptor)));
      expect(JSON.stringify(replayed.apply(messages))).toBe(JSON.stringify(filter.apply(messages)));
      expect(replayed.descriptor).toEqual(filter.descriptor);
    }),
  );
});

test('whatever a filter leaves of a transcript pairs, and no pair of surrogates is cut', () => {
  fc.assert(
    fc.property(anyFilter, transcript, (filter, messages) => {
      const left = filter.apply(messages);
      expect(pairMessages(left)).toEqual(left);
      expect(callsAreAnswered(left)).toBe(true);
      expect(filter.apply(left).every((one) => textsOf(one).isWellFormed())).toBe(true);
    }),
    { numRuns: rounds({ fast: 150, all: 500 }) },
  );
});

test('a filter leaves the messages that it was given as they were', () => {
  fc.assert(
    fc.property(anyFilter, transcript, (filter, messages) => {
      const before = JSON.stringify(messages);
      filter.apply(messages);
      expect(JSON.stringify(messages)).toBe(before);
    }),
  );
});

/** Counts: two calls of one id need two answers. */
function callsAreAnswered(messages: readonly Message[]): boolean {
  let open: string[] = [];
  for (const message of messages) {
    if (message.role === 'tool') {
      const at = open.indexOf(message.toolCallId);
      if (at < 0) return false;
      open.splice(at, 1);
      continue;
    }
    if (open.length > 0) return false;
    open =
      message.role === 'assistant' ? message.parts.flatMap((one) => (one.type === 'tool_call' ? [one.id] : [])) : [];
  }
  return open.length === 0;
}

function textsOf(message: Message): string {
  if (message.role !== 'assistant') return message.content;
  return message.parts.map((one) => (one.type === 'tool_call' ? one.args : one.text)).join('');
}

test('the last messages cross, and every system message', () => {
  const messages = [system('rules'), user('one'), said('two'), system('more'), user('three')];
  expect(filters.lastN(1).apply(messages)).toEqual([system('rules'), system('more'), user('three')]);
  expect(filters.lastN(99).apply(messages)).toEqual(messages);
});

test.each([0, -1, 1.5, Number.NaN])('the last %s messages are a RangeError', (n) => {
  expect(() => filters.lastN(n)).toThrow(RangeError);
});

test('a cut between a call and its result takes both', () => {
  const messages = [user('go'), asks('a', 'b'), answers('a'), answers('b'), said('done')];
  expect(filters.lastN(2).apply(messages)).toEqual([said('done')]);
});

test('only what the user said last crosses', () => {
  expect(filters.lastUser().apply([user('one'), said('two'), user('three'), said('four')])).toEqual([user('three')]);
});

test('reasoning stays behind, and at a boundary whatever the filter says', () => {
  const messages = [user('go'), { role: 'assistant' as const, parts: [thought, call('a')] }, answers('a')];
  const without = [user('go'), asks('a'), answers('a')];
  expect(filters.stripReasoning().apply(messages)).toEqual(without);
  expect(filters.full().apply(messages)).toEqual(messages);
  expect(boundary(filters.full()).apply(messages)).toEqual(without);
  expect(boundary(filters.custom((all) => all)).apply(messages)).toEqual(without);
});

test('results that are not public stay behind with their calls', () => {
  const messages = [
    user('go'),
    asks('a', 'b', 'c', 'd'),
    answers('a'),
    answers('b', 'public'),
    answers('c', 'internal'),
    answers('d', 'secret'),
  ];
  expect(filters.stripSensitiveOutputs().apply(messages)).toEqual([
    user('go'),
    asks('a', 'b'),
    answers('a'),
    answers('b', 'public'),
  ]);
});

test('calls and results can stay behind, while the text beside a call crosses', () => {
  const both: Message = { role: 'assistant', parts: [{ type: 'text', text: 'I look.' }, call('a')] };
  expect(filters.stripToolCalls().apply([user('go'), both, answers('a'), asks('b'), answers('b')])).toEqual([
    user('go'),
    said('I look.'),
  ]);
});

test('sensitivity keeps, drops or bounds what crosses', () => {
  const messages = [user('go'), asks('a', 'b', 'c'), answers('a'), answers('b', 'internal'), answers('c', 'secret')];
  const crossing = (filter: HandoffFilter) =>
    filter.apply(messages).flatMap((one) => (one.role === 'tool' ? [one.toolCallId] : []));
  expect(crossing(filters.bySensitivity({ keep: ['public', 'secret'] }))).toEqual(['a', 'c']);
  expect(crossing(filters.bySensitivity({ drop: ['internal'] }))).toEqual(['a', 'c']);
  expect(crossing(filters.bySensitivity({ maxTier: 'internal' }))).toEqual(['a', 'b']);
  expect(filters.bySensitivity({ keep: ['secret'] }).apply(messages)).toEqual([asks('c'), answers('c', 'secret')]);
});

test('required sensitivity refuses the handoff where something else would cross', () => {
  const required = filters.bySensitivity({ require: ['public'] });
  const messages = [user('go'), asks('a'), answers('a', 'internal')];
  expect(required.apply(messages.slice(0, 1))).toEqual([user('go')]);
  expect(() => required.apply(messages)).toThrow(expect.objectContaining({ code: 'guardrail_blocked' }));
  expect(filters.compose(filters.stripSensitiveOutputs(), required).apply(messages)).toEqual([user('go')]);
});

test('the summary is one message with what was said, within its length', () => {
  const messages = [
    system('rules'),
    user('Where is\n\norder 7?'),
    { role: 'assistant' as const, parts: [thought, call('a')] },
    answers('a', 'secret'),
    said('It was shipped.'),
  ];
  expect(filters.summary().apply(messages)).toEqual([
    system('rules'),
    user('An extract of the conversation so far:\nUser: Where is order 7?\nAgent called: look\nAgent: It was shipped.'),
  ]);
  expect(filters.summary().apply([system('rules')])).toEqual([system('rules')]);
});

test('a long conversation keeps its first line and its last ones in the summary', () => {
  const messages = Array.from({ length: 50 }, (_, at) => user(`line ${at} ${'🙂'.repeat(40)}`));
  const [summary] = filters.summary({ summaryLength: 400 }).apply(messages);
  const lines = summary?.role === 'user' ? summary.content.split('\n') : [];
  expect(lines[1]).toMatch(/^User: line 0 /);
  expect(lines[2]).toBe('…');
  expect(lines.at(-1)).toMatch(/^User: line 49 /);
  expect(lines.join('\n').length).toBeGreaterThan(300);
});

test('a line that is cut in a summary ends between characters', () => {
  const messages = [user('🙂'.repeat(200)), said('🙂'.repeat(200))];
  for (let summaryLength = 200; summaryLength < 216; summaryLength++) {
    const [summary] = filters.summary({ summaryLength }).apply(messages);
    expect(textsOf(summary as Message)).toMatch(/\nUser: 🙂+…\nAgent: 🙂+…$/u);
    expect(textsOf(summary as Message).isWellFormed()).toBe(true);
  }
});

test('no summary is longer than it may be', () => {
  fc.assert(
    fc.property(transcript, fc.integer({ min: 200, max: 400 }), (messages, summaryLength) => {
      const said = filters.summary({ summaryLength }).apply(messages);
      const lengths = said.flatMap((one) => (one.role === 'user' ? [one.content.length] : []));
      expect(Math.max(0, ...lengths)).toBeLessThanOrEqual(summaryLength);
    }),
  );
});

test('the default is the last ten messages without sensitive results, as its descriptor says', () => {
  expect(boundary().descriptor).toEqual({
    kind: 'compose',
    steps: [{ kind: 'last-n', n: 10 }, { kind: 'strip-sensitive-outputs' }, { kind: 'strip-reasoning' }],
  });
  expect(boundary().descriptor).toEqual(boundary(defaultHandoffFilter).descriptor);
});

test('a filter of your own works on a copy, is recorded as custom and cannot be replayed', () => {
  const greedy = filters.custom((messages) => {
    for (const one of messages) if (one.role === 'user') Object.assign(one, { content: 'changed' });
    return [...messages, asks('never answered')];
  });
  const messages = [user('go')];
  expect(greedy.apply(messages)).toEqual([user('changed')]);
  expect(messages).toEqual([user('go')]);
  expect(boundary(greedy).descriptor).toEqual({
    kind: 'compose',
    steps: [{ kind: 'custom' }, { kind: 'strip-reasoning' }],
  });
  const refusal = expect.objectContaining({ code: 'validation' });
  expect(() => filterFrom(greedy.descriptor)).toThrow(refusal);
  expect(() => filterFrom(boundary(greedy).descriptor)).toThrow(refusal);
  expect(() => filters.custom(() => ['text'] as never).apply(messages)).toThrow(refusal);
});

test.each([
  ['no object', 'last-n'],
  ['an unknown kind', { kind: 'first-n', n: 1 }],
  ['a count of none', { kind: 'last-n', n: 0 }],
  ['a field too many', { kind: 'full', n: 1 }],
  ['two rules of sensitivity', { kind: 'sensitivity-filter', keep: ['public'], drop: ['secret'] }],
  ['a tier that does not exist', { kind: 'sensitivity-filter', maxTier: 'cosmic' }],
  ['a summary without room', { kind: 'summary', summaryLength: 10 }],
  ['a composition in a composition', { kind: 'compose', steps: [{ kind: 'compose', steps: [] }] }],
])('%s describes no filter', (_, descriptor) => {
  expect(() => filterFrom(descriptor)).toThrow(expect.objectContaining({ code: 'validation' }));
});

test('a summary crosses as far as what it was made from, and no further', () => {
  const text = summaryText('<<<UNTRUSTED_CONTENT trust="derived-untrusted">>>\nThe account is 7.', undefined);
  const summary = summaryMessage(text, { sensitivity: 'internal' });
  const messages: Message[] = [summary, { role: 'user', content: 'And?' }];
  expect(filters.stripSensitiveOutputs().apply(messages)).toEqual(messages.slice(1));
  expect(filters.bySensitivity({ maxTier: 'internal' }).apply(messages)).toEqual(messages);
  expect(JSON.stringify(filters.summary().apply(messages))).not.toContain('The account is 7.');
  const unlabelled: Message[] = [{ role: 'user', content: text }, ...messages.slice(1)];
  expect(JSON.stringify(filters.summary().apply(unlabelled))).not.toContain('The account is 7.');
});
