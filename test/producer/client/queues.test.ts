import { expect, inject, test } from 'vitest';
import { Millrace } from '../../../src/producer/client/millrace.ts';
import { parseConfig } from '../../../src/shared/contract/config.ts';
import { workerTtlMs } from '../../../src/shared/state/fleet/fleet.ts';
import { redisSupervision } from '../../../src/shared/state/run/supervision.ts';
import { serverWorld } from '../http/server-world.ts';
import { clientWorld, codeOf, request, type ClientWorld } from '../cli/options/client.ts';
import { runKeySpace } from '../../support/run-key-space.ts';

const reserved = ['maintenance', 'quarantine', 'runs-postrun', 'x-postrun'];

/** A worker as its heartbeat shows it. */
async function worker({ redis, keys }: Pick<ClientWorld, 'redis' | 'keys'>, queues: readonly string[]): Promise<void> {
  const info = {
    name: `w-${queues.join('-')}`,
    queues,
    concurrency: 1,
    active: 0,
    startedAt: '',
    version: '',
    providers: [],
    runs: [],
  };
  await redisSupervision(runKeySpace(redis, keys)).heartbeat(info);
}

/** As if the last heartbeat of all workers was so long ago. */
async function silence({ redis, keys }: ClientWorld, ageMs: number): Promise<void> {
  for (const key of [keys.workers, keys.queues])
    for (const name of await redis.zrange(key, 0, '-1')) await redis.zadd(key, Date.now() - ageMs, name);
}

test.each(reserved)('no caller can name the queue %s, whichever way the request comes', async (queue) => {
  const world = await serverWorld();
  await worker(world, ['runs', 'quarantine']);
  const refusal = { error: { code: 'validation', message: expect.stringContaining('reserved') } };
  expect(await world.send('POST', '/v1/runs', { ...request, queue })).toMatchObject({ status: 400, body: refusal });
  const bulk = await world.send('POST', '/v1/runs/bulk', [request, { ...request, queue }]);
  expect(bulk.body).toMatchObject([{ status: 'queued' }, refusal]);
  expect(await codeOf(world.mill.enqueue({ ...request, queue }))).toBe('validation');
  expect(await codeOf(world.mill.task({ adapter: 'a', input: {} }, { queue }))).toBe('validation');
  expect(await world.redis.exists(world.bull(queue, 'wait'), world.bull(queue, 'meta'))).toBe(0);
});

test('a queue that no worker has announced is refused with the names of those that exist', async () => {
  const world = await serverWorld();
  await worker(world, ['runs', 'batch', 'quarantine']);
  const { status, body } = await world.send('POST', '/v1/runs', { ...request, queue: 'made-up' });
  expect([status, body.error.code]).toEqual([400, 'unknown_queue']);
  expect(body.error.details.queues, 'those that a caller may name').toEqual(['batch', 'runs']);
  const bulk = await world.send('POST', '/v1/runs/bulk', [
    { ...request, queue: 'made-up' },
    { ...request, queue: 'batch' },
  ]);
  expect(bulk.body).toMatchObject([{ error: { code: 'unknown_queue' } }, { status: 'queued', warnings: [] }]);
  expect(await world.redis.exists(world.bull('made-up', 'meta'))).toBe(0);
});

test.each([
  ['WORKER_QUEUES', 'maintenance'],
  ['WORKER_QUEUES', 'runs,x-postrun'],
  ['WORKER_QUEUES', 'Not A Queue'],
  ['MILLRACE_QUEUES', 'runs,quarantine'],
  ['MILLRACE_QUEUES', 'maintenance'],
])('an operator who sets %s to %s learns that no runs can be there', (setting, queues) => {
  expect(() => parseConfig({ [setting]: queues })).toThrow(setting);
  expect(parseConfig({ WORKER_QUEUES: 'runs,quarantine' }).WORKER_QUEUES).toEqual(['runs', 'quarantine']);
});

test('the queue of requests that name none exists before any worker has come', async () => {
  const { mill } = await clientWorld();
  expect((await mill.enqueue(request)).warnings).toEqual([
    'no live worker serves queue runs: the run waits until one does',
  ]);
});

test('the queues that an operator lists exist without a worker, and no others do', async () => {
  const world = await clientWorld({ queues: ['night'] });
  await worker(world, ['runs']);
  const run = await world.mill.enqueue({ ...request, queue: 'night' });
  expect(run.warnings).toEqual(['no live worker serves queue night: the run waits until one does']);
  expect(await codeOf(world.mill.enqueue(request))).toBe('unknown_queue');
});

test.each([['maintenance'], ['a-postrun'], ['quarantine'], ['Not A Queue']])(
  'a client whose operator lists %s says what is wrong',
  (queue) => {
    expect(() => new Millrace({ redis: 'redis://127.0.0.1:1', queues: [queue] })).toThrow(/^queues\.0: /);
  },
);

test('a queue whose workers all restart takes runs with a warning, and without one once they are back', async () => {
  const world = await clientWorld();
  await worker(world, ['runs', 'batch']);
  expect((await world.mill.enqueue({ ...request, queue: 'batch' })).warnings).toEqual([]);
  await silence(world, workerTtlMs + 1_000);
  const later = new Millrace({ redis: inject('redisUrl'), prefix: world.prefix });
  await using _ = later;
  expect((await later.enqueue({ ...request, queue: 'batch' })).warnings).toHaveLength(1);
  await worker(world, ['runs', 'batch']);
  expect((await later.enqueue({ ...request, queue: 'batch' })).warnings).toEqual([]);
});

test('a queue that no worker serves shows in metrics, readiness and diagnosis of a producer that never used it', async () => {
  const world = await serverWorld();
  await worker(world, ['batch']);
  await world.mill.enqueue({ ...request, queue: 'batch' });
  await silence(world, workerTtlMs + 1_000);
  await worker(world, ['runs']);
  const other = await serverWorld({ client: { prefix: world.prefix } });
  const { body } = await other.send('GET', '/metrics');
  expect(body).toContain('millrace_queue_jobs{queue="batch",state="waiting"} 1\n');
  expect(body).toContain('millrace_queue_workers{queue="batch"} 0\n');
  expect(body).toContain('millrace_queue_workers{queue="runs"} 1\n');
  expect(await other.send('GET', '/readyz')).toMatchObject({ status: 200, body: { unservedQueues: ['batch'] } });
  expect((await other.mill.diagnose()).queues).toMatchObject({
    batch: { waiting: 1, workers: 0 },
    runs: { workers: 1 },
  });
});

test('fifty made-up names of queues do not reach the metrics', async () => {
  const world = await serverWorld();
  await worker(world, ['runs']);
  await world.mill.enqueueMany(Array.from({ length: 50 }, (_, i) => ({ ...request, queue: `a-${i}` })));
  const { body } = await world.send('GET', '/metrics');
  expect(body).toContain('millrace_queue_jobs{queue="runs",state="waiting"} 0\n');
  expect(body).not.toContain('queue="a-');
});
