import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { limits } from '../../../../src/shared/contract/agent/agent.ts';
import type { JournalEntryOf } from '../../../../src/shared/contract/journal/journal.ts';
import type { Message } from '../../../../src/shared/contract/message.ts';
import { cutOf, partEnds } from '../../../../src/worker/turn/compaction/summarise.ts';
import { nextMove } from '../../../../src/worker/turn/next-move.ts';
import { foldJournal } from '../../../../src/shared/contract/journal/fold.ts';
import { isSummary, summaryMessage, summaryText } from '../../../../src/shared/contract/thread/summary-message.ts';
import { makeCompaction, noLimits, pages, pairingProblems, reads } from './compaction-world.ts';
import { makeTurn, question, stepOf } from '../world.ts';
import { rounds } from '../../../support/lane.ts';

/** Numbers of calls of the steps of a turn. */
const steps = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 5 });
const conversations = fc
  .record({ summarised: fc.boolean(), turns: fc.array(steps, { minLength: 1, maxLength: 6 }) })
  .map(({ summarised, turns }) => [
    ...(summarised ? [summaryMessage(summaryText('Earlier.', undefined))] : []),
    ...turns.flatMap(turnWith),
  ]);

/** Models repeat the ids of calls. */
function turnWith(calls: readonly number[]): Message[] {
  const answers = calls.flatMap((count): Message[] => {
    const ids = Array.from({ length: count }, (_, index) => `call_${index}`);
    return [
      {
        role: 'assistant',
        parts: [
          { type: 'text', text: 'Well.' },
          ...ids.map((id) => ({ type: 'tool_call' as const, id, name: 'read_page', args: '{}' })),
        ],
      },
      ...ids.map((toolCallId): Message => ({ role: 'tool', toolCallId, toolName: 'read_page', content: 'r' })),
    ];
  });
  return [{ role: 'user', content: 'q' }, ...answers];
}

test('wherever a conversation is cut, each call that stays has its result and each result its call', () => {
  fc.assert(
    fc.property(conversations, fc.integer({ min: 1, max: 7 }), fc.boolean(), (messages, keep, fits) => {
      const cut = cutOf(messages, keep, () => fits);
      if (cut === undefined) return;
      const start = isSummary(messages[0]) ? 1 : 0;
      expect(cut).toBeGreaterThan(start);
      expect(cut).toBeLessThan(messages.length);
      expect(pairingProblems({ messages: messages.slice(cut) })).toEqual([]);
      const count = (role: Message['role']) => messages.slice(cut).filter((message) => message.role === role).length;
      expect(Math.max(count('user'), count('assistant'))).toBeGreaterThanOrEqual(keep);
    }),
    { numRuns: rounds({ fast: 100, all: 500 }) },
  );
});

test('wherever a part of what is cut off ends, both sides of it pair', () => {
  fc.assert(
    fc.property(conversations, (messages) => {
      const cut = cutOf(messages, 1, () => false);
      if (cut === undefined) return;
      const ends = partEnds(messages, cut);
      expect(ends.at(-1)).toBe(cut);
      for (const end of ends) {
        expect(pairingProblems({ messages: messages.slice(0, end) })).toEqual([]);
        expect(pairingProblems({ messages: messages.slice(end) })).toEqual([]);
      }
    }),
    { numRuns: rounds({ fast: 100, all: 300 }) },
  );
});

test('a turn goes on from any beginning of a journal with summaries: all requests pair, with one summary at most', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 4, maxLength: 9 }),
      fc.integer({ min: 1, max: 4 }),
      fc.boolean(),
      fc.array(fc.nat(), { minLength: 3, maxLength: 3 }),
      async (calls, keepTurns, withHook, places) => {
        const options = () => ({
          tools: [pages],
          limits: { maxSteps: 100 },
          script: (request: { requestId: string }) => {
            const count = calls[stepOf(request as never) - 1] ?? 0;
            const toolCalls = Array.from({ length: count }, (_, n) => ({
              id: `c${n}`,
              name: 'read_page',
              args: { n },
            }));
            return count > 0 ? { toolCalls } : { text: 'done' };
          },
          deps: {
            compaction: makeCompaction({ keepTurns, ...(withHook && { hooks: [() => 'Mind this.'] }) }).compaction,
          },
        });
        const whole = makeTurn(options());
        expect((await whole.run()).status).toBe('completed');
        for (const [at] of whole.journal.entries()) {
          const state = foldJournal([{ role: 'user', content: 'What is it?' }], whole.journal.slice(0, at));
          expect(
            nextMove(state, limits.parse({}), { toolFailure: 'feed_back', subagentFailure: 'feed_back' }).kind,
          ).not.toBe('fail');
        }
        for (const place of places) {
          const journal = structuredClone(whole.journal.slice(0, place % whole.journal.length));
          const again = makeTurn(options(), journal);
          expect((await again.run()).status).toBe('completed');
          for (const request of again.requests) {
            expect(pairingProblems(request)).toEqual([]);
            expect(request.messages.filter(isSummary).length).toBeLessThanOrEqual(1);
          }
        }
      },
    ),
    { numRuns: rounds({ fast: 8, all: 25 }) },
  );
});

test.each([
  ['takes a result from its call', 2],
  ['leaves nothing', 3],
  ['stands for less than the one before it', 1],
])('a summary that %s makes the journal malformed', (_, replaced) => {
  const initial = turnWith([1]);
  const entry: JournalEntryOf<'compacted'> = {
    v: 1,
    t: 'compacted',
    replaced,
    step: 1,
    source: 'auto-trigger',
    summary: 's',
    attempts: [],
    beforeTokens: 2,
    afterTokens: 1,
    summaryTokens: 1,
    durationMs: 0,
  };
  const before = replaced === 1 ? [{ ...entry, replaced: 1 }] : [];
  expect(() => foldJournal(initial, [...before, entry])).toThrow(
    expect.objectContaining({ code: 'run_state_malformed' }),
  );
});

test('after a handoff a summary stands for what crossed, and all that was said in the turn stays known', async () => {
  const { compaction } = makeCompaction({ keepTurns: 2 });
  const options = { tools: [pages], limits: noLimits, deps: { compaction } };
  const first = makeTurn({ ...options, script: reads(5) });
  const before = await first.run();
  expect(before.state.summarised).toBeDefined();
  const handedOff: JournalEntryOf<'handed_off'> = {
    v: 1,
    t: 'handed_off',
    step: before.state.step,
    from: 'a',
    to: 'b',
    filter: { kind: 'last-n', n: 4 },
  };
  const journal = [...structuredClone(first.journal), handedOff];
  const state = foldJournal(question, journal);
  expect(state).toMatchObject({ summarised: undefined, own: [], earlier: before.state.own, messages: state.initial });
  const second = makeTurn({ ...options, script: reads(14) }, journal);
  const after = await second.run();
  expect(after.status).toBe('completed');
  const { summarised, messages, initial, own, earlier } = after.state;
  expect(earlier).toEqual(before.state.own);
  expect(own.length).toBeGreaterThan(10);
  expect(summarised).toBeDefined();
  expect(messages.slice(1)).toEqual([...initial, ...own].slice(summarised?.replaced));
  for (const request of second.requests) expect(pairingProblems(request)).toEqual([]);
  expect(foldJournal(question, second.journal)).toMatchObject({ messages, own, earlier, summarised });
});
