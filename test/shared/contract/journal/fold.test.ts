import { expect, test } from 'vitest';
import type { JournalEntry } from '../../../../src/shared/contract/journal/journal.ts';
import { zeroUsage } from '../../../../src/shared/contract/money.ts';
import { continueFrom, foldJournal, hasOpenCalls } from '../../../../src/shared/contract/journal/fold.ts';
import { question } from '../../../worker/turn/world.ts';

const attempt = {
  attemptNumber: 1,
  step: 1,
  provider: 'p',
  model: 'm',
  outcome: 'succeeded' as const,
  requestId: 'r',
  usage: { input: 1, output: 2, cached: 0, cacheWrite: 0, total: 3 },
  costMicrocents: 7,
  priced: true,
  latencyMs: 0,
};

function answered(step: number, ...names: string[]): JournalEntry {
  const parts = names.map((name, index) => ({
    type: 'tool_call' as const,
    id: `c${index}`,
    name,
    args: `{"n":${index}}`,
  }));
  return {
    v: 1,
    t: 'model_response',
    step,
    message: { role: 'assistant', parts: [{ type: 'text', text: `step ${step}` }, ...parts] },
    finishReason: names.length > 0 ? 'tool_use' : 'stop',
    usage: zeroUsage,
    attempts: [{ ...attempt, step }],
    provider: 'p',
    model: 'm',
  };
}

const calling = (step: number, ...indexes: number[]): JournalEntry => ({ v: 1, t: 'tool_intent', step, indexes });
const called = (step: number, index: number, more: object = {}): JournalEntry => ({
  v: 1,
  t: 'tool_result',
  step,
  index,
  toolCallId: `c${index}`,
  toolName: 'x',
  content: `result ${index}`,
  ...more,
});

test('an empty journal is the beginning', () => {
  expect(foldJournal(question, [])).toMatchObject({
    messages: question,
    step: 0,
    calls: [],
    openCalls: 0,
    finished: false,
    costMicrocents: 0,
  });
});

test('the calls of the current step stand where the journal left them', () => {
  const state = foldJournal(question, [answered(1, 'a', 'b', 'c'), calling(1, 0, 2), called(1, 2)]);
  expect(state.calls.map((call) => call.status)).toEqual(['tool_intent', 'todo', 'tool_result']);
  expect(state.openCalls).toBe(2);
  expect(hasOpenCalls(state)).toBe(true);
  expect(state.messages).toHaveLength(2);
});

test('results enter the conversation in call order once the step has all of them', () => {
  const state = foldJournal(question, [answered(1, 'a', 'b'), called(1, 1, { errorKind: 'timeout' }), called(1, 0)]);
  expect(state.messages.slice(2)).toEqual([
    { role: 'tool', toolCallId: 'c0', toolName: 'a', content: 'result 0' },
    { role: 'tool', toolCallId: 'c1', toolName: 'b', content: 'result 1', isError: true },
  ]);
});

test('a call that another worker had begun is in doubt for the next one', () => {
  const left = foldJournal(question, [answered(1, 'a', 'b'), calling(1, 0)]);
  expect(continueFrom(left).state.calls.map((call) => call.status)).toEqual(['interrupted', 'todo']);
  expect(left.calls.map((call) => call.status)).toEqual(['tool_intent', 'todo']);
});

test('continuing changes nothing in the state that was left', () => {
  const left = foldJournal(question, [answered(1, 'a')]);
  const before = structuredClone(left);
  const growing = continueFrom(left);
  for (const entry of [calling(1, 0), called(1, 0, { errorKind: 'outcome_unknown' }), answered(2)]) growing.add(entry);
  expect(left).toEqual(before);
  expect(growing.state.step).toBe(2);
});

test('the first result of a call stands', () => {
  const state = foldJournal(question, [answered(1, 'a'), called(1, 0), called(1, 0, { content: 'other' })]);
  expect(state.calls[0]?.result?.content).toBe('result 0');
  expect(state.openCalls).toBe(0);
});

test('calls with an unknown outcome are remembered over the steps', () => {
  const state = foldJournal(question, [
    answered(1, 'pay'),
    called(1, 0, { errorKind: 'outcome_unknown' }),
    answered(2),
  ]);
  expect(state.unknownCalls).toEqual([{ name: 'pay', args: '{"n":0}' }]);
});

