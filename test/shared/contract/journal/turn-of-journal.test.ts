import { expect, test } from 'vitest';
import type { JournalEntry } from '../../../../src/shared/contract/journal/journal.ts';
import { turnOfJournal, foldJournal } from '../../../../src/shared/contract/journal/fold.ts';
import type { AssistantPart, Message } from '../../../../src/shared/contract/message.ts';
import { zeroUsage } from '../../../../src/shared/contract/money.ts';
import { pairMessages, entriesOfTurn } from '../../../../src/shared/contract/thread/turn-log.ts';
import { threadEntry } from '../../../../src/shared/contract/thread/thread.ts';

const at = '2026-01-02T03:04:05.000Z';
const call = (id: string, args = '{}'): AssistantPart => ({ type: 'tool_call', id, name: 'look', args });
const thought: AssistantPart = {
  type: 'reasoning',
  text: 'hm',
  provider: 'p',
  meta: { signature: 'proof-of-thought' },
};

function answered(step: number, ...parts: AssistantPart[]): JournalEntry {
  const message = { role: 'assistant' as const, parts };
  return {
    v: 1,
    t: 'model_response',
    step,
    message,
    finishReason: 'stop',
    usage: zeroUsage,
    attempts: [],
    provider: 'p',
    model: 'm',
  };
}

function called(step: number, index: number, toolCallId: string, more: object = {}): JournalEntry {
  return {
    v: 1,
    t: 'tool_result',
    step,
    index,
    toolCallId,
    toolName: 'look',
    content: `${toolCallId} ${index}`,
    ...more,
  };
}

const asked: JournalEntry = {
  v: 1,
  t: 'suspended',
  seq: 1,
  reason: 'approval',
  at,
  asks: [{ index: 1, id: 'c2', kind: 'approval', requestedAt: at, expiresAt: at }],
};
const edited: JournalEntry = {
  v: 1,
  t: 'decided',
  at,
  decisions: [{ id: 'c2', kind: 'approval', granted: true, updatedArgs: { n: 2 }, by: [], at }],
};

const place = { runId: 'r', at, began: 4 };
const openEntries = (journal: readonly JournalEntry[]) => entriesOfTurn(place, turnOfJournal(journal), 'open');

function messagesOf(journal: readonly JournalEntry[]): Message[] {
  return openEntries(journal).flatMap((entry) => (entry.t === 'message' ? [entry.message] : []));
}

const spoken = ({ message }: { message: Message }): Message =>
  message.role === 'assistant'
    ? { ...message, parts: message.parts.filter(({ type }) => type !== 'reasoning') }
    : message;

test('a journal gives a thread the messages of its turn, without the reasoning', () => {
  const journal: JournalEntry[] = [
    { v: 1, t: 'agent_started', model: 'm', at },
    answered(1, thought, { type: 'text', text: 'Let me see.' }, call('c1'), call('c2', '{"n":1}')),
    { v: 1, t: 'tool_intent', step: 1, indexes: [0] },
    called(1, 0, 'c1', { errorKind: 'timeout', sensitivity: 'secret', trust: 'mcp-derived' }),
    asked,
    edited,
    called(1, 1, 'c2'),
    answered(2, call('c1'), call('c1')),
    called(2, 1, 'c1'),
    called(2, 0, 'c1'),
    { v: 1, t: 'retrying', number: 1, resumeAt: at, calls: [0] },
    called(2, 0, 'c1', { content: 'better' }),
    answered(3, thought, { type: 'text', text: 'Done.' }),
  ];
  const { messages } = foldJournal([], journal);
  expect(turnOfJournal(journal).messages).toEqual(messages);
  const held = pairMessages(messages).map((message) => spoken({ message }));
  expect(held).toHaveLength(6);
  expect(messagesOf(journal)).toEqual(held);
  const entries = openEntries(journal);
  expect(entries).toEqual(entriesOfTurn(place, turnOfJournal(journal), 'closed'));
  for (const entry of entries) expect(threadEntry.parse(entry)).toEqual({ ...entry, runId: 'r', at });
  expect(JSON.stringify(entries)).not.toContain('proof-of-thought');
});

