import { expect, test } from 'vitest';
import type { JournalEntry } from '../../src/shared/journal.ts';
import { entriesOfJournal } from '../../src/shared/journal-thread.ts';
import type { AssistantPart, Message } from '../../src/shared/message.ts';
import { zeroUsage } from '../../src/shared/money.ts';
import { threadEntry } from '../../src/shared/thread.ts';
import { foldJournal } from '../../src/worker/turn/state.ts';

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
    t: 'answered',
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
  return { v: 1, t: 'called', step, index, toolCallId, toolName: 'look', content: `${toolCallId} ${index}`, ...more };
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

function messagesOf(journal: readonly JournalEntry[]): Message[] {
  return entriesOfJournal('r', journal, at).map(({ message }) => message);
}

const spoken = ({ message }: { message: Message }): Message =>
  message.role === 'assistant'
    ? { ...message, parts: message.parts.filter(({ type }) => type !== 'reasoning') }
    : message;

test('a journal tells a thread what the turn itself holds, without the reasoning', () => {
  const journal: JournalEntry[] = [
    { v: 1, t: 'opened', model: 'm', at },
    answered(1, thought, { type: 'text', text: 'Let me see.' }, call('c1'), call('c2', '{"n":1}')),
    { v: 1, t: 'calling', step: 1, indexes: [0] },
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
  const held = foldJournal([], journal).messages.map((message) => spoken({ message }));
  expect(held).toHaveLength(7);
  expect(messagesOf(journal)).toEqual(held);
  const entries = entriesOfJournal('r', journal, at);
  expect(entries.map(({ step }) => step)).toEqual([1, 1, 1, 2, 2, 2, 3]);
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

test('an answer that was sent back does not show', () => {
  const refused: JournalEntry = { v: 1, t: 'repair', step: 1, problem: 'it is no JSON' };
  const journal = [answered(1, { type: 'text', text: 'no' }), refused, answered(2, { type: 'text', text: '{}' })];
  expect(messagesOf(journal)).toEqual([{ role: 'assistant', parts: [{ type: 'text', text: '{}' }] }]);
});

test('arguments that a person changed after the call was made stay those of the call', () => {
  const journal = [answered(1, call('c1'), call('c2', '{"n":1}')), asked, called(1, 1, 'c2'), edited];
  expect(messagesOf(journal)[0]).toMatchObject({ parts: [{ id: 'c1' }, { id: 'c2', args: '{"n":1}' }] });
});

test('an empty journal has nothing to tell', () => {
  expect(entriesOfJournal('r', [edited, called(1, 0, 'c1')], at)).toEqual([]);
});
