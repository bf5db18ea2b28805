import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunHandle, RunView } from '../../src/producer/index.ts';
import { eventsOf, type Observed } from '../support/check-run.ts';
import type { WorkerChild } from '../support/fleet.ts';
import { Gates } from '../support/gates.ts';
import { call } from '../support/http.ts';
import { chat, startRawProvider, status } from '../support/raw-provider.ts';
import { until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

/** Models that answer 503, and models whose answers wait for the gate of their name. */
const down = new Set<string>();
const held = new Set<string>();
const gates = new Gates();
const provider = await startRawProvider(async (response, request) => {
  const { model } = request.body;
  if (down.has(model)) return await status(503)(response, request);
  if (held.has(model)) await gates.passed(model);
  return await chat(() => ({ text: `I am ${model}.` }))(response, request);
});

const shared = shareWorld({
  workers: 0,
  env: {
    OPENAI_BASE_URL: provider.url,
    PROVIDER_WAIT_MS: '30000',
    // Only configured models have breakers of their own.
    MODEL_ALLOWLIST: 'alone,away,falling,probed,slow',
  },
});
/** Each worker has a queue of its own, so that a test says which worker runs what. Runs of the hasty one soon release it. */
const queues = ['east', 'west', 'hasty'] as const;
type Queue = (typeof queues)[number];
const workers = new Map<Queue, WorkerChild>();

beforeAll(async () => {
  const start = async (queue: Queue, env: Record<string, string> = {}) =>
    workers.set(queue, await shared.world.addWorker({ WORKER_QUEUES: queue, ...env }));
  await Promise.all([start('east'), start('west'), start('hasty', { PROVIDER_WAIT_MS: '100' })]);
});
afterAll(async () => {
  gates.openAll();
  await provider[Symbol.asyncDispose]();
});

const submit = (agent: string, model: string, queue: Queue): Promise<RunHandle> =>
  shared.world.submit(agent, [{ text: 'unused' }], { queue, overrides: { model } });

const requestsTo = (model: string) => provider.requests.filter(({ body }) => body.model === model);
const requestsOf = ({ runId }: RunHandle) =>
  provider.requests.filter(({ headers }) => String(headers['idempotency-key']).startsWith(runId));

/** Three failures on one worker and two on the other. */
async function failFiveTimes(agent: string, model: string): Promise<Observed[]> {
  down.add(model);
  const runs: Observed[] = [];
  for (const queue of ['east', 'west', 'east', 'west', 'east'] as const) {
    expect(await breakerOf(model, 'east')).not.toBe('2');
    runs.push(await shared.world.ended(await submit(agent, model, queue)));
  }
  expect(requestsTo(model)).toHaveLength(5);
  return runs;
}

/** What a worker's metrics say of a model: 0 closed, 1 half open, 2 open; undefined while all is well. */
async function breakerOf(model: string, queue: Queue): Promise<string | undefined> {
  const { body } = await call('GET', `${workers.get(queue)?.healthUrl}/metrics`);
  return new RegExp(`^millrace_breaker_state\\{[^}]*model="${model}"[^}]*\\} (\\d)`, 'm').exec(String(body))?.[1];
}

async function breakersAre(state: string | undefined, model: string): Promise<void> {
  for (const queue of queues) {
    await until(
      `the breaker is ${state ?? 'closed'} in ${queue}`,
      async () => (await breakerOf(model, queue)) === state,
    );
  }
}

test('five failures over two workers open the breaker on both, and another model takes over unasked', async () => {
  const model = 'falling';
  for (const { view } of await failFiveTimes('fragile', model)) {
    expect(view).toMatchObject({ status: 'completed', result: { text: 'I am steady.' } });
  }
  await breakersAre('2', model);
  for (const queue of ['east', 'west'] as const) {
    const run = await submit('fragile', model, queue);
    const observed = await shared.world.ended(run);
    expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'I am steady.' } });
    expect(observed.view.attempts).toMatchObject([
      { model, outcome: 'skipped', skipReason: 'circuit_open' },
      { model: 'steady', outcome: 'succeeded' },
    ]);
    expect(eventsOf(observed, 'agent.model.fellback')).toMatchObject([{ from: model, to: 'steady' }]);
    expect(requestsOf(run).map(({ body }) => body.model)).toEqual(['steady']);
  }
  expect(requestsTo(model)).toHaveLength(5);
});

