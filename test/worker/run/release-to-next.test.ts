import { expect, test, vi } from 'vitest';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { redisRuns } from '../../../src/shared/state/run/run-store.ts';
import { redisThreads } from '../../../src/shared/state/thread/threads.ts';
import { clientWorld } from '../../producer/cli/options/client.ts';
import { makeJobs } from './job-world.ts';
import { createInMemoryPorts } from '../../../src/worker/local/stores/in-memory.ts';
import { runKeySpace } from '../../support/run-key-space.ts';

/** A run that fails at first, and one that waits behind it in its thread. Runs and threads are in Redis. */
async function makeWorld() {
  const { mill, redis, keys } = await clientWorld();
  const woken: string[] = [];
  const options = { ...runKeySpace(redis, keys), clock: systemClock, log: silentLog };
  const runs = redisRuns(options);
  const addJob = async ({ runId }: { readonly runId: string }) => void woken.push(runId);
  const threads = redisThreads({ redis, keys, cluster: false, clock: systemClock }, addJob);
  let asked = 0;
  const provider = createScriptedProvider(() =>
    asked++ === 0 ? { error: { kind: 'bad_request' } } : { text: 'It was sent.' },
  );
  const ports = { ...createInMemoryPorts({ clock: systemClock }), runs, threads };
  const jobs = makeJobs(defineAgent({ id: 'support', model: 'gpt-5.2-mini' }), provider, 1_000, { ports });
  const { runId } = await mill.enqueue({ agent: 'support', input: 'Where is order 7?', thread: 'talk' });
  const next = await mill.enqueue({ agent: 'support', input: 'And order 8?', thread: 'talk' });
  return {
    jobs,
    runs,
    threads,
    runId,
    next: next.runId,
    woken,
    /** Redrives the run on another worker, which pauses at the end of its turn until `go` is called. */
    again: async () => {
      await mill.redrive({ runId });
      const [reached, paused] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const append = threads.append.bind(threads);
      vi.spyOn(threads, 'append').mockImplementation(async (lock, op, ...rest) => {
        if (op === `${runId}:end`) {
          reached.resolve();
          await paused.promise;
        }
        return await append(lock, op, ...rest);
      });
      const outcome = jobs.deliver(runId);
      await Promise.race([reached.promise, outcome]);
      return { outcome, go: paused.resolve };
    },
    entries: async () => {
      const { entries } = await threads.read('default', 'talk', { limit: 99 });
      return entries.map(({ entry }) => (entry.t === 'result' ? entry.status : entry.t));
    },
  };
}

test('a worker that paused after the end of a run leaves the lock to the worker that redrives it', async () => {
  const { jobs, threads, runId, next, woken, again, entries } = await makeWorld();
  const [ended, slept] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const releaseToNext = threads.releaseToNext.bind(threads);
  vi.spyOn(threads, 'releaseToNext').mockImplementationOnce(async (...args) => {
    ended.resolve();
    await slept.promise;
    return await releaseToNext(...args);
  });
  const first = jobs.deliver(runId);
  await ended.promise;
  const second = await again();
  slept.resolve();
  expect(await first).toMatchObject({ kind: 'ended', status: 'failed' });
  expect([await threads.get('default', 'talk'), woken]).toMatchObject([{ lockOwner: runId, waiting: 1 }, []]);
  second.go();
  expect(await second.outcome).toEqual({ kind: 'ended', status: 'completed' });
  expect([await threads.get('default', 'talk'), woken]).toMatchObject([{ lockOwner: next, waiting: 0 }, [next]]);
  expect(await entries()).toEqual(['message', 'message', 'completed']);
});

test('a worker that finds a run ended, and redriven by then, does nothing after its end', async () => {
  const { jobs, runs, threads, runId, next, woken, again } = await makeWorld();
  vi.spyOn(threads, 'releaseToNext').mockRejectedValueOnce(new Error('the worker died'));
  await expect(jobs.deliver(runId)).rejects.toThrow('the worker died');
  const claim = runs.claim.bind(runs);
  let second: Awaited<ReturnType<typeof again>> | undefined;
  vi.spyOn(runs, 'claim').mockImplementationOnce(async (...asked) => {
    const answer = await claim(...asked);
    second = await again();
    return answer;
  });
  expect(await jobs.deliver(runId, 2)).toEqual({ kind: 'skipped', reason: 'terminal' });
  expect([await threads.get('default', 'talk'), woken]).toMatchObject([{ lockOwner: runId, waiting: 1 }, []]);
  second?.go();
  expect(await second?.outcome).toEqual({ kind: 'ended', status: 'completed' });
  expect([await threads.get('default', 'talk'), woken]).toMatchObject([{ lockOwner: next, waiting: 0 }, [next]]);
});
