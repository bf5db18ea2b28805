import { expect, test } from 'vitest';
import { z } from 'zod';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { makeJobs } from './job-world.ts';

/** An agent that calls a tool with a result of 10,000 characters ten times. */
function makeWorld(maxJournalBytes: number) {
  let calls = 0;
  const look = defineTool({
    name: 'look',
    description: 'Looks.',
    effect: 'read',
    inputSchema: z.object({}),
    execute: () => `${++calls}`.padEnd(10_000, '.'),
  });
  let steps = 0;
  const provider = createScriptedProvider(() =>
    steps++ < 10 ? { toolCalls: [{ name: 'look', args: {} }] } : { text: 'done' },
  );
  const agent = defineAgent({ id: 'writer', model: 'gpt-5.2-mini', tools: [look] });
  const jobs = makeJobs(agent, provider, 1_000, { limitCaps: { maxSteps: 20, maxJournalBytes } });
  return { jobs, calls: () => calls };
}

test('a run whose journal passes its bound fails, and keeps what it has written', async () => {
  const { jobs, calls } = makeWorld(35_000);
  const runId = jobs.submit({ input: 'Look around.' });
  expect(await jobs.deliver(runId)).toMatchObject({ kind: 'ended', status: 'failed' });
  expect(calls()).toBe(4);
  const record = await jobs.load(runId);
  expect(record).toMatchObject({ status: 'failed', error: { code: 'turn_limit' } });
  expect(record?.error?.message).toContain('JOURNAL_MAX_BYTES');
  expect(jobs.eventsOf(runId, 'run.failed')).toHaveLength(1);
});

test('a run within the bound is not stopped', async () => {
  const { jobs, calls } = makeWorld(200_000);
  const runId = jobs.submit({ input: 'Look around.' });
  expect(await jobs.deliver(runId)).toEqual({ kind: 'ended', status: 'completed' });
  expect(calls()).toBe(10);
});
