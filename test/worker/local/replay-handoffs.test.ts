import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { systemClock } from '../../../src/shared/base/clock.ts';
import type { JournalEntry } from '../../../src/shared/contract/journal/journal.ts';
import {
  toolCallsOf,
  type AssistantPart,
  type Message,
  type Sensitivity,
} from '../../../src/shared/contract/message.ts';
import { zeroUsage } from '../../../src/shared/contract/money.ts';
import { payloadDigest } from '../../../src/shared/contract/thread/turn-log.ts';
import type { ThreadStore } from '../../../src/shared/state/thread/threads.ts';
import { replayHandoffs } from '../../../src/worker/local/replay-handoffs.ts';
import { recordTurn, takeThread } from '../../../src/worker/run/run-thread.ts';
import { inMemoryThreads } from '../../../src/worker/local/stores/in-memory-threads.ts';
import {
  boundary,
  crossing,
  filters,
  type HandoffFilter,
} from '../../../src/shared/contract/handoff/handoff-filters.ts';
import { continueFrom, foldJournal } from '../../../src/shared/contract/journal/fold.ts';
import { aRecord } from '../../contract/run-fixtures.ts';
import { rounds } from '../../support/lane.ts';

const at = '2026-01-02T03:04:05.000Z';
const tenant = 'default';
const thread = 't1';
const words = (text: string): AssistantPart => ({ type: 'text', text });
const thought: AssistantPart = { type: 'reasoning', text: 'hm', provider: 'p', meta: { signature: 's' } };
const call = (id: string): AssistantPart => ({ type: 'tool_call', id, name: 'look', args: '{}' });

/** A step of a story: what the model writes, which agent goes on after it, and how many messages are summarised before it. */
interface StoryStep {
  readonly parts: readonly AssistantPart[];
  readonly sensitivity?: Sensitivity;
  readonly summarise?: number;
  readonly steered?: string;
  readonly through?: HandoffFilter;
}

/** What is written down as a run goes on, and what crossed at its handoffs. */
function journalOf(initial: readonly Message[], story: readonly StoryStep[]) {
  const journal: JournalEntry[] = [];
  const crossed: (readonly Message[])[] = [];
  const growing = continueFrom(foldJournal(initial, []));
  const add = (...entries: JournalEntry[]) => {
    journal.push(...entries);
    for (const entry of entries) growing.add(entry);
  };
  for (const [index, part] of story.entries()) {
    const step = index + 1;
    if (part.steered !== undefined)
      add({ v: 1, t: 'steered', messages: [{ id: `m${index}`, text: part.steered, at }] });
    const replaced = replacedBy(growing.state, part.summarise);
    if (replaced !== undefined) add(compacted(step, replaced));
    add(answered(step, part.parts), ...resultsOf(step, part));
    if (!part.through) continue;
    const { messages } = growing.state;
    const payload = crossing(boundary(part.through), messages);
    add(handedOff(step, boundary(part.through), payload));
    crossed.push([...growing.state.messages]);
  }
  return { state: growing.state, crossed };
}

/** The nearest place from this one on at which a conversation may be cut. */
function replacedBy(
  { initial, own, summarised }: ReturnType<typeof foldJournal>,
  wanted: number | undefined,
): number | undefined {
  if (wanted === undefined) return undefined;
  const all = [...initial, ...own];
  const from = Math.max(wanted, (summarised?.replaced ?? 0) + 1);
  const found = all.findIndex(({ role }, place) => place >= from && role !== 'tool');
  return found < 0 ? undefined : found;
}

function compacted(step: number, replaced: number): JournalEntry {
  const tokens = { beforeTokens: 9, afterTokens: 2, summaryTokens: 1, durationMs: 1 };
  const summary = `Before step ${step}.`;
  return { v: 1, t: 'compacted', step, source: 'pre-step', summary, replaced, attempts: [], ...tokens };
}

