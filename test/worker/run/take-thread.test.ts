import { getEventListeners } from 'node:events';
import { expect, test, vi } from 'vitest';
import { RunError } from '../../../src/shared/errors.ts';
import { createScriptedProvider, scripted } from '../../../src/worker/llm/scripted.ts';
import { defineAgent } from '../../../src/worker/run/define-agent.ts';
import { makeJobs } from './job-world.ts';

function inThread() {
  const jobs = makeJobs(
    defineAgent({ id: 'support', model: 'gpt-5.2-mini' }),
    createScriptedProvider(scripted.text('ok')),
  );
  return { jobs, runId: jobs.submit({ input: 'Where is order 7?', thread: 't1' }) };
}

test('a thread that cannot be taken up leaves nothing of the run behind in the worker', async () => {
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
  const passOn = threads.passOn.bind(threads);
  const [written, taken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  vi.spyOn(threads, 'passOn').mockImplementationOnce(async (...place) => {
    written.resolve();
    await taken.promise;
    return await passOn(...place);
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