test('a call shows before it has a result, and a result as soon as it is there', () => {
  const journal = [answered(1, call('c1'), call('c2'))];
  expect(messagesOf(journal)).toHaveLength(1);
  expect(messagesOf([...journal, called(1, 1, 'c2')]).map(({ role }) => role)).toEqual(['assistant', 'tool']);
});

test('a call that is made again has no result until it has the new one', () => {
  const again: JournalEntry = { v: 1, t: 'retrying', number: 1, resumeAt: at, calls: [0] };
  const journal = [answered(1, call('c1'), call('c2')), called(1, 0, 'c1'), called(1, 1, 'c2'), again];
  expect(messagesOf(journal).slice(1)).toMatchObject([{ role: 'tool', toolCallId: 'c2' }]);
});

test('an answer that was sent back shows with what was said about it, and so does what the user said meanwhile', () => {
  const journal: JournalEntry[] = [
    answered(1, { type: 'text', text: 'no' }),
    { v: 1, t: 'repair', step: 1, problem: 'it is no JSON' },
    answered(2, call('c1')),
    called(2, 0, 'c1'),
    { v: 1, t: 'steered', messages: [{ id: 'm1', text: 'And soon.', at }] },
    answered(3, { type: 'text', text: '{}' }),
  ];
  const state = foldJournal([], journal);
  expect(turnOfJournal(journal)).toMatchObject({ messages: state.messages, steered: new Set(['And soon.']) });
  const users = openEntries(journal).filter((entry) => entry.t === 'message' && entry.message.role === 'user');
  expect(users).toMatchObject([
    { key: 'r:1', byRuntime: true, message: { content: expect.stringContaining('it is no JSON') } },
    { key: 'r:4', message: { content: 'And soon.' } },
  ]);
  expect(users[1]).not.toHaveProperty('byRuntime');
});

test('a handoff stands where the other agent went on, and takes the summary of the first one with it', () => {
  const compacted: JournalEntry = {
    v: 1,
    t: 'compacted',
    step: 2,
    source: 'pre-step',
    summary: 'So far.',
    replaced: 1,
    attempts: [],
    beforeTokens: 2,
    afterTokens: 1,
    summaryTokens: 1,
    durationMs: 0,
  };
  const journal: JournalEntry[] = [
    answered(1, call('c1')),
    called(1, 0, 'c1'),
    compacted,
    answered(2, thought, call('c2')),
    called(2, 0, 'c2'),
    { v: 1, t: 'handed_off', step: 2, from: 'one', to: 'two', filter: { kind: 'last-n', n: 2 }, digest: 'd' },
    answered(3, { type: 'text', text: 'I do it.' }),
  ];
  const turn = turnOfJournal(journal);
  const kinds = openEntries(journal).map((entry) => (entry.t === 'message' ? entry.message.role : entry.t));
  expect(kinds).toEqual(['assistant', 'tool', 'assistant', 'tool', 'handoff', 'assistant']);
  const state = foldJournal([{ role: 'user', content: 'Please.' }], journal);
  const { summary: _, digest: __, ...seen } = state.handoffs[0] ?? {};
  expect(turn).toMatchObject({ messages: [...state.earlier, ...state.own], handoffs: [seen] });
  const [handoff] = entriesOfTurn(place, { ...turn, handoffs: state.handoffs }, 'closed').filter(
    ({ t }) => t === 'handoff',
  );
  expect(threadEntry.parse(handoff)).toMatchObject({
    key: 'r:handoff:1',
    fromAgentId: 'one',
    toAgentId: 'two',
    descriptor: { kind: 'last-n', n: 2 },
    began: 4,
    summary: { kept: 4, text: expect.stringContaining('So far.') },
    digest: 'd',
  });
});

test('arguments that a person changed after the call was made stay those of the call', () => {
  const journal = [answered(1, call('c1'), call('c2', '{"n":1}')), asked, called(1, 1, 'c2'), edited];
  expect(messagesOf(journal)[0]).toMatchObject({ parts: [{ id: 'c1' }, { id: 'c2', args: '{"n":1}' }] });
});

test('an empty journal gives nothing', () => {
  expect(openEntries([edited, called(1, 0, 'c1')])).toEqual([]);
});
