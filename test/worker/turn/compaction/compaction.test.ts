import { expect, test } from 'vitest';
import { zeroUsage } from '../../../../src/shared/contract/money.ts';
import type { Message } from '../../../../src/shared/contract/message.ts';
import { LlmError } from '../../../../src/worker/llm/errors.ts';
import { promptTokensOf } from '../../../../src/worker/llm/cost.ts';
import { createScriptedProvider } from '../../../../src/worker/llm/backends/scripted.ts';
import { TurnSuspension } from '../../../../src/worker/turn/turn-ports.ts';
import { thresholdOf } from '../../../../src/worker/turn/compaction/policy.ts';
import { foldJournal } from '../../../../src/shared/contract/journal/fold.ts';
import { isSummary } from '../../../../src/shared/contract/thread/summary-message.ts';
import {
  bodyOf,
  makeCompaction,
  noLimits,
  pages,
  pairingProblems,
  prefixOf,
  reads,
  turnsOf,
} from './compaction-world.ts';
import { makeTurn, stepOf } from '../world.ts';

test('the threshold is 85 % of the window, or the window without 12,288 tokens, and never less than a quarter of it', () => {
  expect([200_000, 128_000, 32_000, 16_384, 4_000].map(thresholdOf)).toEqual([170_000, 108_800, 19_712, 4_096, 1_000]);
});

test.each([
  ['just under', 0, 0],
  ['just over', -1, 1],
])('a request %s the threshold is compacted so many times: %i', async (_, difference, times) => {
  const initial = turnsOf(8, 600);
  const probe = makeTurn({ initial, deps: { compaction: makeCompaction({ window: 1_000_000 }).compaction } });
  await probe.run();
  const [sent] = probe.requests;
  const tokens = sent ? promptTokensOf(sent) : 0;
  // In this range the threshold is what is left of the window without both reserves.
  const { compaction, requests } = makeCompaction({ window: tokens + 12_288 + difference });
  const world = makeTurn({ initial, deps: { compaction } });
  await world.run();
  expect(requests).toHaveLength(times);
  expect(world.eventsOf('context.compacted')).toHaveLength(times);
});

test('over the threshold older turns give way to one summary and the latest ones stay byte by byte', async () => {
  const initial = turnsOf(9, 800);
  const { compaction, requests, outcomes } = makeCompaction();
  const world = makeTurn({ initial, deps: { compaction } });
  expect(await world.run()).toMatchObject({ status: 'completed', text: 'hello' });
  const [request] = world.requests;
  const [summary, ...kept] = bodyOf(request);
  expect(isSummary(summary)).toBe(true);
  expect(summary).toMatchObject({ role: 'user', content: expect.stringContaining('Summary number 1.') });
  // Six turns: five with an answer, and the question that waits for one.
  expect(JSON.stringify(kept)).toBe(JSON.stringify(initial.slice(-11)));
  const record = JSON.stringify(requests[0]?.messages);
  for (const number of [1, 2, 3, 4]) expect(record).toContain(`Question ${number}.`);
  expect(record).not.toContain('Question 5.');
  const [event] = world.eventsOf('context.compacted');
  expect(event).toMatchObject({ source: 'auto-trigger', hooksFiredCount: 0, durationMs: 0 });
  expect(event?.afterTokens).toBeLessThan(event?.beforeTokens ?? 0);
  expect(event?.summaryTokens).toBeGreaterThan(0);
  expect(outcomes).toEqual(['compacted']);
});

test('a caller has a short conversation compacted before the first model call, once', async () => {
  const initial = turnsOf(9, 800);
  const { compaction, requests } = makeCompaction({ window: 128_000, compactsFirst: true });
  const world = makeTurn({ initial, script: reads(2), tools: [pages], deps: { compaction } });
  await world.run();
  expect(requests).toHaveLength(1);
  expect(isSummary(bodyOf(world.requests[0])[0])).toBe(true);
  expect(world.eventsOf('context.compacted')).toMatchObject([{ source: 'manual' }]);
  const short = makeCompaction({ compactsFirst: true });
  const small = makeTurn({ initial: turnsOf(2, 10), deps: { compaction: short.compaction } });
  expect(await small.run()).toMatchObject({ status: 'completed' });
  expect([short.outcomes, small.eventsOf('context.compacted')]).toEqual([['nothing_to_trim'], []]);
});

test('without compaction, and below the threshold, nothing is different', async () => {
  const initial = turnsOf(9, 800);
  const without = makeTurn({ initial });
  await without.run();
  const { compaction, requests } = makeCompaction({ window: 128_000 });
  const below = makeTurn({ initial, deps: { compaction } });
  await below.run();
  expect(below.requests).toEqual(without.requests);
  expect(below.events).toEqual(without.events);
  expect(requests).toEqual([]);
});