test('where there is no other model, a run behind an open breaker fails at once and may be tried again', async () => {
  const model = 'alone';
  for (const { view } of await failFiveTimes('lonely', model)) expect(view.status).toBe('failed');
  await breakersAre('2', model);
  for (const queue of ['east', 'west'] as const) {
    const run = await submit('lonely', model, queue);
    const { view } = await shared.world.ended(run);
    expect(view).toMatchObject({ status: 'failed', error: { code: 'provider_unavailable', retryable: true } });
    expect(retryAfterMs(view)).toBeGreaterThan(0);
    expect(retryAfterMs(view)).toBeLessThanOrEqual(30_000);
    expect(requestsOf(run)).toEqual([]);
  }
  expect(requestsTo(model)).toHaveLength(5);
  const { waits } = await shared.world.mill.diagnose();
  expect(waits.breakers).toContainEqual(expect.objectContaining({ target: `openai/${model}`, failures: 5 }));
});

test('after the cooldown one call of ten finds out whether the model is back, and the others wait for it', async () => {
  const model = 'probed';
  await failFiveTimes('probing', model);
  down.delete(model);
  held.add(model);
  await breakersAre('1', model);
  const runs = await Promise.all(
    Array.from({ length: 10 }, (_, i) => submit('probing', model, i % 2 === 0 ? 'east' : 'west')),
  );
  await gates.reached(model);
  for (const run of runs) await until('the run works', async () => (await run.get()).status === 'running');
  expect(requestsTo(model)).toHaveLength(5 + 1);
  gates.open(model);
  for (const run of runs) {
    const { view } = await shared.world.ended(run);
    expect(view).toMatchObject({ status: 'completed', result: { text: `I am ${model}.` } });
    expect(view.attempts).toMatchObject([{ outcome: 'succeeded' }]);
  }
  expect(requestsTo(model)).toHaveLength(5 + 10);
  await breakersAre(undefined, model);
});

test('runs that cannot wait for a probe release their worker, and go on by themselves', async () => {
  const model = 'slow';
  await failFiveTimes('probing', model);
  down.delete(model);
  held.add(model);
  await breakersAre('1', model);
  const runs = await Promise.all(Array.from({ length: 10 }, () => submit('patient', model, 'hasty')));
  // They look again from time to time, so not all of them wait at one moment.
  const waited = new Set<string>();
  await until('nine runs have waited without a worker', async () => {
    for (const { status: now, runId, pending } of await Promise.all(runs.map((run) => run.get())))
      if (now === 'suspended' && pending?.[0]?.kind === 'provider_limit') waited.add(runId);
    return waited.size === 9;
  });
  expect(requestsTo(model)).toHaveLength(5 + 1);
  gates.open(model);
  for (const run of runs) expect((await shared.world.ended(run)).view.status).toBe('completed');
  expect(requestsTo(model)).toHaveLength(5 + 10);
});

test('a run that waits for its model outlives an outage', async () => {
  const model = 'away';
  down.add(model);
  const run = await submit('patient', model, 'east');
  const pending = await until('the run waits', async () => {
    const view = await run.get();
    return view.status === 'suspended' ? view.pending : undefined;
  });
  expect(pending).toMatchObject([{ kind: 'provider_limit', id: 'openai' }]);
  const before = requestsOf(run).length;
  await until('a probe has failed as well', () => requestsOf(run).length > before);
  down.delete(model);
  const observed = await shared.world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text: `I am ${model}.` }, recoveries: 0 });
  const waits = eventsOf(observed, 'run.suspended');
  expect(waits.map(({ reason }) => reason)).toContain('provider_limit');
  expect(eventsOf(observed, 'run.resumed')).toHaveLength(waits.length);
});

function retryAfterMs({ error }: RunView): unknown {
  return (error?.details as { retryAfterMs?: unknown } | undefined)?.retryAfterMs;
}
