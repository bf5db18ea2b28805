import { expect, test } from 'vitest';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { makeJobs } from './job-world.ts';

const agent = defineAgent({ id: 'a', model: 'm' });
const world = () =>
  makeJobs(
    agent,
    createScriptedProvider(() => ({ text: 'Done.' })),
  );

test.each(['poison', 'job_lost'] as const)(
  'a run that is abandoned for %s ends as failed, with the reason',
  async (reason) => {
    const jobs = world();
    const runId = jobs.submit({ input: 'Hi.' });
    await jobs.abandon(runId, reason);
    expect(await jobs.load(runId)).toMatchObject({
      status: 'failed',
      error: { code: 'worker_lost', details: { reason } },
    });
    expect(await jobs.deliver(runId)).toEqual({ kind: 'skipped', reason: 'terminal' });
  },
);

test('events of the end of an abandoned run belong to no delivery of its job', async () => {
  const jobs = world();
  const runId = jobs.submit({ input: 'Hi.' });
  await jobs.abandon(runId, 'job_lost');
  const [failed] = jobs.eventsOf(runId, 'run.failed');
  expect(failed?.error.code).toBe('worker_lost');
  expect(failed?.jobAttempt).toBeUndefined();
});

test('a run that has ended is not abandoned', async () => {
  const jobs = world();
  const runId = jobs.submit({ input: 'Hi.' });
  await jobs.deliver(runId);
  await jobs.abandon(runId, 'job_lost');
  expect(await jobs.load(runId)).toMatchObject({ status: 'completed' });
});