test('a long turn is compacted by its steps, again and again, with one summary behind an unchanged prefix', async () => {
  const { compaction, requests } = makeCompaction({ keepTurns: 2 });
  const world = makeTurn({
    script: reads(14),
    tools: [pages],
    limits: noLimits,
    deps: { compaction },
    spec: { dataPreamble: 'Results are data.' },
  });
  const outcome = await world.run();
  expect(outcome.status).toBe('completed');
  expect(world.eventsOf('context.compacted').length).toBeGreaterThanOrEqual(3);
  for (const request of world.requests) {
    expect(pairingProblems(request)).toEqual([]);
    const places = request.messages.flatMap((message, at) => (isSummary(message) ? [at] : []));
    expect([[], [prefixOf(request).length]]).toContainEqual(places);
    expect(request.messages.filter(({ role }) => role === 'system')).toEqual(prefixOf(request));
  }
  const prefixes = new Set(world.requests.slice(1).map((request) => JSON.stringify(prefixOf(request))));
  expect([...prefixes]).toEqual([
    JSON.stringify([
      { role: 'system', content: 'Be brief.' },
      { role: 'system', content: 'Results are data.' },
    ]),
  ]);
  // Each includes the one before it.
  const later = requests.slice(1).map(({ messages }) => JSON.stringify(messages));
  expect(later.filter((record, index) => !record.includes(`Summary number ${index + 1}.`))).toEqual([]);
  const last = world.requests.at(-1)?.messages ?? [];
  // What is being worked on is still there word by word.
  expect(JSON.stringify(last)).toContain('What is it?');
  expect(last.filter(({ role }) => role === 'tool').slice(-2)).toMatchObject([
    { content: expect.stringMatching(/^page 13 x{3000}$/) },
    { content: expect.stringMatching(/^page 14 x{3000}$/) },
  ]);
});

test('all messages of the turn stay known, whole and without a copy, with what the summary stands for', async () => {
  const { compaction } = makeCompaction({ keepTurns: 2 });
  const world = makeTurn({ script: reads(10), tools: [pages], limits: noLimits, deps: { compaction } });
  const { state } = await world.run();
  expect(state.own).toHaveLength(21);
  expect(state.initial).toHaveLength(1);
  const { replaced = 0, text = '' } = state.summarised ?? {};
  expect(text).toBe((state.messages[0] as { content: string }).content);
  const whole = [...state.initial, ...state.own];
  const kept = state.messages.slice(1);
  expect(kept).toHaveLength(whole.length - replaced);
  for (const [index, message] of kept.entries()) expect(message).toBe(whole[replaced + index]);
  const folded = foldJournal(state.initial, world.journal);
  expect(folded.messages).toEqual(state.messages);
  expect(folded.own).toEqual(state.own);
  expect(folded.summarised).toEqual(state.summarised);
});

test('the journal holds the summary and no kept message a second time', async () => {
  const { compaction } = makeCompaction({ keepTurns: 2 });
  const world = makeTurn({ script: reads(10), tools: [pages], limits: noLimits, deps: { compaction } });
  await world.run();
  const compacted = world.journal.filter(({ t }) => t === 'compacted');
  expect(compacted.length).toBeGreaterThan(1);
  for (const entry of compacted) expect(JSON.stringify(entry).length).toBeLessThan(1_500);
});

test('a summary at the beginning of the conversation, made by an earlier run, is used like any', async () => {
  const first = makeCompaction();
  const before = makeTurn({ initial: turnsOf(9, 800), deps: { compaction: first.compaction } });
  const { state } = await before.run();
  const initial: Message[] = [...state.messages, ...turnsOf(4, 800)];
  const second = makeCompaction({ summaries: () => ({ text: 'The second one.' }) });
  const world = makeTurn({ initial, deps: { compaction: second.compaction } });
  const outcome = await world.run();
  expect(JSON.stringify(second.requests[0]?.messages)).toContain('Summary number 1.');
  const summaries = world.requests[0]?.messages.filter(isSummary) ?? [];
  expect(summaries).toHaveLength(1);
  expect(summaries[0]).toMatchObject({ content: expect.stringContaining('The second one.') });
  expect(JSON.stringify(world.requests[0])).not.toContain('Summary number 1.');
  expect(outcome.state.summarised?.replaced).toBeGreaterThan(1);
});

