import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunHandle } from '../../src/producer/index.ts';
import { eventsOf, type Observed } from '../support/check-run.ts';
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
    // Nobody answers before the gate opens: runs that wait for a probe show that they do.
    PROVIDER_WAIT_MS: '20000',
  },
});
/** Each worker has a queue of its own, so that a test says who runs what. */
const queues = ['east', 'west', 'hasty'] as const;
type Queue = (typeof queues)[number];

beforeAll(async () => {
  const { world } = shared;
  await Promise.all([
    world.addWorker({ WORKER_QUEUES: 'east' }),
    world.addWorker({ WORKER_QUEUES: 'west' }),
    world.addWorker({ WORKER_QUEUES: 'hasty', PROVIDER_WAIT_MS: '100' }),
  ]);
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
  const worker = shared.world.workers.find(({ output }) => output.includes(`"${queue}"`));
  const { body } = await call('GET', `${worker?.healthUrl}/metrics`);
  return new RegExp(`^millrace_breaker_state\\{[^}]*model="${model}"[^}]*\\} (\\d)`, 'm').exec(String(body))?.[1];
}

async function breakersAre(state: string, model: string): Promise<void> {
  for (const queue of queues) {
    await until(`the breaker is at ${state} in ${queue}`, async () => (await breakerOf(model, queue)) === state);
  }
}