test('calls of scripts with an unknown outcome are remembered over the steps', () => {
  const place = { v: 1, step: 1, index: 0, number: 1 } as const;
  const state = foldJournal(question, [
    answered(1, 'script'),
    { ...place, t: 'inner_tool_intent', fingerprint: 'pay' },
    { ...place, t: 'inner_tool_result', outcome: '{"ok":false}', unknown: true },
    called(1, 0),
    answered(2),
  ]);
  expect(state.unknownCalls).toEqual([{ fingerprint: 'pay' }]);
});

test('counters count calls, steps with tools, and steps with mistakes', () => {
  const mistake = { errorKind: 'invalid_input', correctable: true };
  const state = foldJournal(question, [
    answered(1, 'a', 'b'),
    called(1, 0, mistake),
    called(1, 1, mistake),
    answered(2, 'a'),
    called(2, 0),
    answered(3, 'a'),
    called(3, 0, mistake),
    answered(4),
  ]);
  expect(state.counters).toEqual({ llmCalls: 4, toolCalls: 4, toolErrors: 3, toolSteps: 3, corrections: 2 });
});

test('the rounds of correction are counted alike when a worker continues in the middle of a step', () => {
  const mistake = { errorKind: 'invalid_input', correctable: true };
  const growing = continueFrom(foldJournal(question, [answered(1, 'a', 'b'), called(1, 0, mistake)]));
  growing.add(called(1, 1, mistake));
  expect(growing.state.counters.corrections).toBe(1);
});

test('cost and usage count answers and failed attempts', () => {
  const state = foldJournal(question, [
    answered(1),
    { v: 1, t: 'attempted', step: 2, attempts: [attempt, { ...attempt, outcome: 'skipped' }] },
  ]);
  expect(state).toMatchObject({ costMicrocents: 14 + 7, usage: { total: 6, byModel: { m: { attemptCount: 2 } } } });
  expect(state.attempts).toHaveLength(3);
});

test('a closed journal is finished', () => {
  expect(foldJournal(question, [answered(1), { v: 1, t: 'closed', status: 'completed' }]).finished).toBe(true);
});

test.each([
  ['an answer while calls are open', [answered(1, 'a'), answered(2)]],
  ['an answer of a later step', [answered(2)]],
  ['a result without a call', [answered(1), called(1, 0)]],
  ['a result of another step', [answered(1, 'a'), called(2, 0)]],
  ['an intent without a call', [answered(1, 'a'), calling(1, 3)]],
])('%s makes the journal malformed', (_what, entries) => {
  expect(() => foldJournal(question, entries)).toThrow(expect.objectContaining({ code: 'run_state_malformed' }));
});

const order: JournalEntry = {
  v: 1,
  t: 'submitted',
  step: 1,
  attempts: [attempt],
  provider: 'p',
  model: 'm',
  jobId: 'job-1',
  at: '2026-01-01T00:00:00.000Z',
};
const waiting = (seq: number): JournalEntry => ({
  v: 1,
  t: 'suspended',
  seq,
  reason: 'media',
  at: '2026-01-01T00:00:10.000Z',
});
const part = { type: 'image' as const, handle: `media://sha256-${'0'.repeat(64)}`, mediaType: 'image/png', bytes: 1 };

test('a media job is paid once and counts the waits for it, until its media are the answer', () => {
  const ordered = foldJournal(question, [order, waiting(1), waiting(2)]);
  expect(ordered).toMatchObject({
    mediaJob: { jobId: 'job-1', provider: 'p', polls: 2, submittedAtMs: Date.parse('2026-01-01') },
    costMicrocents: 7,
    answer: undefined,
  });
  const done = foldJournal(question, [
    order,
    waiting(1),
    { v: 1, t: 'generated', step: 1, attempts: [], provider: 'p', model: 'm', media: [part] },
  ]);
  expect(done).toMatchObject({ mediaJob: undefined, media: [part], step: 1, costMicrocents: 7, answer: { text: '' } });
  expect(done.messages).toEqual(question);
});