function answered(step: number, parts: readonly AssistantPart[]): JournalEntry {
  const message = { role: 'assistant' as const, parts: [...parts] };
  const spent = { usage: zeroUsage, attempts: [], provider: 'p', model: 'm' };
  return { v: 1, t: 'model_response', step, message, finishReason: 'tool_use', ...spent };
}

function resultsOf(step: number, { parts, sensitivity }: StoryStep): JournalEntry[] {
  return toolCallsOf({ role: 'assistant', parts: [...parts] }).map(({ id: toolCallId }, index) => {
    const content = `result ${step}.${index}`;
    return {
      v: 1,
      t: 'tool_result',
      step,
      index,
      toolCallId,
      toolName: 'look',
      content,
      ...(sensitivity && { sensitivity }),
    };
  });
}

function handedOff(step: number, filter: HandoffFilter, payload: readonly Message[]): JournalEntry {
  const isCustom = JSON.stringify(filter.descriptor).includes('"custom"');
  const kept = isCustom ? { messages: [...payload] } : {};
  const digest = payloadDigest(payload);
  return { v: 1, t: 'handed_off', step, from: 'one', to: 'two', filter: filter.descriptor, ...kept, digest };
}

/** Has a turn on the thread, and answers what crossed in it. */
async function turn(threads: ThreadStore, runId: string, story: readonly StoryStep[]) {
  const ports = { threads, clock: systemClock };
  const record = aRecord({ runId, request: { agent: 'one', input: `Hello from ${runId}.`, thread } });
  const taken = await takeThread(record, { content: record.request.input }, ports);
  if (!taken || taken === 'waiting') throw new Error('the thread is not held');
  const prompt: Message = { role: 'user', content: record.request.input };
  const { state, crossed } = journalOf([...taken.past, prompt], story);
  await recordTurn(taken.thread, { status: 'failed', state, closing: '(error)', durationMs: 1 }, ports);
  await threads.leave(tenant, thread, runId);
  return crossed;
}

/** The thread as its export gives it. */
async function exported(threads: ThreadStore): Promise<string> {
  const { manifest } = await threads.context(tenant, thread);
  const { entries } = await threads.read(tenant, thread, { limit: 10_000 });
  const lines = [{ ...manifest, t: 'thread' }, ...entries.map(({ seq, entry }) => ({ ...entry, seq }))];
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}

const bytes = (payloads: readonly (readonly Message[])[]) => payloads.map((payload) => JSON.stringify(payload));
const replayedBytes = (text: string) =>
  bytes(replayHandoffs(text).map((one) => (one.kind === 'replayed' ? one.messages : [])));

const id = fc.constantFrom('a', 'b');
const part = fc.oneof(fc.string({ maxLength: 20 }).map(words), id.map(call), fc.constant(thought));
const filter = fc.oneof(
  fc.integer({ min: 1, max: 12 }).map(filters.lastN),
  fc.constantFrom(filters.lastUser(), filters.full(), filters.stripSensitiveOutputs(), filters.stripToolCalls()),
  fc.constant(filters.summary({ summaryLength: 200 })),
  fc.constant(filters.bySensitivity({ maxTier: 'internal' })),
);
const storyStep = fc.record(
  {
    parts: fc.array(part, { minLength: 1, maxLength: 4 }),
    sensitivity: fc.constantFrom<Sensitivity>('public', 'internal', 'secret'),
    summarise: fc.integer({ min: 1, max: 8 }),
    steered: fc.string({ maxLength: 10 }),
    through: filter,
  },
  { requiredKeys: ['parts'] },
);

test('what crossed in the turns of a thread is rebuilt from its export byte for byte', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(storyStep, { maxLength: 6 }), { minLength: 1, maxLength: 4 }),
      async (stories) => {
        const threads = inMemoryThreads(systemClock);
        const crossed: (readonly Message[])[] = [];
        for (const [index, story] of stories.entries()) crossed.push(...(await turn(threads, `run${index}`, story)));
        expect(replayedBytes(await exported(threads))).toEqual(bytes(crossed));
      },
    ),
    { numRuns: rounds({ fast: 40, all: 300 }) },
  );
});

