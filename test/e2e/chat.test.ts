import { expect, onTestFinished, test } from 'vitest';
import { linesOf, readAll, shownText, typesOf, type Line } from '../producer/chat/support.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { bodyOf, call } from '../support/http.ts';
import { planInput, type PlannedStep } from '../support/plan.ts';
import { startRedisProxy } from '../support/redis-proxy.ts';
import { testRedis, until } from '../support/redis.ts';
import { makeWorld, shareWorld } from '../support/world.ts';

// One event per delta, so that there is a middle to be killed in.
const shared = shareWorld({ producer: true, env: { STREAM_FLUSH_MS: '0' } });
const answer = 'one two three four five six seven eight';

function turn(sessionId: string, ...steps: PlannedStep[]) {
  return { agent: 'plain', message: planInput(...steps), sessionId, turnIndex: 0 };
}

/** Sends a turn and answers when the stream has begun. */
async function post(url: string, body?: object, headers: Record<string, string> = {}, query = '') {
  const leave = new AbortController();
  onTestFinished(() => leave.abort());
  const response = await fetch(`${url}/v1/chat/turns${query}`, {
    method: 'POST',
    signal: leave.signal,
    headers: { ...(body && { 'content-type': 'application/json' }), ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });
  return {
    status: response.status,
    runId: response.headers.get('x-run-id') ?? '',
    executionId: response.headers.get('x-execution-id') ?? '',
    body: bodyOf(response),
  };
}

/** Reads until the connection breaks or the stream ends; says how. */
async function readWhatComes(body: ReadableStream<Uint8Array>, lines: Line[]): Promise<'ended' | 'broke'> {
  try {
    for await (const line of linesOf(body)) lines.push(line);
    return 'ended';
  } catch {
    return 'broke';
  }
}

const deltasIn = (lines: readonly Line[]) => lines.filter(({ data }) => data?.delta !== undefined).length;

test('a producer is killed in the middle of an answer, and another one sends the rest of it', async () => {
  const { world } = shared;
  const doomed = await world.fleet.startProducer();
  const gate = 'killed-producer';
  const first = await post(doomed.url, turn('killed', { text: answer, hold: { gate, afterPieces: 4 } }));
  const lines: Line[] = [];
  const reading = readWhatComes(first.body, lines);
  await until('half of the answer', () => deltasIn(lines) === 4);
  await doomed.child.kill();
  expect(await reading).toBe('broke');

  const headers = { 'x-execution-id': first.executionId };
  const rest = await post(world.url, undefined, headers, `?after=${lines.at(-1)?.seq}`);
  expect(rest.runId).toBe(first.runId);
  world.provider.gates.open(gate);
  lines.push(...(await readAll(rest.body)));
  const deltas = lines.flatMap(({ data }) => (data?.delta === undefined ? [] : [data.delta as string]));
  expect(deltas.join('')).toBe(answer);
  expect(lines.filter(({ type }) => type === 'session.run.started')).toHaveLength(1);
  expect(lines.at(-1)?.type).toBe('session.run.completed');
  const { view } = await world.ended(first);
  expect(view.result?.text).toBe(answer);
  expect(world.provider.callsOf(first.runId)).toHaveLength(1);
});

test('another producer sends the whole to a client that has nothing', async () => {
  const { world } = shared;
  const doomed = await world.fleet.startProducer();
  const gate = 'killed-producer-whole';
  const body = turn('killed-whole', { text: answer, hold: { gate, afterPieces: 4 } });
  const first = await post(doomed.url, body);
  await world.provider.gates.reached(gate);
  await doomed.child.kill();
  await first.body.cancel().catch(() => {});
  const second = await post(world.url, body, { 'x-execution-id': first.executionId });
  world.provider.gates.open(gate);
  const lines = await readAll(second.body);
  expect([second.runId, shownText(lines), lines[0]?.type]).toEqual([first.runId, answer, 'session.run.started']);
  expect(world.provider.callsOf(first.runId)).toHaveLength(1);
});

test('a producer that loses its connections to Redis sends everything once', async () => {
  const { world } = shared;
  const proxy = await startRedisProxy(world.fleet.redisUrl);
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const { url } = await world.fleet.startProducer({ REDIS_URL: proxy.url });
  const gate = 'cut-connections';
  const first = await post(url, turn('cut', { text: answer, hold: { gate, afterPieces: 4 } }));
  const lines: Line[] = [];
  const reading = readWhatComes(first.body, lines);
  await until('half of the answer', () => deltasIn(lines) === 4);
  proxy.cut();
  world.provider.gates.open(gate);
  expect(await reading).toBe('ended');
  expect([deltasIn(lines), shownText(lines), lines.at(-1)?.type]).toEqual([8, answer, 'session.run.completed']);
});

test('fifty identical turns at once over two producers are one run and one model call', async () => {
  const { world } = shared;
  const { url } = await world.fleet.startProducer();
  const body = turn('fifty', { text: answer });
  const answers = await Promise.all(
    Array.from({ length: 50 }, async (_, index) => await post(index % 2 ? url : world.url, body)),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  const [runId = '', ...others] = new Set(answers.map((one) => one.runId));
  expect(others).toEqual([]);
  for (const { body: stream } of answers) {
    const lines = await readAll(stream);
    expect([shownText(lines), lines.at(-1)?.type]).toEqual([answer, 'session.run.completed']);
  }
  expect(world.provider.callsOf(runId)).toHaveLength(1);
  expect(await Array.fromAsync(world.mill.events(runId))).toContainEqual(
    expect.objectContaining({ type: 'run.queued', kind: 'chat.turn' }),
  );
  const other = await call('POST', `${world.url}/v1/chat/turns`, { ...body, message: planInput({ text: 'Other.' }) });
  expect([other.status, other.body.error.code]).toEqual([409, 'idempotency_conflict']);
});

test('a client goes away, the run goes on, and its answer is there', async () => {
  const { world } = shared;
  const gate = 'gone-client';
  const body = turn('gone', { text: answer, hold: { gate, afterPieces: 2 } });
  const first = await post(world.url, body);
  await world.provider.gates.reached(gate);
  await first.body.cancel();
  world.provider.gates.open(gate);
  expect((await world.ended(first)).view.status).toBe('completed');
  const lines = await readAll((await post(world.url, body)).body);
  expect(shownText(lines)).toBe(answer);
  expect([lines[0]?.data.replayed, lines.at(-1)?.data.replayed]).toEqual([true, true]);
  expect(world.provider.callsOf(first.runId)).toHaveLength(1);
});

test('a worker is killed in the middle of an answer, and what a client shows at the end is right', async () => {
  const world = await makeWorld({ producer: true, env: { STREAM_FLUSH_MS: '0' } });
  const gate = 'killed-worker';
  const first = await post(world.url, turn('worker', { text: answer, hold: { gate, afterPieces: 4 } }));
  const lines: Line[] = [];
  const reading = readWhatComes(first.body, lines);
  await until('half of the answer', () => deltasIn(lines) === 4);
  await world.worker.kill();
  world.provider.gates.open(gate);
  await world.addWorker();
  expect(await reading).toBe('ended');
  expect(shownText(lines)).toBe(answer);
  expect(lines.at(-1)?.type).toBe('session.run.completed');
  expect(deltasIn(lines)).toBeGreaterThan(8);
});

test('after the time of its events a turn is streamed from its result, without another model call', async () => {
  const world = await makeWorld({ producer: true, env: { EVENT_LOG_TTL_S: '1' } });
  const body = turn('expired', { text: answer });
  const { runId, body: stream } = await post(world.url, body);
  await readAll(stream);
  const redis = await testRedis('work', world.fleet.redisUrl);
  const log = keysFor(world.fleet.prefix).events(runId);
  await until('the events are gone', async () => (await redis.exists(log)) === 0);
  const lines = await readAll((await post(world.url, undefined, { 'x-execution-id': 'default:expired:0' })).body);
  expect(typesOf(lines)).toEqual(['session.run.started', 'message.part.updated', 'result', 'session.run.completed']);
  expect([shownText(lines), lines[0]?.data.replayed]).toEqual([answer, true]);
  expect(shownText(await readAll((await post(world.url, body)).body))).toBe(answer);
  expect(world.provider.callsOf(runId)).toHaveLength(1);
});

test('a draining producer ends its streams without an end of the turn, so that they are resumed', async () => {
  const { world } = shared;
  const draining = await world.fleet.startProducer();
  const gate = 'draining-producer';
  const first = await post(draining.url, turn('draining', { text: answer, hold: { gate, afterPieces: 3 } }));
  const lines: Line[] = [];
  const reading = readWhatComes(first.body, lines);
  await until('a part of the answer', () => deltasIn(lines) === 3);
  draining.child.signal('SIGTERM');
  expect(await reading).toBe('ended');
  expect(lines.at(-1)?.type).toBe('message.part.updated');
  const rest = await post(world.url, undefined, { 'x-execution-id': first.executionId }, `?after=${lines.at(-1)?.seq}`);
  world.provider.gates.open(gate);
  lines.push(...(await readAll(rest.body)));
  expect([shownText(lines), lines.at(-1)?.type]).toEqual([answer, 'session.run.completed']);
});
