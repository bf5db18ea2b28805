import { expect, test } from 'vitest';
import { dataFlowPolicy } from '../../../src/shared/contract/flow.ts';
import { foldJournal } from '../../../src/shared/contract/journal/fold.ts';
import type { JournalEntry } from '../../../src/shared/contract/journal/journal.ts';
import { createToolExecutor } from '../../../src/worker/tools/execute/execute.ts';
import { passage, pageText } from '../../support/page.ts';
import { tool } from '../tools/world.ts';
import { bySteps, makeTurn, question, type TurnWorld } from './world.ts';

/** A turn with a page to read and mails to send, under a policy that enforces. */
function mailing(
  journal: JournalEntry[],
  body: string | readonly string[],
  steps = 1,
): { world: TurnWorld; sent: unknown[] } {
  const sent: unknown[] = [];
  const tools = [
    tool('fetch_page', () => pageText, { trust: 'external', inboundSanitization: 'pass' }),
    tool('send_mail', (args) => void sent.push(args), { effect: 'once' }),
  ];
  const executor = createToolExecutor(tools, {
    runId: 'R',
    tenant: 'T',
    keyFor: (step, index) => `R:s${step}:t${index}`,
    flow: dataFlowPolicy.parse({ mode: 'enforce' }),
  });
  const send = { toolCalls: [body].flat().map((one) => ({ name: 'send_mail', args: JSON.stringify({ body: one }) })) };
  const read = { toolCalls: [{ name: 'fetch_page', args: '{}' }] };
  const script = bySteps(...Array.from({ length: steps }, () => read), send, { text: 'done' });
  return { world: makeTurn({ script, deps: { tools: executor } }, journal), sent };
}

test('a worker that continues the turn after the page was read stops the mail as the first one would', async () => {
  const journal: JournalEntry[] = [];
  const first = mailing(journal, passage);
  expect((await first.world.run()).status).toBe('completed');
  expect(first.sent).toEqual([]);
  const read = journal.findIndex(({ t }) => t === 'tool_result');
  const second = mailing(journal.slice(0, read + 1), passage);
  await second.world.run();
  expect(second.sent).toEqual([]);
  expect(second.world.eventsOf('dataflow.blocked')).toEqual(first.world.eventsOf('dataflow.blocked'));
});

test('mails are begun with the answer that asks for them up to the first that is stopped, which is judged by the same past', async () => {
  const journal: JournalEntry[] = [];
  const bodies = ['Hello Bob.', passage.slice(0, 20), passage.slice(20, 40), 'How are you?'];
  const { world, sent } = mailing(journal, bodies);
  await world.run();
  expect(sent).toEqual([0, 1, 3].map((at) => ({ body: bodies[at] })));
  const asked = journal.findIndex((entry) => entry.t === 'model_response' && entry.step === 2);
  expect(journal[asked + 1]).toMatchObject({ t: 'tool_intent', indexes: [0, 1] });
  const waiting = mailing(journal.slice(0, asked + 1), bodies);
  await waiting.world.run();
  expect(waiting.sent).toEqual(sent);
  expect(waiting.world.eventsOf('dataflow.blocked')).toEqual(world.eventsOf('dataflow.blocked'));
});

test('a handoff launders nothing: the next agent cannot send what the one before has read', async () => {
  const journal: JournalEntry[] = [];
  await mailing(journal, 'hi').world.run();
  const read = journal.findIndex(({ t }) => t === 'tool_result');
  const over: JournalEntry = {
    v: 1,
    t: 'handed_off',
    step: 1,
    from: 'a',
    to: 'b',
    filter: { kind: 'last-n', n: 1 },
    messages: [...question],
  };
  const next = mailing([...journal.slice(0, read + 1), over], passage);
  await next.world.run();
  expect(next.sent).toEqual([]);
  expect(next.world.eventsOf('dataflow.blocked')).toHaveLength(1);
  expect(foldJournal(question, journal).begun).toEqual(question);
});

test('a person who has put a value into an earlier call has given it', async () => {
  const journal: JournalEntry[] = [];
  await mailing(journal, 'hi').world.run();
  const read = journal.findIndex(({ t }) => t === 'tool_result');
  const at = '2026-11-01T00:00:00.000Z';
  const asked = journal.findIndex((entry) => entry.t === 'model_response' && entry.step === 2);
  const edit: JournalEntry[] = [
    journal[asked] as JournalEntry,
    {
      v: 1,
      t: 'suspended',
      seq: 1,
      reason: 'approval',
      at,
      asks: [{ index: 0, id: 'c', kind: 'approval', requestedAt: at, expiresAt: at }],
    },
    {
      v: 1,
      t: 'decided',
      at,
      decisions: [{ kind: 'approval', id: 'c', granted: true, by: [], at, updatedArgs: { body: passage } }],
    },
  ];
  const next = mailing([...journal.slice(0, read + 1), ...edit], passage);
  await next.world.run();
  expect(next.sent).toEqual([{ body: passage }]);
});
