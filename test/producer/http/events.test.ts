import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { expect, onTestFinished, test } from 'vitest';
import type { RunEvent } from '../../../src/shared/contract/event.ts';
import { until } from '../../support/redis.ts';
import { endRun, serverWorld, type ServerWorld } from './server-world.ts';

const ndjson = { accept: 'application/x-ndjson' };

/** An event stream that is being read; leaving it closes the connection. */
class Reader {
  readonly messages: EventSourceMessage[] = [];
  readonly comments: string[] = [];
  readonly response: Response;
  readonly ended: Promise<void>;
  readonly #leave: AbortController;

  private constructor(response: Response, leave: AbortController) {
    this.response = response;
    this.#leave = leave;
    this.ended = this.#read().catch(() => {});
  }

  static async open(world: ServerWorld, runId: string, headers: Record<string, string> = {}): Promise<Reader> {
    const leave = new AbortController();
    onTestFinished(() => leave.abort());
    return new Reader(await fetch(`${world.url}/v1/runs/${runId}/events`, { headers, signal: leave.signal }), leave);
  }

  get numbers(): number[] {
    return this.messages.map(({ id }) => Number(id));
  }

  async close(): Promise<void> {
    this.#leave.abort();
    await this.ended;
  }

  async #read(): Promise<void> {
    const parser = createParser({
      onEvent: (event) => this.messages.push(event),
      onComment: (comment) => this.comments.push(comment),
    });
    const decoder = new TextDecoder();
    for await (const chunk of this.response.body as AsyncIterable<Uint8Array>)
      parser.feed(decoder.decode(chunk, { stream: true }));
  }
}

const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, i) => first + i);

test('a run is shown from its first event to its last, and then the stream ends', async () => {
  const world = await serverWorld();
  const run = await world.start();
  const reader = await Reader.open(world, run.runId);
  expect(reader.response.status).toBe(200);
  const { headers } = reader.response;
  expect(headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  expect([headers.get('cache-control'), headers.get('x-accel-buffering')]).toEqual(['no-store', 'no']);
  await until('the first event is there', () => reader.messages.length === 1);
  await run.text(3);
  await endRun(run);
  await reader.ended;
  expect(reader.numbers).toEqual(upTo(5));
  expect(reader.messages.map(({ event }) => event)).toEqual([
    'run.queued',
    'text.delta',
    'text.delta',
    'text.delta',
    'run.completed',
  ]);
  const [first] = await world.redis.xrange(world.keys.events(run.runId), '-', '+', 'COUNT', 1);
  expect(reader.messages[0]?.data).toBe(first?.[1][1]);
});

test('a stream resumes after any number without gap or repeat', async () => {
  const world = await serverWorld();
  const run = await world.start();
  await run.text(3);
  const live = await Reader.open(world, run.runId, { 'last-event-id': '2' });
  await until('the log is read', () => live.messages.length === 2);
  await live.close();
  await run.text(2);
  const resumed = await Reader.open(world, run.runId, { 'last-event-id': String(live.numbers.at(-1)) });
  await endRun(run);
  await resumed.ended;
  expect([...live.numbers, ...resumed.numbers]).toEqual(upTo(7, 3));
  for (const after of upTo(7)) {
    const rest = await fetch(`${world.url}/v1/runs/${run.runId}/events?after=${after}`, { headers: ndjson });
    const lines = (await rest.text()).split('\n').filter((line) => line !== '');
    const numbers = lines.map((line) => (JSON.parse(line) as RunEvent).sequenceNumber);
    expect([rest.status, numbers]).toEqual([200, upTo(7, after + 1)]);
  }
});

test('the header wins over the query: a browser repeats the query of its first request', async () => {
  const world = await serverWorld();
  const run = await world.start();
  await run.text(3);
  await endRun(run);
  const answer = await world.send('GET', `/v1/runs/${run.runId}/events?after=1`, undefined, { 'last-event-id': '4' });
  expect(answer.body).toMatch(/^id: 5\n/);
  expect(answer.body.match(/^id: /gm)).toHaveLength(1);
});

test.each(['abc', '-1', '1.5', ' ', '1e3', '0x1', '99999999999999999999'])(
  'the number %s is refused',
  async (number) => {
    const { send, start } = await serverWorld();
    const { runId } = await start();
    const byHeader = await send('GET', `/v1/runs/${runId}/events`, undefined, { 'last-event-id': number });
    const byQuery = await send('GET', `/v1/runs/${runId}/events?after=${encodeURIComponent(number)}`);
    for (const answer of [byHeader, byQuery])
      expect([answer.status, answer.body.error.code]).toEqual([400, 'validation']);
  },
);

test('lines instead of server-sent events, for those who ask', async () => {
  const world = await serverWorld();
  const run = await world.start();
  await run.text(2);
  await endRun(run);
  const answer = await world.send('GET', `/v1/runs/${run.runId}/events`, undefined, ndjson);
  expect(answer.headers.get('content-type')).toBe('application/x-ndjson; charset=utf-8');
  const events = String(answer.body)
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as RunEvent);
  expect(events.map(({ sequenceNumber }) => sequenceNumber)).toEqual(upTo(4));
  const both = { accept: 'text/event-stream, application/x-ndjson;q=0.5' };
  expect(
    (await world.send('GET', `/v1/runs/${run.runId}/events`, undefined, both)).headers.get('content-type'),
  ).toContain('event-stream');
});

test('a quiet stream begins at once', async () => {
  const world = await serverWorld({ keepAliveMs: 3_600_000 });
  const run = await world.start();
  const reader = await Reader.open(world, run.runId, { 'last-event-id': '1' });
  expect([reader.response.status, reader.numbers]).toEqual([200, []]);
});

