import { createHash } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import type { EventBody } from '../../../src/shared/contract/event.ts';
import { until } from '../../support/redis.ts';
import { asked, linesOf, readAll, shownText, typesOf, type Line } from '../chat/support.ts';
import { RunWriter } from '../support/run-writer.ts';
import { serverWorld, type ServerWorld } from './server-world.ts';

const usage = { input: 3, output: 2, cached: 0, cacheWrite: 0, total: 5, byModel: {} };
const story: readonly EventBody[] = [
  { type: 'run.started', kind: 'agent.turn', attempt: 1, model: 'm' },
  { type: 'step.start', stepNumber: 1, model: 'm', modelSource: 'agent' },
  { type: 'text.delta', delta: 'It is ', model: 'm' },
  { type: 'tool.execute.start', toolCallId: 'c', toolName: 'lookup', args: {}, summary: 'lookup()' },
  { type: 'text.delta', delta: 'on its ', model: 'm' },
  { type: 'text.delta', delta: 'way.', model: 'm' },
];
const types = [
  'session.run.started',
  'control_step',
  'message.part.updated',
  'tool_call',
  'message.part.updated',
  'message.part.updated',
  'result',
  'session.run.completed',
];

/** Sends a turn and answers when the stream has begun. Unread bodies are cancelled at the end of the test. */
async function post(
  { url }: ServerWorld,
  body?: object,
  headers: Record<string, string> = {},
  query = '',
): Promise<Response> {
  const leave = new AbortController();
  onTestFinished(() => leave.abort());
  return await fetch(`${url}/v1/chat/turns${query}`, {
    method: 'POST',
    signal: leave.signal,
    headers: { ...(body && { 'content-type': 'application/json' }), ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });
}

async function lines(answer: Promise<Response>): Promise<Line[]> {
  return await readAll((await answer).body as ReadableStream<Uint8Array>);
}

/** The run that a turn has become, ready to be written to. */
function writerOf({ redis, keys }: ServerWorld, answer: Response): RunWriter {
  return new RunWriter(redis, keys, answer.headers.get('x-run-id') ?? '', 2);
}

async function end(run: RunWriter): Promise<void> {
  await run.emit(
    [
      {
        type: 'run.completed',
        status: 'completed',
        result: { text: 'It is on its way.' },
        usage,
        costMicrocents: 700,
        durationMs: 5,
        steps: 1,
      },
    ],
    {
      fields: {
        status: 'completed',
        lastSequence: String(run.sequence + 1),
        endedAt: new Date().toISOString(),
        result: '{"text":"It is on its way."}',
      },
    },
  );
}

/** A turn that has ended, and all its lines. */
async function finishedTurn(world: ServerWorld, body: object = asked) {
  const answer = await post(world, body);
  const run = writerOf(world, answer);
  await run.emit(story);
  await end(run);
  return { run, turnLines: await readAll(answer.body as ReadableStream<Uint8Array>) };
}

test('a turn is streamed from its start, which names everything, to its end', async () => {
  const world = await serverWorld();
  const answer = await post(world, { ...asked, userId: 'kim@example.com', metadata: { shop: '7' } });
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
  const runId = answer.headers.get('x-run-id') ?? '';
  expect(answer.headers.get('x-execution-id')).toBe('default:s-1:3');
  const reader = linesOf(answer.body as ReadableStream<Uint8Array>);
  const ids = { sessionId: 's-1', tenantId: 'default', turnIndex: 3 };
  expect((await reader.next()).value).toEqual({
    type: 'session.run.started',
    seq: 0,
    data: { ...ids, runId, executionId: 'default:s-1:3' },
  });
  const run = writerOf(world, answer);
  await run.emit(story);
  await end(run);
  const rest = await Array.fromAsync(reader);
  expect(typesOf(rest)).toEqual(types.slice(1));
  expect(rest.map(({ seq }) => seq)).toEqual([4, 5, 6, 7, 8, 8, 9]);
  expect(shownText(rest)).toBe('It is on its way.');
  const view = await world.mill.get(runId);
  expect([view.thread, view.executionId, view.metadata]).toEqual(['s-1', 'default:s-1:3', { shop: '7' }]);
  const { chat, sessionId } = JSON.parse((await world.redis.hget(world.keys.run(runId), 'request')) ?? '');
  expect([chat, sessionId]).toEqual([{ turnIndex: 3, userId: 'kim@example.com' }, 's-1']);
});

test.each([
  [{ projectId: 'p' }, {}, 'p:s-1:3'],
  [{ projectId: 'a:b' }, {}, 'a::3ab:s-1:3'],
  [{ projectId: 'p' }, { 'x-execution-id': 'mine' }, 'mine'],
])('the turn %j with the headers %j goes by %s', async (more, headers, id) => {
  const world = await serverWorld();
  const answer = await post(world, { ...asked, ...more }, headers);
  expect(answer.headers.get('x-execution-id')).toBe(id);
});

test('two projects with one session id have two threads', async () => {
  const world = await serverWorld();
  const threadOf = async (more: object) => {
    const runId = (await post(world, { ...asked, ...more })).headers.get('x-run-id') ?? '';
    return (await world.mill.get(runId)).thread;
  };
  const threads = [
    await threadOf({ sessionId: 's-1' }),
    await threadOf({ sessionId: 's-1', projectId: 'shop' }),
    await threadOf({ sessionId: 's-1', projectId: 'store' }),
    await threadOf({ sessionId: 'shop:s-1' }),
    await threadOf({ sessionId: 's-1:store' }),
    await threadOf({ sessionId: 's-1', projectId: 's'.repeat(128) }),
    await threadOf({ sessionId: 's-2', projectId: 's'.repeat(128) }),
  ];
  expect(threads.slice(0, 3)).toEqual(['s-1', 'shop:s-1', 'store:s-1']);
  expect(new Set(threads).size).toBe(threads.length);
  expect(await threadOf({ sessionId: 's-1', projectId: 'default', turnIndex: 9 })).toBe('s-1');
});

test('the session is the thread unless there is another', async () => {
  const world = await serverWorld();
  const runId = (await post(world, { ...asked, thread: 't-9' })).headers.get('x-run-id') ?? '';
  expect((await world.mill.get(runId)).thread).toBe('t-9');
});

test('a stream resumes after any line, in another process, with the execution id alone or with the body', async () => {
  const world = await serverWorld();
  const { turnLines } = await finishedTurn(world);
  const second = await serverWorld({ client: { prefix: world.prefix } });
  const header = { 'x-execution-id': 'default:s-1:3' };
  for (const [index, { seq = 0 }] of turnLines.entries()) {
    for (const again of [
      await lines(post(second, undefined, header, `?after=${seq}`)),
      await lines(post(second, asked, { 'last-event-id': String(seq) })),
    ]) {
      const marked = turnLines.map((line) =>
        line.type.startsWith('session.run.') ? { ...line, data: { ...line.data, replayed: true } } : line,
      );
      // Nothing is lost. Only lines that one event became together may come again, and none of them is text.
      const from = marked.length - again.length;
      expect(again).toEqual(marked.slice(from));
      expect(index === 0 ? [0] : [index, index + 1]).toContain(from);
      expect(shownText(turnLines.slice(0, index + 1)) + (index === 0 ? '' : shownText(again))).toBe(
        index === 0 ? '' : 'It is on its way.',
      );
    }
  }
});

test('a turn on its way is picked up from where it is', async () => {
  const world = await serverWorld();
  const answer = await post(world, asked);
  const run = writerOf(world, answer);
  await run.emit(story.slice(0, 3));
  const seen: Line[] = [];
  for await (const line of linesOf(answer.body as ReadableStream<Uint8Array>)) {
    seen.push(line);
    if (line.type === 'message.part.updated') break;
  }
  const rest = lines(post(world, undefined, { 'x-execution-id': 'default:s-1:3' }, `?after=${seen.at(-1)?.seq}`));
  await run.emit(story.slice(3));
  await end(run);
  expect(shownText([...seen, ...(await rest)])).toBe('It is on its way.');
  expect(typesOf([...seen, ...(await rest)])).toEqual(types);
});

test('a client that goes away does not end the run', async () => {
  const world = await serverWorld();
  const answer = await post(world, asked);
  await answer.body?.cancel();
  const run = writerOf(world, answer);
  const listeners = async () => Number((await world.redis.pubsub('NUMSUB', world.keys.live(run.runId)))[1]);
  await until('the server has stopped listening', async () => (await listeners()) === 0);
  expect(await world.mill.get(run.runId)).toMatchObject({ status: 'queued', cancelling: false });
  await run.emit(story);
  await end(run);
  expect(shownText(await lines(post(world, asked)))).toBe('It is on its way.');
});

test('a turn that has ended is replayed, marked, and stays one run', async () => {
  const world = await serverWorld();
  const { run, turnLines } = await finishedTurn(world);
  const again = await post(world, asked);
  expect(again.headers.get('x-run-id')).toBe(run.runId);
  const replay = await readAll(again.body as ReadableStream<Uint8Array>);
  expect(typesOf(replay)).toEqual(typesOf(turnLines));
  expect([replay[0]?.data.replayed, replay.at(-1)?.data.replayed]).toEqual([true, true]);
  expect((await world.mill.list()).runs).toHaveLength(1);
});

test('fifty identical turns at once are one run, and all get the same', async () => {
  const world = await serverWorld();
  const answers = await Promise.all(Array.from({ length: 50 }, () => post(world, asked)));
  const ids = new Set(answers.map(({ headers }) => headers.get('x-run-id')));
  expect([answers.filter(({ status }) => status === 200).length, ids.size]).toEqual([50, 1]);
  const run = writerOf(world, answers[0] as Response);
  await run.emit(story);
  await end(run);
  for (const answer of answers) {
    const turnLines = await readAll(answer.body as ReadableStream<Uint8Array>);
    expect([typesOf(turnLines), shownText(turnLines)]).toEqual([types, 'It is on its way.']);
  }
  expect((await world.mill.list()).runs).toHaveLength(1);
});

test('another message under the same id is a conflict, answered before any line', async () => {
  const world = await serverWorld();
  await post(world, asked);
  for (const other of [{ message: 'And order 8?' }, { userId: 'alex' }, { thread: 't' }]) {
    const { status, body } = await world.send('POST', '/v1/chat/turns', { ...asked, ...other });
    expect([status, body.error.code]).toEqual([409, 'idempotency_conflict']);
  }
});

test('when the events are gone, the stored result is replayed, wherever a client resumes', async () => {
  const world = await serverWorld();
  const { run } = await finishedTurn(world);
  await world.redis.del(world.keys.events(run.runId));
  for (const after of [0, 5, 1_000]) {
    for (const body of [asked, undefined]) {
      const turnLines = await lines(post(world, body, { 'x-execution-id': 'default:s-1:3' }, `?after=${after}`));
      expect(typesOf(turnLines)).toEqual([types[0], 'message.part.updated', 'result', types.at(-1)]);
      expect(turnLines.map(({ seq }) => seq)).toEqual([0, 8, 8, 9]);
      expect([turnLines[0]?.data.replayed, turnLines.at(-1)?.data]).toEqual([
        true,
        { sessionId: 's-1', replayed: true },
      ]);
      expect(turnLines[0]?.data).toMatchObject({ turnIndex: 3, runId: run.runId });
      expect(shownText(turnLines)).toBe('It is on its way.');
    }
  }
});

test.each([
  [
    'failed',
    { error: '{"code":"provider_unavailable","message":"the provider is away","retryable":true}' },
    'the provider is away',
  ],
  ['cancelled', {}, 'cancelled'],
])('a turn that %s says so, also when its events are gone', async (status, fields, message) => {
  const world = await serverWorld();
  const answer = await post(world, asked);
  const run = writerOf(world, answer);
  await run.set({ status, lastSequence: '9', endedAt: new Date().toISOString(), ...fields });
  await world.redis.del(world.keys.events(run.runId));
  const turnLines = await lines(post(world, asked));
  expect(typesOf(turnLines).at(-1)).toBe('session.run.failed');
  expect(turnLines.at(-1)?.data).toEqual({ sessionId: 's-1', message, replayed: true });
});

test('while a turn goes on whose first events are gone, it cannot be replayed', async () => {
  const world = await serverWorld();
  const run = writerOf(world, await post(world, asked));
  await run.emit(story);
  await world.redis.xtrim(world.keys.events(run.runId), 'MINID', '5');
  const { status, body } = await world.send('POST', '/v1/chat/turns', asked);
  expect([status, body.error.code]).toEqual([410, 'replay_truncated']);
});

test('an unknown turn is not found, and a new run with a body', async () => {
  const world = await serverWorld();
  const { run } = await finishedTurn(world);
  await world.redis.del(world.keys.run(run.runId), world.keys.events(run.runId));
  const gone = await world.send('POST', '/v1/chat/turns', undefined, { 'x-execution-id': 'default:s-1:3' });
  expect([gone.status, gone.body.error.code]).toEqual([404, 'execution_not_found']);
  // The number is that of the run before: it must not hide the beginning of this one.
  const answer = await post(world, asked, {}, '?after=900');
  expect(answer.headers.get('x-run-id')).toBe(run.runId);
  const fresh = writerOf(world, answer);
  await fresh.emit(story);
  await end(fresh);
  expect(typesOf(await readAll(answer.body as ReadableStream<Uint8Array>))).toEqual(types);
  // A client that comes later with such a number gets the result, because the number cannot be of this run.
  const late = await lines(post(world, asked, {}, '?after=900'));
  expect([typesOf(late)[0], shownText(late), late[0]?.data.replayed]).toEqual([types[0], 'It is on its way.', true]);
});

test('a run that was submitted otherwise is streamed as well', async () => {
  const world = await serverWorld();
  const { body } = await world.send('POST', '/v1/runs', { agent: 'support', input: 'Hello', executionId: 'mail-7' });
  const answer = await post(world, undefined, { 'x-execution-id': 'mail-7' });
  const reader = linesOf(answer.body as ReadableStream<Uint8Array>);
  const ids = { sessionId: body.runId, tenantId: 'default', runId: body.runId, executionId: 'mail-7' };
  expect((await reader.next()).value).toEqual({ type: 'session.run.started', seq: 0, data: ids });
});

test('a quiet turn is kept open by lines that are JSON', async () => {
  const world = await serverWorld({ keepAliveMs: 20 });
  const reader = linesOf((await post(world, asked)).body as ReadableStream<Uint8Array>);
  expect((await reader.next()).value?.type).toBe('session.run.started');
  for (let beat = 0; beat < 2; beat++) expect((await reader.next()).value).toEqual({ type: 'heartbeat' });
});

test('a stream that cannot go on says so without an end, and is to be resumed', async () => {
  const world = await serverWorld({ client: { idleMs: 50 } });
  const answer = await post(world, asked);
  const run = writerOf(world, answer);
  const reader = linesOf(answer.body as ReadableStream<Uint8Array>);
  await reader.next();
  await run.emit(story, { unpublished: true });
  await world.redis.xtrim(world.keys.events(run.runId), 'MINID', '7');
  const [line] = await Array.fromAsync(reader);
  expect(line).toMatchObject({ type: 'error', data: { code: 'replay_truncated' } });
  expect(line?.seq).toBeUndefined();
});

test('every problem of a body is named at once', async () => {
  const { send } = await serverWorld();
  const wrong = { agent: 'a b', message: 7, sessionId: '', turnIndex: -1, projectId: 'ä', input: 'x' };
  const { status, body } = await send('POST', '/v1/chat/turns', wrong);
  expect([status, body.error.code]).toEqual([400, 'validation']);
  const paths = body.error.details.map(({ path }: { readonly path: string }) => path);
  expect(new Set(paths)).toEqual(new Set(['agent', 'message', 'sessionId', 'turnIndex', 'projectId', 'input']));
});

test.each<[string, unknown, Record<string, string>, number, string]>([
  ['nothing at all', undefined, {}, 400, 'invalid_json'],
  ['an id of a wrong form', asked, { 'x-execution-id': 'a b' }, 400, 'invalid_id'],
  ['an id of a wrong form and no body', undefined, { 'x-execution-id': 'a/b' }, 400, 'invalid_id'],
  ['an unknown id', undefined, { 'x-execution-id': 'no-one' }, 404, 'execution_not_found'],
  ['a session of a wrong form', { ...asked, sessionId: 'a b' }, {}, 400, 'invalid_id'],
  ['a message that is too large', { ...asked, message: 'x'.repeat(262_145) }, {}, 413, 'payload_too_large'],
  ['a credential', { ...asked, metadata: { apiKey: 'x' } }, {}, 422, 'secret_in_payload'],
  ['a header that is no number', asked, { 'last-event-id': 'x' }, 400, 'validation'],
  ['a list', [asked], {}, 400, 'validation'],
])('%s is refused before any line', async (_, body, headers, status, code) => {
  const { send } = await serverWorld();
  const answer = await send('POST', '/v1/chat/turns', body, headers);
  expect([answer.status, answer.body.error?.code]).toEqual([status, code]);
});

test('turns of different tenants never meet', async () => {
  const digest = (key: string) => createHash('sha256').update(key).digest('hex');
  const apiKeys = ['one', 'two'].map((name) => `${digest(`key-of-${name}`)}:${name}`).join(',');
  const world = await serverWorld({ apiKeys });
  const as = (name: string) => ({ authorization: `Bearer key-of-${name}`, 'x-execution-id': 'shared' });
  const [one, two] = [
    await post(world, asked, as('one')),
    await post(world, { ...asked, message: 'Other' }, as('two')),
  ];
  expect([one.status, two.status]).toEqual([200, 200]);
  expect(one.headers.get('x-run-id')).not.toBe(two.headers.get('x-run-id'));
  await post(world, asked, { ...as('one'), 'x-execution-id': 'of-one' });
  const hidden = await world.send('POST', '/v1/chat/turns', undefined, { ...as('two'), 'x-execution-id': 'of-one' });
  expect([hidden.status, hidden.body.error.code]).toEqual([404, 'execution_not_found']);
});
