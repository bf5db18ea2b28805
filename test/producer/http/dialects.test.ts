import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { expect, test } from 'vitest';
import { createProjector, dialectNames, type DialectName } from '../../../src/shared/dialects/project.ts';
import type { EventBody, RunEvent } from '../../../src/shared/contract/event.ts';
import { all } from '../../support/http.ts';
import { until } from '../../support/redis.ts';
import { endRun, serverWorld, type ServerWorld } from './server-world.ts';

const ndjson = { accept: 'application/x-ndjson' };
const usage = { input: 3, output: 2, cached: 0, cacheWrite: 0, total: 5, byModel: {} };
const error = { code: 'provider_unavailable', message: 'the provider is away', retryable: true } as const;

const steps: readonly EventBody[] = [
  { type: 'run.started', kind: 'agent.turn', attempt: 1, model: 'm' },
  { type: 'step.start', stepNumber: 1, model: 'm', modelSource: 'agent' },
  { type: 'text.delta', delta: 'It is ', model: 'm' },
  { type: 'tool.execute.start', toolCallId: 'c', toolName: 'lookup', args: {}, summary: 'lookup()' },
  { type: 'text.delta', delta: 'sent.', model: 'm' },
];

async function failedRun(world: ServerWorld) {
  const run = await world.start();
  await run.emit(steps);
  await run.emit([{ type: 'run.failed', error, usage, costMicrocents: 700 }]);
  await run.set({ status: 'failed', lastSequence: String(run.sequence), error: JSON.stringify(error) });
  return run;
}

async function messages(world: ServerWorld, runId: string, query: string, headers: Record<string, string> = {}) {
  const response = await fetch(`${world.url}/v1/runs/${runId}/events?${query}`, { headers });
  const seen: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => seen.push(message) });
  parser.feed(await response.text());
  return seen;
}

test.each(dialectNames)(
  'a run in %s is projected to the dialect, under the numbers of its own events',
  async (dialect) => {
    const world = await serverWorld();
    const { runId } = await failedRun(world);
    const native = await all(world.mill.events(runId));
    const project = createProjector(dialect, { tenant: 'default' });
    const expected = native.flatMap((event) => project(event));
    const seen = await messages(world, runId, `dialect=${dialect}`);
    expect(seen.map(({ data }) => JSON.parse(data))).toEqual(expected);
    expect(seen.map(({ event }) => event)).toEqual(expected.map(({ type }) => type));
    expect(seen.at(-1)?.id).toBe(String(native.length));
  },
);

test.each(['afk', 'relavium', 'ndjson-chat'] as const)('a stream in %s resumes after any message', async (dialect) => {
  const world = await serverWorld();
  const { runId } = await failedRun(world);
  const whole = await messages(world, runId, `dialect=${dialect}`);
  for (const [index, { id = '' }] of whole.entries()) {
    const rest = await messages(world, runId, `dialect=${dialect}`, { 'last-event-id': id });
    // Nothing is lost. What one event became is repeated as a whole when the break was in its midst.
    const from = whole.length - rest.length;
    expect(rest).toEqual(whole.slice(from));
    expect([index, index + 1]).toContain(from);
  }
});

test('a live stream shows each event as it happens', async () => {
  const world = await serverWorld();
  const run = await world.start();
  const shown: string[] = [];
  const response = await fetch(`${world.url}/v1/runs/${run.runId}/events?dialect=afk`, { headers: ndjson });
  expect(response.headers.get('content-type')).toContain('application/x-ndjson');
  const decoder = new TextDecoder();
  const reading = (async () => {
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>)
      shown.push(...decoder.decode(chunk, { stream: true }).split('\n').filter(Boolean));
  })();
  await run.emit(steps);
  await until('the text', () => shown.at(-1)?.includes('sent.'));
  await endRun(run);
  await reading;
  const types = shown.map((line) => (JSON.parse(line) as { type: string }).type);
  expect(types).toEqual(['step_started', 'text_delta', 'tool_started', 'text_delta', 'completed']);
});

test('native is a dialect, too', async () => {
  const world = await serverWorld();
  const { runId } = await failedRun(world);
  expect(await messages(world, runId, 'dialect=native')).toEqual(await messages(world, runId, ''));
});

test('an unknown dialect is refused with the names of all', async () => {
  const { send, start } = await serverWorld();
  const { runId } = await start();
  const { status, body } = await send('GET', `/v1/runs/${runId}/events?dialect=klingon`);
  expect([status, body.error.code]).toEqual([400, 'validation']);
  for (const name of ['native', ...dialectNames]) expect(body.error.message).toContain(name);
});

test('a log whose beginning is gone can only be projected to a dialect without a state', async () => {
  const world = await serverWorld();
  const { runId } = await failedRun(world);
  await world.redis.xtrim(world.keys.events(runId), 'MINID', '3');
  const answers = await Promise.all(
    dialectNames.map(async (dialect) => {
      const { status } = await world.send('GET', `/v1/runs/${runId}/events?after=3&dialect=${dialect}`);
      return [dialect, status] as const;
    }),
  );
  expect(Object.fromEntries(answers)).toEqual({
    relavium: 410,
    callbacks: 410,
    'ndjson-chat': 410,
    'runtime-stream': 410,
    graphorin: 200,
    afk: 410,
  });
});

test('the client gives the events of a run in a dialect, also after a number', async () => {
  const world = await serverWorld();
  const { runId } = await failedRun(world);
  const whole = await all(world.mill.run(runId).events({ dialect: 'relavium' }));
  expect(whole.map(({ sequenceNumber }) => sequenceNumber)).toEqual(whole.map((_, index) => index + 1));
  expect(whole.at(-1)?.type).toBe('run:failed');
  expect(await all(world.mill.events(runId, { dialect: 'relavium', after: 4 }))).toEqual(whole.slice(2));
  expect(() => world.mill.events(runId, { dialect: 'klingon' as DialectName })).toThrow('relavium, callbacks');
  expect(() => world.mill.events(runId, { dialect: 'afk', after: -1 })).toThrow('whole number');
});

test('leaving an iteration in a dialect ends the subscription', async () => {
  const world = await serverWorld();
  const run = await world.start();
  await run.emit(steps);
  const iteration = world.mill.events(run.runId, { dialect: 'afk' })[Symbol.asyncIterator]();
  expect((await iteration.next()).value).toMatchObject({ type: 'step_started' });
  for (let i = 0; i < 3; i++) await iteration.next();
  const waiting = iteration.next();
  const listeners = async () => Number((await world.redis.pubsub('NUMSUB', world.keys.live(run.runId)))[1]);
  await until('it listens', async () => (await listeners()) === 1);
  await iteration.return?.();
  expect((await waiting).done).toBe(true);
  await until('no reader is subscribed', async () => (await listeners()) === 0);
});

test('types of a newer version are left out of a dialect', () => {
  const project = createProjector('afk', { tenant: 'default' });
  const newer = { v: 1, runId: 'r', sequenceNumber: 1, timestamp: '', type: 'run.teleported' } as unknown as RunEvent;
  expect(project(newer)).toEqual([]);
});