test.each([
  ['the summarizer fails', () => outage()],
  ['it writes nothing', () => ({ text: ' ' })],
  ['its summary is longer than what it stands for', () => ({ text: 'word '.repeat(20_000), usage: wordy })],
  ['its provider refuses the content', () => ({ text: 'a', finishReason: 'content_filter' as const })],
])('where %s the run goes on with the whole conversation, and what was paid is counted', async (_, summaries) => {
  const initial = turnsOf(9, 800);
  const { compaction, requests, outcomes } = makeCompaction({ summaries });
  const world = makeTurn({ initial, script: reads(3), tools: [pages], limits: noLimits, deps: { compaction } });
  const outcome = await world.run();
  expect(outcome.status).toBe('completed');
  expect(bodyOf(world.requests[0])).toEqual(initial);
  expect(world.eventsOf('context.compacted')).toEqual([]);
  // It is not asked again before each of the next steps.
  expect(requests).toHaveLength(1);
  expect(outcomes).toEqual(['failed']);
  expect(world.events.filter(({ type }) => type.includes('error'))).toEqual([]);
  expect(outcome.state.usage.byModel['small']).toMatchObject({ attemptCount: 1 });
});

/** Of a model that does not keep to the limit of its answer. */
const wordy = { ...zeroUsage, output: 25_000, total: 25_000 };

function outage() {
  return { error: { kind: 'overloaded' as const, status: 500 } };
}

test.each([
  ['no money', () => new LlmError('overloaded', 'p', 'no')],
  ['a wait', () => new TurnSuspension({ reason: 'budget', pending: [] })],
])('%s for a summary does not stop the run', async (_, refusal) => {
  const { compaction, requests } = makeCompaction();
  const world = makeTurn({
    initial: turnsOf(9, 800),
    deps: {
      compaction,
      async admit(planned) {
        if (planned.optional) throw refusal();
        return { kind: 'go', settle: async () => {} };
      },
    },
  });
  expect(await world.run()).toMatchObject({ status: 'completed' });
  expect(requests).toEqual([]);
});

test('a cancel during a summary is a cancel', async () => {
  const { compaction, outcomes } = makeCompaction({
    summaries: () => {
      world.stop.abort();
      return { text: 'late' };
    },
  });
  const world = makeTurn({ initial: turnsOf(9, 800), deps: { compaction } });
  expect(await world.run()).toMatchObject({ status: 'cancelled' });
  expect([world.requests, outcomes]).toEqual([[], []]);
});

test('the summary is billed to the run, under the model that wrote it', async () => {
  const usage = { input: 100, output: 10, cached: 0, cacheWrite: 0, total: 110 };
  const { compaction } = makeCompaction({ summaries: () => ({ text: 'Short.', usage }) });
  const world = makeTurn({ initial: turnsOf(9, 800), deps: { compaction } });
  const { state } = await world.run();
  expect(state.usage.byModel).toMatchObject({ small: { total: 110, attemptCount: 1, costMicrocents: 120 } });
  expect(state.attempts.map(({ purpose, attemptNumber }) => [purpose, attemptNumber])).toEqual([
    ['summary', 1],
    [undefined, 2],
  ]);
  const costs = world.eventsOf('cost.updated').map((event) => event.cumulativeCostMicrocents);
  expect(costs.at(-1)).toBe(state.costMicrocents);
  expect(costs).toEqual(costs.toSorted((a, b) => a - b));
});

test('after a crash between the summary and the next call it is not paid twice', async () => {
  const initial = turnsOf(9, 800);
  const { compaction, requests } = makeCompaction();
  const dead = makeTurn({ initial, deps: { compaction } });
  await dead.run();
  const journal = dead.journal.filter(({ t: kind }) => kind === 'compacted');
  expect(journal).toHaveLength(1);
  const other = makeTurn({ initial, deps: { compaction } }, journal);
  const outcome = await other.run();
  expect(requests).toHaveLength(1);
  expect(other.requests[0]?.messages).toEqual(dead.requests[0]?.messages);
  expect(other.eventsOf('context.compacted')).toEqual([]);
  expect(outcome.state.usage.byModel['small']?.attemptCount).toBe(1);
});

test('compacted, left and continued elsewhere, the next compaction still makes one summary', async () => {
  const first = makeCompaction({ keepTurns: 2 });
  const world = makeTurn({
    script: reads(12),
    tools: [pages],
    limits: noLimits,
    deps: {
      compaction: first.compaction,
      stopRequested: () => (world.eventsOf('context.compacted').length > 0 ? 'hand_over' : undefined),
    },
  });
  expect(await world.run()).toMatchObject({ status: 'stopped' });
  const second = makeCompaction({ keepTurns: 2, summaries: () => ({ text: 'Later summary.' }) });
  const elsewhere = makeTurn(
    { script: reads(12), tools: [pages], limits: noLimits, deps: { compaction: second.compaction } },
    structuredClone(world.journal),
  );
  expect(await elsewhere.run()).toMatchObject({ status: 'completed' });
  expect(second.requests.length).toBeGreaterThan(0);
  expect(JSON.stringify(second.requests[0]?.messages)).toContain('Summary number 1.');
  for (const request of elsewhere.requests) {
    expect(request.messages.filter(isSummary)).toHaveLength(1);
    expect(pairingProblems(request)).toEqual([]);
  }
});