test('a summary that an earlier turn has left is what the conversation begins with', async () => {
  const threads = inMemoryThreads(systemClock);
  await turn(threads, 'run1', [{ parts: [words('One.')] }, { parts: [words('Two.')], summarise: 1 }]);
  const crossed = await turn(threads, 'run2', [{ parts: [words('Three.')], through: filters.full() }]);
  expect(crossed[0]?.[0]).toMatchObject({ content: expect.stringContaining('Before step 2.') });
  expect(crossed[0]).toHaveLength(6);
  expect(replayedBytes(await exported(threads))).toEqual(bytes(crossed));
});

test('a run that is redriven after others hands over what it then knows', async () => {
  const threads = inMemoryThreads(systemClock);
  const first: StoryStep[] = [{ parts: [words('I hand over.'), call('a')], through: filters.full() }];
  const [before = []] = await turn(threads, 'again', first);
  await turn(threads, 'between', [{ parts: [words('Meanwhile.')] }]);
  const second: StoryStep[] = [...first, { parts: [words('And on.'), call('b')], through: filters.lastN(4) }];
  const [, after = []] = await turn(threads, 'again', second);
  expect(JSON.stringify(after)).toContain('And on.');
  expect(replayedBytes(await exported(threads))).toEqual(bytes([before, after]));
});

test('what a function of its own let through cannot be replayed, nor what crossed after that in the same run', async () => {
  const threads = inMemoryThreads(systemClock);
  const custom = filters.custom((messages) => messages.slice(-1));
  await turn(threads, 'run1', [
    { parts: [words('One.')], through: filters.full() },
    { parts: [words('Two.')], through: custom },
    { parts: [words('Three.')], through: filters.full() },
  ]);
  const crossed = await turn(threads, 'run2', [{ parts: [words('Four.')], through: filters.full() }]);
  const replayed = replayHandoffs(await exported(threads));
  expect(replayed).toMatchObject([
    { kind: 'replayed', runId: 'run1', fromAgentId: 'one', toAgentId: 'two' },
    { kind: 'refused', error: { code: 'validation', message: 'a custom handoff filter cannot be replayed' } },
    { kind: 'refused', error: { code: 'validation' } },
    { kind: 'replayed', runId: 'run2', messages: crossed[0] },
  ]);
  expect(replayed[1]?.descriptor).toEqual({
    kind: 'compose',
    steps: [{ kind: 'custom' }, { kind: 'strip-reasoning' }],
  });
});

test('an export in which something was changed or is missing is not taken for what crossed', async () => {
  const threads = inMemoryThreads(systemClock);
  await turn(threads, 'run1', [{ parts: [words('Order 7 is shipped.')], through: filters.full() }]);
  const text = await exported(threads);
  const refused = [{ kind: 'refused', error: { code: 'run_state_malformed' } }];
  expect(replayHandoffs(text.replace('Order 7', 'Order 8'))).toMatchObject(refused);
  expect(replayHandoffs(text.split('\n').toSpliced(1, 1).join('\n'))).toMatchObject(refused);
  const lines: unknown[] = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(replayHandoffs(lines)).toEqual(replayHandoffs(text));
});

test.each([
  ['nothing', '', 1],
  ['no JSON', 'thread', 1],
  ['another document', '{"t":"message"}', 1],
  ['a line that is cut off', '{"t":"message","seq":1', 3],
  ['an entry without a number', '{"v":1,"t":"result"}', 3],
])('%s is refused with the number of the line', async (_, line, number) => {
  const threads = inMemoryThreads(systemClock);
  await turn(threads, 'run1', [{ parts: [words('One.')], through: filters.full() }]);
  const whole = (await exported(threads)).split('\n');
  const text = number === 1 ? line : [...whole.slice(0, number - 1), line].join('\n');
  expect(() => replayHandoffs(text)).toThrow(
    expect.objectContaining({ code: 'validation', message: `line ${number} is not one of an exported thread` }),
  );
});
