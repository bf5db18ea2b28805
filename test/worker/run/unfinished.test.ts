import { expect, test } from 'vitest';
import { Redactor } from '../../../src/shared/base/redact.ts';
import type { JournalEntry } from '../../../src/shared/contract/journal/journal.ts';
import { foldJournal } from '../../../src/shared/contract/journal/fold.ts';
import { childEndOf } from '../../../src/shared/state/run/children/children.ts';
import { outcomeViewOf, viewOf } from '../../../src/shared/contract/run.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { unfinishedOf } from '../../../src/worker/run/unfinished.ts';
import { ToolError } from '../../../src/worker/tools/tool-error.ts';
import { tool } from '../tools/world.ts';
import { makeJobs } from './job-world.ts';

const looks = (text: string) => ({ text, toolCalls: [{ name: 'look' }] });

function jobsWith(execute: () => unknown, more: Parameters<typeof tool>[2] = {}) {
  const look = tool('look', execute, more);
  const agent = defineAgent({ id: 'a', model: 'm', tools: [look], limits: { maxSteps: 2 } });
  return makeJobs(
    agent,
    createScriptedProvider(() => looks('I look again.')),
  );
}

test('a run that reached a limit keeps its last text and what its tools answered, for every reader', async () => {
  const jobs = jobsWith(() => 'it is blue');
  const runId = jobs.submit({ input: 'go' });
  await jobs.deliver(runId);
  const record = await jobs.load(runId);
  const unfinished = {
    text: 'I look again.',
    results: [expect.objectContaining({ toolName: 'look', content: 'it is blue' }), expect.anything()] as unknown[],
    omitted: 0,
  };
  expect(record).toMatchObject({ status: 'failed', error: { code: 'turn_limit' }, unfinished });
  if (!record) throw new Error('there is no record');
  expect(viewOf(record).unfinished).toEqual(unfinished);
  expect(outcomeViewOf(record).unfinished).toEqual(unfinished);
  expect(childEndOf(record, '2026-11-23T12:00:00.000Z')?.unfinished).toEqual(unfinished);
});

test('a run that is cancelled keeps them, too', async () => {
  const jobs = jobsWith(() => jobs.ports.cancel(runId, { drain: true, onPendingApprovals: 'deny' }));
  const runId = jobs.submit({ input: 'go' });
  await jobs.deliver(runId);
  expect(await jobs.load(runId)).toMatchObject({
    status: 'cancelled',
    unfinished: { text: 'I look again.', results: [{ toolName: 'look' }] },
  });
});

test('a run that has brought nothing has none of it', () => {
  expect(unfinishedOf(foldJournal([], []), '', new Redactor())).toBeUndefined();
});

test('credentials and secret results are not in it, and errors are marked', async () => {
  const failing = jobsWith(() => {
    throw new ToolError('execution_failed', 'no light');
  });
  const failed = failing.submit({ input: 'go' });
  await failing.deliver(failed);
  expect((await failing.load(failed))?.unfinished?.results[0]).toMatchObject({ isError: true });
  const secret = jobsWith(() => 'the code is 4711', { sensitivity: 'secret' });
  const kept = secret.submit({ input: 'go' });
  await secret.deliver(kept);
  expect((await secret.load(kept))?.unfinished?.results[0]).toMatchObject({ content: '', withheld: true });
  const state = foldJournal([], []);
  expect(unfinishedOf(state, 'the key is hunter2-secret', new Redactor(['hunter2-secret']))?.text).not.toContain(
    'hunter2',
  );
});

test('it lists the latest ten results, each bounded, and counts the others', () => {
  const calls = Array.from({ length: 12 }, (_, index) => ({
    type: 'tool_call' as const,
    id: `c${index}`,
    name: 'look',
    args: '{}',
  }));
  const state = foldJournal(
    [],
    [
      {
        v: 1,
        t: 'model_response',
        step: 1,
        finishReason: 'tool_use',
        attempts: [],
        provider: 'p',
        model: 'm',
        message: { role: 'assistant', parts: calls },
        usage: { input: 0, output: 0, cached: 0, cacheWrite: 0, total: 0 },
      },
      ...calls.map(({ id: toolCallId }, index): JournalEntry => {
        const content = `${index} `.repeat(2_000);
        return { v: 1, t: 'tool_result', step: 1, index, toolCallId, toolName: 'look', content };
      }),
    ],
  );
  const unfinished = unfinishedOf(state, '', new Redactor());
  expect(unfinished?.results.map(({ toolCallId }) => toolCallId)).toEqual(calls.slice(2).map(({ id }) => id));
  expect(unfinished?.omitted).toBe(2);
  for (const { content } of unfinished?.results ?? []) expect(Buffer.byteLength(content)).toBeLessThanOrEqual(1_024);
});