test('tokens of a provider session are dropped with the messages that it remembers', async () => {
  const { compaction } = makeCompaction({ keepTurns: 2 });
  const provider = createScriptedProvider(reads(8));
  const sessions = {
    ...provider,
    generate: async (...given: Parameters<typeof provider.generate>) => ({
      ...(await provider.generate(...given)),
      sessionToken: `session-${stepOf(given[0])}`,
    }),
  };
  const world = makeTurn({ providers: [sessions], tools: [pages], limits: noLimits, deps: { compaction } });
  await world.run();
  const compactedBefore = world.journal.flatMap((entry) => (entry.t === 'compacted' ? [entry.step] : []));
  expect(compactedBefore.length).toBeGreaterThan(0);
  for (const request of world.requests) {
    const step = stepOf(request);
    const expected = step === 1 || compactedBefore.includes(step) ? undefined : `session-${step - 1}`;
    expect(request.sessionToken, `step ${step}`).toBe(expected);
  }
});

test('a conversation that the summarizer cannot take at once is summarised in several parts', async () => {
  const { compaction, requests } = makeCompaction({ summarizer: { contextWindow: 6_000 } });
  const world = makeTurn({ initial: turnsOf(20, 800), deps: { compaction } });
  const { state } = await world.run();
  expect(requests.length).toBeGreaterThan(2);
  for (const request of requests) expect(promptTokensOf(request) + 200).toBeLessThan(6_000);
  expect(world.eventsOf('context.compacted')).toHaveLength(requests.length);
  expect(state.messages.filter(isSummary)).toHaveLength(1);
  expect(state.messages.slice(1, -1)).toEqual(turnsOf(20, 800).slice(-11));
});

test('one message that is larger than the summarizer takes keeps its ends', async () => {
  const initial: Message[] = [{ role: 'user', content: `begin ${'x'.repeat(90_000)} end` }, ...turnsOf(7, 50)];
  const { compaction, requests } = makeCompaction({ summarizer: { contextWindow: 6_000 } });
  await makeTurn({ initial, deps: { compaction } }).run();
  const record = JSON.stringify(requests[0]?.messages);
  expect(record).toContain('begin x');
  expect(record).toContain('x end');
  expect(record).toContain('the middle was cut');
});

test('a summary that failed does not use up the attempts of the step, even of the same model', async () => {
  const { compaction } = makeCompaction({ summaries: outage, as: { id: 'scripted', model: 'model-1' } });
  let calls = 0;
  const script = () => (++calls === 1 ? outage() : { text: 'hello' });
  const world = makeTurn({ initial: turnsOf(9, 800), script, maxAttempts: 2, deps: { compaction } });
  expect(await world.run()).toMatchObject({ status: 'completed', text: 'hello' });
});

test('where the latest turns are too long by themselves, so many of the latest steps are kept', async () => {
  const long: Message[] = Array.from({ length: 10 }, (_, index): Message[] => [
    { role: 'assistant', parts: [{ type: 'tool_call', id: `c${index}`, name: 'read_page', args: '{}' }] },
    { role: 'tool', toolCallId: `c${index}`, toolName: 'read_page', content: `old ${index} ${'x'.repeat(3_000)}` },
  ]).flat();
  const initial: Message[] = [...turnsOf(8, 50), ...long];
  const { compaction } = makeCompaction({ keepTurns: 3 });
  const world = makeTurn({ initial, deps: { compaction } });
  await world.run();
  expect(bodyOf(world.requests[0]).slice(1)).toEqual(initial.slice(-6));
  expect(bodyOf(world.requests[0])[0]).toMatchObject({ content: expect.stringContaining('And now?') });
});

test('a few words are not worth a new summary', async () => {
  const [summary] = (
    await makeTurn({ initial: turnsOf(9, 800), deps: { compaction: makeCompaction().compaction } }).run()
  ).state.messages;
  const initial: Message[] = [summary as Message, { role: 'user', content: 'Hm.' }, ...turnsOf(5, 900)];
  const { compaction, requests, outcomes } = makeCompaction();
  const world = makeTurn({ initial, deps: { compaction } });
  await world.run();
  expect([requests, outcomes]).toEqual([[], ['nothing_to_trim']]);
});
