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

/** An agent that looks twice, pays after a person granted it, and looks twice more. Its worker has these limits. */
function makePayer(limitCaps: { maxSteps: number; maxJournalBytes: number }) {
  const called: string[] = [];
  const tool = (name: string, needsApproval: boolean) =>
    defineTool({
      name,
      description: 'Does it.',
      needsApproval,
      inputSchema: z.object({}),
      execute: () => `${called.push(name)}`.padEnd(10_000, '.'),
    });
  const plan = ['look', 'look', 'pay', 'look', 'look'];
  const requests: unknown[] = [];
  const provider = createScriptedProvider((request) => {
    const name = plan[requests.push(request) - 1];
    return name === undefined ? { text: 'done' } : { toolCalls: [{ name, args: {} }] };
  });
  const tools = [tool('look', false), tool('pay', true)];
  const jobs = makeJobs(defineAgent({ id: 'payer', model: 'gpt-5.2-mini', tools }), provider, 1_000, { limitCaps });
  const granted = async () => {
    const runId = jobs.submit({ input: 'Pay.' });
    expect(await jobs.deliver(runId)).toEqual({ kind: 'suspended' });
    const [item] = (await jobs.load(runId))?.pending ?? [];
    jobs.ports.decide(runId, { approvals: [{ toolCallId: item?.id ?? '', granted: true }] });
    return runId;
  };
  return { jobs, called, requests, granted };
}

test('what earlier jobs of a run have written counts', async () => {
  const { jobs, called, granted } = makePayer({ maxSteps: 20, maxJournalBytes: 45_000 });
  const runId = await granted();
  expect(await jobs.deliver(runId)).toMatchObject({ kind: 'ended', status: 'failed' });
  expect(called).toEqual(['look', 'look', 'pay', 'look', 'look']);
  expect((await jobs.load(runId))?.error?.message).toContain('JOURNAL_MAX_BYTES');
});

test('a run whose journal is above the bound of the worker that takes it does nothing more', async () => {
  const limitCaps = { maxSteps: 20, maxJournalBytes: 45_000 };
  const { jobs, called, requests, granted } = makePayer(limitCaps);
  const runId = await granted();
  limitCaps.maxJournalBytes = 15_000;
  expect(await jobs.deliver(runId)).toMatchObject({ kind: 'ended', status: 'failed' });
  expect([called, requests.length]).toEqual([['look', 'look'], 3]);
});

test('a run within the bound is not stopped', async () => {
  const { jobs, calls } = makeWorld(200_000);
  const runId = jobs.submit({ input: 'Look around.' });
  expect(await jobs.deliver(runId)).toEqual({ kind: 'ended', status: 'completed' });
  expect(calls()).toBe(10);
});