test('a media job that failed is asked for no more', () => {
  expect(foldJournal(question, [order, { v: 1, t: 'attempted', step: 1, attempts: [] }]).mediaJob).toBeUndefined();
});

test('a try of its own keeps what was finished and opens the calls that it names again', () => {
  const result = (index: number, errorKind?: 'execution_failed'): JournalEntry => ({
    v: 1,
    t: 'tool_result',
    step: 1,
    index,
    toolCallId: `c${index}`,
    toolName: 'x',
    content: `result ${index}`,
    ...(errorKind && { errorKind }),
  });
  const resumeAt = '2026-01-01T00:01:00.000Z';
  const retrying: JournalEntry = { v: 1, t: 'retrying', number: 1, resumeAt, calls: [1] };
  const entries = [answered(1, 'x', 'x'), result(0), result(1, 'execution_failed')];
  const before = foldJournal(question, entries);
  const after = foldJournal(question, [...entries, retrying]);
  expect(before.messages).toHaveLength(question.length + 3);
  expect(after).toMatchObject({ retries: 1, retryAtMs: Date.parse(resumeAt), attemptsBeforeRetry: 1, openCalls: 1 });
  expect(after.messages).toHaveLength(question.length + 1);
  expect(after.calls.map(({ status }) => status)).toEqual(['tool_result', 'todo']);
  const repaired = foldJournal(question, [...entries, retrying, result(1)]);
  expect(hasOpenCalls(repaired)).toBe(false);
  expect(repaired.messages.slice(-2)).toMatchObject([{ content: 'result 0' }, { content: 'result 1' }]);
});

const at = '2026-11-01T00:00:00.000Z';
const later = '2026-11-01T00:01:00.000Z';
const asked = (...indexes: number[]): JournalEntry => ({
  v: 1,
  t: 'suspended',
  seq: 1,
  reason: 'approval',
  at,
  asks: indexes.map((index) => ({ index, id: `c${index}`, kind: 'approval', requestedAt: at, expiresAt: later })),
});
const decidedBy = (...decisions: readonly object[]): JournalEntry => ({
  v: 1,
  t: 'decided',
  at: later,
  decisions: decisions.map((decision) => ({
    kind: 'approval',
    granted: true,
    by: ['ada'],
    at: later,
    ...decision,
  })) as never,
});

test('what people were asked and what they said stands with its call', () => {
  const entries = [answered(1, 'a', 'b', 'c'), called(1, 1), asked(0, 2), decidedBy({ id: 'c2' })];
  const { calls, asked: ids, openCalls } = foldJournal(question, entries);
  expect(calls).toMatchObject([
    { status: 'todo', ask: { id: 'c0', expiresAtMs: Date.parse(later) } },
    { status: 'tool_result', endPublished: true },
    { status: 'todo', decision: { id: 'c2', granted: true } },
  ]);
  expect(calls[0]?.decision).toBeUndefined();
  expect([...ids]).toEqual(['c0', 'c2']);
  expect(openCalls).toBe(2);
});

test('a result says whose ends were published with it: its own, unless it says otherwise', () => {
  const result = (index: number, ends?: number[]) => ({ ...called(1, index), ...(ends && { ends }) }) as JournalEntry;
  const endedAfter = (...entries: readonly JournalEntry[]) =>
    foldJournal(question, [answered(1, 'a', 'b', 'c', 'd'), ...entries]).calls.map(
      ({ endPublished = false }) => endPublished,
    );
  expect(endedAfter(result(0))).toEqual([true, false, false, false]);
  expect(endedAfter(result(2, []))).toEqual([false, false, false, false]);
  expect(endedAfter(result(2, []), result(1, []), result(0, [0, 1, 2]))).toEqual([true, true, true, false]);
  expect(endedAfter(result(2, [0, 2])), 'one that was stopped has no result yet').toEqual([false, false, true, false]);
  const retrying: JournalEntry = { v: 1, t: 'retrying', number: 1, resumeAt: at, calls: [1] };
  const all = [0, 1, 2, 3].map((index) => result(index));
  expect(endedAfter(...all, retrying), 'a call that is made again ends again').toEqual([true, false, true, true]);
});

