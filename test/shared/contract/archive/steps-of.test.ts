import { expect, test } from 'vitest';
import { Redactor } from '../../../../src/shared/base/redact.ts';
import { stepsOf, type RunSource } from '../../../../src/shared/contract/archive/steps-of.ts';
import type { RunEvent } from '../../../../src/shared/contract/event.ts';
import type { JournalEntry } from '../../../../src/shared/contract/journal/journal.ts';
import { runRecord } from '../../../../src/shared/contract/run.ts';

const at = (second: number) => `2026-11-22T10:00:${String(second).padStart(2, '0')}.000Z`;
const usage = { input: 1, output: 1, cached: 0, cacheWrite: 0, total: 2 };
const runId = '01K9Z5N3T8R6V2X4B7C1D0E9FG';

const record = runRecord.parse({
  v: 1,
  runId,
  tenant: 'default',
  kind: 'agent.turn',
  status: 'failed',
  request: { agent: 'a', input: 'Do it.' },
  queue: 'runs',
  segment: 0,
  createdAt: at(0),
  updatedAt: at(9),
  startedAt: at(1),
  endedAt: at(9),
  lastSequence: 9,
  worker: 'w2',
  epoch: 1,
  crashes: 0,
  steps: 2,
  costMicrocents: 0,
  attempts: [],
  pending: [],
});

function answer(step: number, ...calls: { id: string; name: string; args: string }[]): JournalEntry {
  const parts = calls.map((call) => ({ type: 'tool_call' as const, ...call }));
  const served = { provider: 'p', model: 'm', attempts: [], usage };
  return { v: 1, t: 'model_response', step, message: { role: 'assistant', parts }, finishReason: 'stop', ...served };
}

const result = (step: number, content: string, more: object = {}): JournalEntry => ({
  v: 1,
  t: 'tool_result',
  step,
  index: 0,
  toolCallId: 'c',
  toolName: 'look',
  content,
  ...more,
});

const events = (...bodies: { type: string; [field: string]: unknown }[]): RunEvent[] =>
  bodies.map((body, i) => ({ v: 1, runId, sequenceNumber: i + 1, timestamp: at(i), ...body }) as unknown as RunEvent);

const shown = (source: Partial<RunSource>) =>
  stepsOf({ record, journal: [], events: [], children: [], ...source }, { source: 'live', redactor: new Redactor() });

test('calls of one id in several steps each keep what is theirs', () => {
  const call = (args: string) => ({ id: 'c', name: 'look', args });
  const { steps } = shown({
    journal: [answer(1, call('{"n":1}')), result(1, 'one'), answer(2, call('{"n":2}')), result(2, 'two')],
    events: events(
      { type: 'step.start', stepNumber: 1, model: 'm' },
      { type: 'tool.execute.start', toolCallId: 'c', toolName: 'look', args: {} },
      { type: 'tool.execute.end', toolCallId: 'c', toolName: 'look', durationMs: 7, outputSummary: 'one' },
      { type: 'step.end', stepNumber: 1, usage, finishReason: 'tool_use' },
      { type: 'step.start', stepNumber: 2, model: 'm' },
      { type: 'tool.execute.start', toolCallId: 'c', toolName: 'look', args: {} },
      { type: 'tool.execute.end', toolCallId: 'c', toolName: 'look', durationMs: 9, outputSummary: 'two' },
    ),
  });
  expect(steps.map(({ calls: [one] }) => [one?.args, one?.result?.content, one?.durationMs, one?.startedAt])).toEqual([
    [{ n: 1 }, 'one', 7, at(1)],
    [{ n: 2 }, 'two', 9, at(5)],
  ]);
  expect(steps.every(({ calls: [one] }) => one?.starts === undefined)).toBe(true);
});

test('a secret result is withheld, and so is the error that may quote it', () => {
  const call = { id: 'c', name: 'look', args: '{}' };
  const secret = shown({ journal: [answer(1, call), result(1, 'canary', { sensitivity: 'secret' })] });
  expect(secret.steps[0]?.calls[0]?.result).toEqual({ content: '', sensitivity: 'secret', withheld: true });
  const failed = { sensitivity: 'secret', errorKind: 'execution_failed' };
  expect(JSON.stringify(shown({ journal: [answer(1, call), result(1, 'canary', failed)] }))).not.toContain('canary');
});

