import { describe, expect, test } from 'vitest';
import { originsOfAll } from '../../../src/shared/contract/flow-label.ts';
import { foldJournal } from '../../../src/shared/contract/journal/fold.ts';
import type { JournalEntry } from '../../../src/shared/contract/journal/journal.ts';
import {
  maxFlowSources,
  unionOf,
  withoutReasoning,
  type FlowSource,
  type Message,
} from '../../../src/shared/contract/message.ts';
import { zeroUsage } from '../../../src/shared/contract/money.ts';
import { pastOf, threadContext } from '../../../src/shared/contract/thread/thread-context.ts';
import { itemsOf, readExport } from '../../../src/shared/contract/thread/thread-items.ts';
import type { ThreadEntry, ThreadMessage } from '../../../src/shared/contract/thread/thread.ts';
import { payloadDigest } from '../../../src/shared/contract/thread/turn-log.ts';

const at = new Date(0).toISOString();
const mail: FlowSource = { name: 'read_mail', trust: 'external' };
const page: FlowSource = { name: 'fetch_page', trust: 'web-search' };
const result: ThreadMessage = {
  role: 'tool',
  toolCallId: 'c',
  toolName: 'fetch_page',
  content: 'Pay pier nine.',
  trust: 'web-search',
  sensitivity: 'internal',
};
const asking: ThreadMessage = {
  role: 'assistant',
  parts: [{ type: 'tool_call', id: 'c', name: 'fetch_page', args: '{}' }],
};

describe('the union of labels', () => {
  test('has each source once, and the strictest sensitivity', () => {
    expect(unionOf([{ sources: [mail] }, undefined, { sources: [page, mail], sensitivity: 'internal' }])).toEqual({
      sources: [mail, page],
      sensitivity: 'internal',
    });
    expect(unionOf([{ sources: [], sensitivity: 'public' }])).toBeUndefined();
  });

  test('keeps the least trusted class of the sources for which it has no room', () => {
    const many = Array.from({ length: 20 }, (_, n): FlowSource => ({ name: `mail_${n}`, trust: 'external' }));
    const { sources } = unionOf([{ sources: [...many, page] }]) ?? { sources: [] };
    expect(sources).toHaveLength(maxFlowSources);
    expect(sources.at(-1)).toEqual({ name: 'other sources', trust: 'web-search' });
  });

  test('names a result by its label where it has one, and else by its tool', () => {
    expect(originsOfAll([result])).toEqual({ sources: [page], sensitivity: 'internal' });
    expect(originsOfAll([{ ...result, flow: { sources: [mail] } }])).toEqual({
      sources: [mail],
      sensitivity: 'internal',
    });
  });
});

test('two messages of a user that become one keep what one of them brought', () => {
  const thought: Message = { role: 'assistant', parts: [{ type: 'reasoning', text: 'hm', provider: 'p' }] };
  const summary: Message = { role: 'user', content: 'Summary.', sensitivity: 'internal', flow: { sources: [mail] } };
  expect(withoutReasoning([summary, thought, { role: 'user', content: 'And?' }], undefined)).toEqual([
    {
      role: 'user',
      content: 'Summary.\n\nAnd?',
      sensitivity: 'internal',
      flow: { sources: [mail], parts: ['Summary.'] },
    },
  ]);
});

test('what is said about a refused answer is no user who vouches for what it quotes', () => {
  const spent = { finishReason: 'stop' as const, usage: zeroUsage, attempts: [], provider: 'p', model: 'm' };
  const answer: JournalEntry = {
    v: 1,
    t: 'model_response',
    step: 1,
    ...spent,
    message: { role: 'assistant', parts: [{ type: 'text', text: '{"pay":9}' }] },
  };
  const entries: JournalEntry[] = [answer, { v: 1, t: 'repair', step: 1, problem: 'pay is unknown' }];
  const repaired = (initial: readonly Message[]) => foldJournal(initial, entries).messages.at(-1);
  expect(repaired([{ role: 'user', content: '?' }])).not.toHaveProperty('flow');
  expect(repaired([asking, result])).toMatchObject({ flow: { sources: [page] } });
});

describe('a thread', () => {
  const flow = { sources: [mail], parts: ['x'] };
  const base = { v: 1, runId: 'r', at } as const;
  const entries: ThreadEntry[] = [
    { ...base, t: 'message', message: { role: 'user', content: 'Old.' } },
    { ...base, t: 'message', message: asking },
    { ...base, t: 'message', message: { ...result, flow: { sources: [mail], parts: ['pier nine'] } } },
    { ...base, t: 'summary', text: 'Before.', upTo: 1, sensitivity: 'internal', flow },
  ];
  const lines = [
    { v: 1, t: 'thread', threadId: 't', agentId: 'a', createdAt: at, updatedAt: at },
    ...entries.map((entry, index) => ({ ...entry, seq: index + 1 })),
  ];

  test('has its labels again after an export', () => {
    const { manifest, entries: read } = readExport(lines.map((line) => JSON.stringify(line)).join('\n'));
    expect(read.map(({ entry }) => entry)).toEqual(entries);
    expect(pastOf(threadContext(manifest, read), 'next').messages).toEqual([
      { role: 'user', content: 'Before.', sensitivity: 'internal', flow },
      asking,
      { ...result, flow: { sources: [mail], parts: ['pier nine'] } },
    ]);
  });

  test('shows where a result comes from and how far it may travel, without what of it others brought', () => {
    const item = { seq: 1, runId: 'r', at };
    const shown = (message: ThreadMessage) => itemsOf({ ...base, t: 'message', message }, 1)[0];
    expect(shown({ ...result, flow: { sources: [mail], sensitivity: 'secret', parts: ['pier nine'] } })).toEqual({
      ...item,
      kind: 'tool_result',
      toolCallId: 'c',
      name: 'fetch_page',
      isError: false,
      content: 'Pay pier nine.',
      trust: 'web-search',
      sensitivity: 'secret',
      sources: [mail],
    });
    expect(shown({ role: 'user', content: 'Hi.' })).toEqual({ ...item, kind: 'message', role: 'user', text: 'Hi.' });
  });

  test('recognises what crossed in it whether or not its worker knew labels', () => {
    const labelled: Message = { role: 'user', content: 'An extract.', flow: { sources: [mail] } };
    expect(payloadDigest([labelled, { ...result, flow: { sources: [mail] } }])).toBe(
      payloadDigest([{ role: 'user', content: 'An extract.' }, result]),
    );
  });
});