test('edited arguments take the place of the model\u2019s own, in the conversation as well', () => {
  const tokens = { sessionToken: 's', checkpointToken: 'k' };
  const answer = { ...answered(1, 'a', 'b'), ...tokens } as JournalEntry;
  const before = foldJournal(question, [answer, asked(1)]);
  expect([before.sessionToken, before.checkpointToken]).toEqual(['s', 'k']);
  const edit = decidedBy({ id: 'c1', updatedArgs: { n: 9, list: [] } });
  const { calls, messages, sessionToken, checkpointToken } = foldJournal(question, [answer, asked(1), edit]);
  expect(calls.map(({ args }) => args)).toEqual(['{"n":0}', '{"n":9,"list":[]}']);
  expect(messages.at(-1)).toMatchObject({
    parts: [{ text: 'step 1' }, { args: '{"n":0}' }, { args: '{"n":9,"list":[]}' }],
  });
  expect([sessionToken, checkpointToken]).toEqual([undefined, undefined]);
});

test('a decision about a call that has its result, or about none, changes nothing', () => {
  const entries = [answered(1, 'a', 'b'), asked(0), called(1, 0), decidedBy({ id: 'c0', granted: false }, { id: 'x' })];
  expect(foldJournal(question, entries).calls[0]).toMatchObject({
    status: 'tool_result',
    result: { content: 'result 0' },
  });
});

test('a new question takes the place of the old one and its answer', () => {
  const entries = [answered(1, 'a'), asked(0), decidedBy({ id: 'c0' }), calling(1, 0)];
  const outcome: JournalEntry = {
    v: 1,
    t: 'suspended',
    seq: 2,
    reason: 'unknown_outcome',
    at,
    asks: [{ index: 0, id: 'c0:outcome', kind: 'unknown_outcome', requestedAt: at, expiresAt: later }],
  };
  const [call] = foldJournal(question, [...entries, outcome]).calls;
  expect(call).toMatchObject({ status: 'interrupted', ask: { kind: 'unknown_outcome' } });
  expect(call?.decision).toBeUndefined();
});

test('a question about a call that the step does not have is malformed', () => {
  expect(() => foldJournal(question, [answered(1, 'a'), asked(3)])).toThrow('call 3');
});

test('found tools stay found, in order and once', () => {
  const entries = [
    answered(1, 'a', 'b'),
    called(1, 0, { promoted: ['x', 'y'] }),
    called(1, 1, { promoted: ['y', 'z'] }),
    answered(2),
  ];
  expect(foldJournal(question, entries).promoted).toEqual(['x', 'y', 'z']);
});

test('calls of a script are known by their number', () => {
  const place = { v: 1, step: 1, index: 0, number: 1 } as const;
  const entries: JournalEntry[] = [
    answered(1, 'script'),
    { ...place, t: 'inner_tool_intent', fingerprint: 'f' },
    { ...place, t: 'inner_tool_result', outcome: '{"ok":true}' },
    { ...place, number: 2, t: 'inner_tool_intent', fingerprint: 'g' },
  ];
  expect([...(foldJournal(question, entries).calls[0]?.inner ?? [])]).toEqual([
    [1, { fingerprint: 'f', outcome: '{"ok":true}' }],
    [2, { fingerprint: 'g' }],
  ]);
  expect(() => foldJournal(question, [answered(1, 's'), { ...place, t: 'inner_tool_result', outcome: '1' }])).toThrow(
    'inner_tool_result',
  );
});

test('the label of a result goes into the conversation', () => {
  const { messages } = foldJournal(question, [answered(1, 'a'), called(1, 0, { trust: 'mcp-derived' })]);
  expect(messages.at(-1)).toMatchObject({ role: 'tool', trust: 'mcp-derived' });
});

const handedOff: JournalEntry = {
  v: 1,
  t: 'handed_off',
  step: 1,
  from: 'a',
  to: 'b',
  filter: { kind: 'last-n', n: 1 },
  messages: [{ role: 'user', content: 'Go on.' }],
};

