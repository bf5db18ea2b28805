import { expect, test } from 'vitest';
import type { RunEvent } from '../../src/producer/index.ts';
import { call, all } from '../support/http.ts';
import { OwnRedis } from '../support/own-redis.ts';
import { planInput, type PlannedStep } from '../support/plan.ts';
import { testRedis, until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';

const runs = 10;

/** Two thirds of a run with every class of tool, and a gate in the middle of its last answer. */
const planOf = (i: number): PlannedStep[] => [
  {
    calls: [
      { name: 'charge', args: { id: `c${i}` } },
      { name: 'put', args: { id: `p${i}` } },
    ],
  },
  { text: `one two three ${i}`, hold: { gate: 'last', afterPieces: 2 } },
];

test('a Redis that is killed and restarted with ten active runs loses none of them and no event', async () => {
  const redis = await OwnRedis.start();
  // Longer than Redis is away: what is asked here is what the runs do without losing their leases.
  const world = await makeWorld({ redisUrl: redis.url, workers: 2, env: { LOCK_DURATION_MS: '15000' } });
  const handles = await Promise.all(Array.from({ length: runs }, (_, i) => world.submit('hands', planOf(i))));
  const subscribed: Promise<RunEvent[]>[] = handles.map((handle) => all(handle.events()));
  await until(
    'all runs are in their last answer',
    () => new Set(world.provider.calls.flatMap(({ step, runId }) => (step === 2 ? [runId] : []))).size === runs,
  );
  const accepted = await world.submit('plain', [{ text: 'accepted just before' }]);
  await redis.kill();
  // What the workers produce meanwhile must not be lost either.
  world.provider.gates.open('last');
  await redis.start();
  await world.reachable();
  for (const [i, handle] of handles.entries()) {
    const observed = await world.ended(handle);
    expect(observed.view).toMatchObject({ status: 'completed', result: { text: `one two three ${i}` } });
    expect(observed.executions).toHaveLength(2);
    expect(await subscribed[i]).toEqual(observed.events);
  }
  expect((await world.ended(accepted)).view.status).toBe('completed');
  expect(world.fleet.output, 'every line is one of ours').not.toContain('[ioredis]');
});

test('a Redis that hangs for longer than the lease doubles no tool', async () => {
  const redis = await OwnRedis.start();
  const world = await makeWorld({ redisUrl: redis.url, workers: 2 });
  const handles = await Promise.all(
    Array.from({ length: runs }, (_, i) =>
      world.submit('hands', [{ calls: [{ name: 'charge', args: { id: `c${i}`, gate: 'hang' } }] }, { text: 'Done.' }]),
    ),
  );
  await until('all tools work', () => new Set(world.fleet.executions.map(({ runId }) => runId)).size === runs);
  process.kill(redis.pid, 'SIGSTOP');
  // The workers notice by themselves that their leases have ended, and abort their runs.
  await until(
    'the workers have aborted their runs',
    async () => {
      const pages = await Promise.all(world.workers.map(({ healthUrl }) => call('GET', `${healthUrl}/metrics`)));
      return pages.every(({ body }) => /^millrace_runs_active 0$/m.test(String(body)));
    },
    20_000,
  ).finally(() => process.kill(redis.pid, 'SIGCONT'));
  for (const handle of handles) {
    const { view, executions } = await world.ended(handle);
    expect(view.status).toBe('completed');
    expect(executions).toHaveLength(1);
  }
});

test('while Redis is full, submits get 503 and errors stay rare; afterwards everything finishes', async () => {
  const redis = await OwnRedis.start();
  const env = { LOCK_DURATION_MS: '6000', STALLED_INTERVAL_MS: '1000' };
  const world = await makeWorld({ redisUrl: redis.url, workers: 2, producer: true, env });
  const handles = await Promise.all(Array.from({ length: runs }, (_, i) => world.submit('hands', planOf(i))));
  await until(
    'all runs are in their last answer',
    () => new Set(world.provider.calls.flatMap(({ step, runId }) => (step === 2 ? [runId] : []))).size === runs,
  );
  const admin = await testRedis('work', redis.url);
  const loud = () =>
    world.workers.map((worker) => worker.logLines(({ level }) => level === 'warn' || level === 'error').length);
  const fails = () => world.workers.map((worker) => worker.logLines(({ msg }) => msg === 'queue error').length);
  const before = loud();
  const failedBefore = fails();
  const began = performance.now();
  await admin.config('SET', 'maxmemory', '1');
  world.provider.gates.open('last');
  const body = { agent: 'plain', input: planInput({ text: 'x' }) };
  for (let i = 0; i < 5; i++) {
    const answer = await call('POST', `${world.url}/v1/runs`, body);
    // A write was refused, or by now the producer knows how full Redis is.
    expect([answer.status, answer.body.error.code]).toEqual([503, expect.stringMatching(/^queue_(unavailable|full)$/)]);
  }
  // Long enough for every lease to end and every fetch loop to fail several times.
  const failed = () => fails().map((times, i) => times - (failedBefore[i] ?? 0));
  await until('both fetch loops have failed', () => failed().every((times) => times >= 4));
  const seconds = (performance.now() - began) / 1_000;
  await admin.config('SET', 'maxmemory', '0');
  // About one a second from the fetch loop; a handful for every run that could not write.
  for (const [i, lines] of loud().entries()) expect(lines - (before[i] ?? 0)).toBeLessThan(2 * seconds + 6 * runs);
  for (const times of failed()) expect(times).toBeLessThan(1.5 * seconds + 2);
  for (const handle of handles) {
    const { view, executions } = await world.ended(handle);
    expect(view.status).toBe('completed');
    expect(executions.filter(({ tool }) => tool === 'charge')).toHaveLength(1);
  }
  const { runs: listed } = await world.mill.list({ limit: 100 });
  expect(listed).toHaveLength(runs);
  const after = await call('POST', `${world.url}/v1/runs`, body);
  expect((await world.ended(after.body)).view.status).toBe('completed');
});