test('a quiet stream is kept open by comments, or empty lines', async () => {
  const world = await serverWorld({ keepAliveMs: 20 });
  const run = await world.start();
  const reader = await Reader.open(world, run.runId, { 'last-event-id': '1' });
  await until('two signs of life', () => reader.comments.length >= 2);
  expect(new Set(reader.comments)).toEqual(new Set(['keep-alive']));
  const lines = fetch(`${world.url}/v1/runs/${run.runId}/events?after=1`, { headers: ndjson });
  const body = (await lines).body as unknown as AsyncIterable<Uint8Array>;
  for await (const chunk of body) {
    expect(Buffer.from(chunk).toString()).toMatch(/^\n+$/);
    break;
  }
  await endRun(run);
  await reader.ended;
  expect(reader.numbers).toEqual([2]);
});

test('a run whose events are gone, or begin too late, is an error with its status', async () => {
  const { send, start, redis, keys } = await serverWorld();
  const run = await start();
  await run.text(4);
  await redis.xtrim(keys.events(run.runId), 'MINID', '4');
  const late = await send('GET', `/v1/runs/${run.runId}/events?after=1`);
  expect([late.status, late.body.error.code, late.body.error.details]).toEqual([
    410,
    'replay_truncated',
    { firstSequence: 4 },
  ]);
  expect((await send('GET', `/v1/runs/${run.runId}/result`)).status).toBe(202);
  await endRun(run);
  await redis.del(keys.events(run.runId));
  const gone = await send('GET', `/v1/runs/${run.runId}/events`);
  expect([gone.status, gone.body.error.code]).toEqual([404, 'execution_not_found']);
});

test('a stream that cannot go on says so and can be resumed', async () => {
  const world = await serverWorld({ client: { idleMs: 50 } });
  const run = await world.start();
  const reader = await Reader.open(world, run.runId);
  await until('the first event is there', () => reader.messages.length === 1);
  // The reader may look between a write and its trimming, and then it has missed nothing yet.
  await until('the reader to miss events', async () => {
    await run.text(5, { unpublished: true });
    await world.redis.xtrim(world.keys.events(run.runId), 'MAXLEN', '=', '1');
    return reader.messages.at(-1)?.event === 'error';
  });
  await reader.ended;
  const { id, data } = reader.messages.at(-1) as EventSourceMessage;
  const { error } = JSON.parse(data) as { error: { code: string; details: { firstSequence: number } } };
  expect(error.code).toBe('replay_truncated');
  expect((await world.redis.xrange(world.keys.events(run.runId), '-', '+')).length).toBe(1);
  const { firstSequence } = error.details;
  expect(firstSequence).toBeGreaterThan(reader.numbers.at(-2) ?? 0);
  expect(id).not.toBe(String(firstSequence));
});

test('a hundred readers of one run cost one subscription and all get everything', async () => {
  const world = await serverWorld();
  const run = await world.start();
  const readers = await Promise.all(upTo(100).map(() => Reader.open(world, run.runId)));
  await until('all have the first event', () => readers.every(({ messages }) => messages.length === 1));
  expect(Number((await world.redis.pubsub('NUMSUB', world.keys.live(run.runId)))[1])).toBe(1);
  expect((await world.metrics.scrape()).body).toContain('millrace_event_streams 100');
  for (let i = 0; i < 20; i++) await run.text(5);
  await endRun(run);
  await Promise.all(readers.map(({ ended }) => ended));
  for (const reader of readers) expect(reader.numbers).toEqual(upTo(102));
  await until('no stream is open', async () =>
    (await world.metrics.scrape()).body.includes('millrace_event_streams 0'),
  );
});

test('a reader that stops reading delays no other and gets everything when it goes on', async () => {
  const world = await serverWorld({ client: { eventLogMax: 100_000 } });
  const run = await world.start();
  const answering = new Promise<ServerResponse>((resolve) => {
    world.server.app.server.once('request', (_, response: ServerResponse) => resolve(response));
  });
  const socket = connect(Number(new URL(world.url).port), '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.write(`GET /v1/runs/${run.runId}/events HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  let text = '';
  socket.on('data', (chunk) => (text += chunk.toString('latin1')));
  await until('the stream has begun', () => text.includes('id: 1\n'));
  socket.pause();
  const quick = await Reader.open(world, run.runId);
  const delta = 'x'.repeat(2_000);
  for (let i = 0; i < 40; i++) {
    await run.emit(Array.from({ length: 200 }, () => ({ type: 'text.delta', delta, model: 'm' })));
  }
  await endRun(run);
  await quick.ended;
  expect(quick.numbers).toEqual(upTo(8_002));
  // 16 MB were written: had the server not waited, all that the socket does not take would be in its memory.
  expect((await answering).writableLength).toBeLessThan(200_000);
  socket.resume();
  await new Promise((resolve) => socket.once('close', resolve));
  const numbers = [...text.matchAll(/^id: (\d+)$/gm)].map(([, number]) => Number(number));
  expect(numbers).toEqual(upTo(8_002));
});

test('a reader that goes away takes its subscription along', async () => {
  const world = await serverWorld();
  const run = await world.start();
  const reader = await Reader.open(world, run.runId);
  const listeners = async () => Number((await world.redis.pubsub('NUMSUB', world.keys.live(run.runId)))[1]);
  await until('the server listens', async () => (await listeners()) === 1);
  await reader.close();
  expect(reader.numbers).toEqual([1]);
  await until('the server has stopped listening', async () => (await listeners()) === 0);
});