test('what the first agent began with is known after handoffs, beside what was said before them', () => {
  const state = foldJournal(question, [
    answered(1, 'look'),
    called(1, 0),
    handedOff,
    answered(2, 'look'),
    called(2, 0),
    { ...handedOff, step: 2 },
    answered(3),
  ]);
  expect(state.begun).toEqual(question);
  expect(state.initial).toMatchObject([{ role: 'user', content: 'Go on.' }]);
  expect(state.earlier.map(({ role }) => role)).toEqual(['assistant', 'tool', 'assistant', 'tool']);
  expect(continueFrom(state).state.begun).toEqual(question);
});

test('the label of a result stands beside its message', () => {
  const flow = { sources: [{ name: 'web_fetch', trust: 'web-search' as const }], sensitivity: 'internal' as const };
  const state = foldJournal(question, [answered(1, 'code_execute'), called(1, 0, { flow, trust: 'web-search' })]);
  expect(state.messages.at(-1)).toMatchObject({ role: 'tool', flow, trust: 'web-search' });
});

test('the labels of what a script has read are known to the worker that runs it again', () => {
  const place = { v: 1 as const, step: 1, index: 0, number: 1 };
  const labels = { trust: 'external' as const, sensitivity: 'secret' as const };
  const state = foldJournal(question, [
    answered(1, 'code_execute'),
    calling(1, 0),
    { ...place, t: 'inner_tool_intent', fingerprint: 'f' },
    { ...place, t: 'inner_tool_result', outcome: '{}', ...labels },
  ]);
  expect(state.calls[0]?.inner?.get(1)).toEqual({ fingerprint: 'f', outcome: '{}', ...labels });
});

test('what people were shown of the data flow, and what they have put into a call, is known', () => {
  const at = '2026-11-01T00:00:00.000Z';
  const ask = { index: 0, id: 'c0', kind: 'approval' as const, requestedAt: at, expiresAt: at, flow: true as const };
  const updatedArgs = { n: 0, to: 'bob@corp.example' };
  const decision = { kind: 'approval' as const, id: 'c0', granted: true, by: ['ada'], at, updatedArgs };
  const asked: JournalEntry[] = [
    answered(1, 'send'),
    { v: 1, t: 'suspended', seq: 1, reason: 'approval', at, asks: [ask] },
  ];
  expect(foldJournal(question, asked).calls[0]?.ask?.flow).toBe(true);
  const state = foldJournal(question, [...asked, { v: 1, t: 'decided', at, decisions: [decision] }]);
  expect(state.edits).toEqual(['bob@corp.example']);
  expect(continueFrom(state).state.edits).toEqual(['bob@corp.example']);
});

test('what was denied to a run is known from its journal, once each, with what its model knew of it', () => {
  const report = { denials: [{ agentId: 'child', kind: 'run' as const }], origins: [] };
  const end = {
    kind: 'child',
    id: 'r2',
    status: 'failed',
    text: '',
    costMicrocents: 0,
    steps: 1,
    at: 'now',
    leaks: report,
  };
  const entries: JournalEntry[] = [
    answered(1, 'a', 'b', 'c'),
    called(1, 0, { errorKind: 'approval_denied', toolName: 'pay' }),
    called(1, 1, { errorKind: 'execution_failed', toolName: 'look' }),
    called(1, 2, { denied: [{ agentId: '', kind: 'capability', toolName: 'read' }], toolName: 'code_execute' }),
    answered(2, 'a'),
    { v: 1, t: 'decided', at: '2026-11-01T00:00:00.000Z', decisions: [end as never] },
    called(2, 0, { errorKind: 'approval_denied', toolName: 'pay' }),
  ];
  const before = [
    { agentId: '', kind: 'person', toolName: 'pay' },
    { agentId: '', kind: 'capability', toolName: 'read' },
  ];
  const state = foldJournal(question, entries);
  expect(state.knownDenials).toEqual(before);
  expect(state.denials).toEqual([before[1], report.denials[0], before[0]]);
  for (let cut = 0; cut <= entries.length; cut++) {
    const growing = continueFrom(foldJournal(question, entries.slice(0, cut)));
    for (const entry of entries.slice(cut)) growing.add(entry);
    expect([growing.state.denials, growing.state.knownDenials]).toEqual([state.denials, state.knownDenials]);
  }
});
