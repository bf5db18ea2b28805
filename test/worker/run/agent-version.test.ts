import { expect, test } from 'vitest';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { makeJobs } from './job-world.ts';

function makeWorld(version?: string) {
  const agent = defineAgent({ id: 'writer', model: 'gpt-5.2-mini', ...(version !== undefined && { version }) });
  return makeJobs(
    agent,
    createScriptedProvider(() => ({ text: 'done' })),
  );
}

test.each([
  ['the version that it asks for', '2', '2', 'completed'],
  ['a version, and it asks for none', '2', undefined, 'completed'],
  ['another version than it asks for', '1', '2', 'failed'],
  ['no version, and it asks for one', undefined, '2', 'failed'],
])('a run whose agent has %s ends as it should', async (_, version, agentVersion, status) => {
  const jobs = makeWorld(version);
  const runId = jobs.submit({ input: 'Write.', agentVersion });
  expect(await jobs.deliver(runId)).toMatchObject({ kind: 'ended', status });
  const record = await jobs.load(runId);
  expect(record?.error?.code).toBe(status === 'failed' ? 'validation' : undefined);
  expect(record?.error?.message ?? 'agentVersion').toContain('agentVersion');
});

test('a run that has begun goes on with another version', async () => {
  const jobs = makeWorld('1');
  const runId = jobs.submit({ input: 'Write.', agentVersion: '2' });
  const { runs } = jobs.ports;
  const event = { runId, timestamp: new Date().toISOString(), type: 'agent.start' } as const;
  const place = { segment: 0, jobTry: 1, worker: 'dead', queue: 'runs', crashLimit: 9, blameLimit: 9 };
  await runs.claim({ runId, owner: 'gone', activity: 'idle', ...place }, [event], [event]);
  expect(await jobs.deliver(runId, 2)).toEqual({ kind: 'ended', status: 'completed' });
});
