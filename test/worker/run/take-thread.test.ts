import { getEventListeners } from 'node:events';
import { describe, expect, test, vi } from 'vitest';
import { RunError } from '../../../src/shared/base/errors.ts';
import type { OnBusy } from '../../../src/shared/contract/thread/thread.ts';
import { scriptedModel } from '../../../src/testing/scripted-model.ts';
import { always } from '../../../src/testing/scripts.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { makeJobs } from './job-world.ts';

function inThread() {
  const jobs = makeJobs(defineAgent({ id: 'support', model: 'gpt-5.2-mini' }), scriptedModel(always('ok')));
  return { jobs, runId: jobs.submit({ input: 'Where is order 7?', thread: 't1' }) };
}

test('a thread whose lock cannot be acquired leaves nothing of the run behind in the worker', async () => {
  const { jobs, runId } = inThread();
  const away = new RunError('queue_unavailable', 'Redis is away');
  vi.spyOn(jobs.ports.threads, 'acquire').mockRejectedValueOnce(away);
  const { signal } = new AbortController();
  await expect(jobs.deliver(runId, 1, signal)).rejects.toBe(away);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
  await jobs.deliver(runId, 2);
  expect(await jobs.load(runId)).toMatchObject({ status: 'completed', result: { text: 'ok' } });
});

test('a worker that stood still after its claim takes nothing from the one that claimed the run since', async () => {
  const { jobs, runId } = inThread();
  const { threads } = jobs.ports;
  const acquire = threads.acquire.bind(threads);
  const releaseToNext = threads.releaseToNext.bind(threads);
  const [written, taken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  vi.spyOn(threads, 'releaseToNext').mockImplementationOnce(async (...args) => {
    written.resolve();
    await taken.promise;
    return await releaseToNext(...args);
  });
  let next: Promise<unknown> | undefined;
  vi.spyOn(threads, 'acquire').mockImplementationOnce(async (claim) => {
    next = jobs.deliver(runId, 2);
    await written.promise;
    return await acquire(claim).finally(taken.resolve);
  });
  await expect(jobs.deliver(runId)).rejects.toMatchObject({ code: 'lock_lost' });
  await next;
  const { entries } = await threads.read('default', 't1', { limit: 9 });
  expect(entries.map(({ entry }) => entry.t)).toEqual(['message', 'message', 'result']);
});

describe('a delayed run whose time comes while another one holds its thread', () => {
  async function comes(onBusy: OnBusy) {
    const { jobs, runId: lockOwner } = inThread();
    await jobs.ports.threads.enter({ tenant: 'default', threadId: 't1', runId: lockOwner, agentId: 'support' });
    const runId = jobs.submit({ input: 'I meant order 8.', thread: 't1', delayMs: 1_000, onBusy });
    const outcome = await jobs.deliver(runId);
    return { jobs, lockOwner, runId, outcome };
  }

  test('waits behind it with queue', async () => {
    const { jobs, lockOwner, outcome } = await comes('queue');
    expect(outcome).toEqual({ kind: 'skipped', reason: 'waiting' });
    expect((await jobs.load(lockOwner))?.cancel).toBeUndefined();
  });

  test.each(['interrupt', 'rollback'] as const)('has it cancelled with %s, and goes next', async (onBusy) => {
    const { jobs, lockOwner, runId, outcome } = await comes(onBusy);
    expect(outcome).toEqual({ kind: 'skipped', reason: 'waiting' });
    expect((await jobs.load(lockOwner))?.cancel).toContain(`run ${runId} interrupts it`);
    await jobs.deliver(lockOwner);
    expect((await jobs.load(lockOwner))?.status).toBe('cancelled');
    expect(await jobs.deliver(runId)).toEqual({ kind: 'ended', status: 'completed' });
  });

  test('fails with reject, and does not enter the wait queue', async () => {
    const { jobs, lockOwner, runId } = await comes('reject');
    const record = await jobs.load(runId);
    expect(record).toMatchObject({ status: 'failed', error: { code: 'concurrent_run' } });
    expect(await jobs.ports.threads.get('default', 't1')).toMatchObject({ lockOwner, waiting: 0 });
  });
});
