import { expect, test } from 'vitest';
import { RunError } from '../../../src/shared/base/errors.ts';
import type { RunRecord } from '../../../src/shared/contract/run.ts';
import { createScriptedProvider, type ModelScript } from '../../../src/worker/llm/backends/scripted.ts';
import { always } from '../../../src/testing/scripts.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { makeJobs } from './job-world.ts';

/** Runs in a thread. Their post-run jobs are noted, with the lock owner by then. */
function makeWorld(script: ModelScript, fails = false) {
  const dispatched: { readonly runId: string; readonly status: string; readonly lockOwner: string | undefined }[] = [];
  const state = { fails };
  const jobs = makeJobs(defineAgent({ id: 'support', model: 'gpt-5.2-mini' }), createScriptedProvider(script), 1_000, {
    async queuePostRunJobs({ runId, status }: RunRecord) {
      const lockOwner = (await jobs.ports.threads.get('default', 'talk').catch(() => undefined))?.lockOwner;
      if (state.fails) throw new RunError('queue_unavailable', 'redis is away');
      dispatched.push({ runId, status, lockOwner });
    },
  });
  return { ...jobs, dispatched, state };
}

test('post-run jobs are queued after the run has ended and before the lock is released', async () => {
  const world = makeWorld(always('It was sent.'));
  const runId = world.submit({ input: 'Where is order 7?', thread: 'talk' });
  await world.deliver(runId);
  expect(world.dispatched).toEqual([{ runId, status: 'completed', lockOwner: runId }]);
  expect((await world.load(runId))?.status).toBe('completed');
  expect(await world.ports.threads.get('default', 'talk')).not.toHaveProperty('lockOwner');
});

test('a worker that died right after the end of a run leaves them to the next delivery, and the answer is there', async () => {
  const world = makeWorld(always('It was sent.'), true);
  const runId = world.submit({ input: 'Where is order 7?', thread: 'talk' });
  await expect(world.deliver(runId)).rejects.toThrow('redis is away');
  expect((await world.load(runId))?.result?.text).toBe('It was sent.');
  expect(await world.ports.threads.get('default', 'talk')).toMatchObject({ lockOwner: runId });
  world.state.fails = false;
  expect(await world.deliver(runId, 2)).toEqual({ kind: 'skipped', reason: 'terminal' });
  expect(world.dispatched).toEqual([{ runId, status: 'completed', lockOwner: runId }]);
  expect(await world.ports.threads.get('default', 'talk')).not.toHaveProperty('lockOwner');
});

test('a run without a thread, one that failed, and one that was cancelled have no post-run jobs', async () => {
  const alone = makeWorld(always('It was sent.'));
  await alone.deliver(alone.submit({ input: 'Where is order 7?' }));
  const failed = makeWorld(() => ({ error: { kind: 'bad_request' } }));
  await failed.deliver(failed.submit({ input: 'Where is order 7?', thread: 'talk' }));
  const cancelled = makeWorld(always('never'));
  const runId = cancelled.submit({ input: 'Where is order 7?', thread: 'talk' });
  cancelled.ports.cancel(runId, { drain: false, onPendingApprovals: 'deny' });
  await cancelled.deliver(runId);
  expect([...alone.dispatched, ...failed.dispatched, ...cancelled.dispatched]).toEqual([]);
});