test('what comes between two answers is what the second was asked', () => {
  const { steps } = shown({
    journal: [
      answer(1),
      { v: 1, t: 'steered', messages: [{ id: 's', text: 'Faster.', at: at(2) }] },
      { v: 1, t: 'repair', step: 1, problem: 'no JSON' },
      {
        v: 1,
        t: 'compacted',
        step: 2,
        source: 'auto-trigger',
        summary: 'All of it.',
        replaced: 1,
        attempts: [],
        beforeTokens: 9,
        afterTokens: 3,
        summaryTokens: 2,
        durationMs: 4,
      },
      { v: 1, t: 'closing', step: 1, reason: 'maxSteps', error: { code: 'turn_limit', message: 'enough' } },
      answer(2),
    ],
  });
  expect(steps[1]).toMatchObject({
    request: {
      added: [
        { role: 'user', content: 'Faster.', kind: 'steered' },
        { role: 'user', content: 'no JSON', kind: 'repair' },
      ],
    },
    compaction: { summary: 'All of it.', beforeTokens: 9, afterTokens: 3 },
  });
});

test('a worker that handed the run over was not lost', () => {
  const course = (lost: true | undefined) =>
    shown({
      events: events(
        { type: 'run.queued' },
        { type: 'run.started', worker: 'w1', attempt: 1 },
        { type: 'step.start', stepNumber: 1, model: 'm' },
        { type: 'run.recovered', fromCheckpoint: 0, previousWorker: 'w1', worker: 'w2', lost },
        { type: 'run.failed', error: { code: 'internal', message: '-', retryable: false } },
      ),
    }).segments.map(({ worker, end, to }) => [worker, end, to]);
  expect(course(undefined)).toEqual([
    ['w1', 'handed_over', at(2)],
    ['w2', 'ended', at(4)],
  ]);
  expect(course(true)[0]).toEqual(['w1', 'lost', at(2)]);
});

test('media and steps of an orchestration are shown, and a log without its beginning is truncated', () => {
  const handle = `media://sha256-${'0'.repeat(64)}`;
  const media = [{ type: 'image' as const, handle, mediaType: 'image/png', bytes: 3 }];
  const made = { v: 1 as const, attempts: [], provider: 'p', model: 'm' };
  const { steps, orchestration, truncated } = shown({
    journal: [
      { ...made, t: 'submitted', step: 1, jobId: 'j', at: at(2) },
      { ...made, t: 'generated', step: 1, media },
      { v: 1, t: 'orchestration_step', key: 'judge', value: { passed: true }, at: at(3), emitted: 0 },
    ],
  });
  expect(steps).toMatchObject([{ answer: { text: '', media }, mediaJob: { jobId: 'j', submittedAt: at(2) } }]);
  expect(orchestration).toEqual([{ key: 'judge', at: at(3), value: { passed: true }, costMicrocents: 0 }]);
  expect(truncated).toBe(true);
});

test('a child that begins once another one has ended keeps the call that it does', () => {
  const [first, second] = ['01K9Z5N3T8R6V2X4B7C1D0E9FA', '01K9Z5N3T8R6V2X4B7C1D0E9FB'] as const;
  const asked = (id: string, index: number) => ({
    index,
    id,
    kind: 'child' as const,
    requestedAt: at(2),
    expiresAt: at(9),
  });
  const ended = { kind: 'child', status: 'completed', text: '', costMicrocents: 0, steps: 1, at: at(3) } as const;
  const call = (id: string) => ({ id, name: 'subagent_clerk', args: '{}' });
  const { steps, children } = shown({
    journal: [
      answer(1, call('c'), call('d')),
      { v: 1, t: 'suspended', seq: 1, reason: 'child', at: at(2), asks: [asked(first, 0), asked(second, 1)] },
      { v: 1, t: 'decided', at: at(3), decisions: [{ ...ended, id: first, next: second }] },
    ],
  });
  expect(children).toMatchObject([
    { runId: first, toolCallId: 'c' },
    { runId: second, toolCallId: 'd' },
  ]);
  expect(steps[0]?.calls.map(({ childRunId }) => childRunId)).toEqual([first, second]);
});
