import OpenAI from 'openai';
import { describe, expect, test } from 'vitest';
import { sha256 } from '../../../../src/shared/base/ids.ts';
import type { EventBody } from '../../../../src/shared/contract/event.ts';
import { until } from '../../../support/redis.ts';
import { RunWriter } from '../../support/run-writer.ts';
import { serverWorld, type ServerWorld, type ServerWorldOptions } from '../server-world.ts';

const messages = [{ role: 'user' as const, content: 'Where is order 7?' }];
const chat = { model: 'support', messages };
const response = { model: 'support', input: 'Where is order 7?' };

async function makeWorld(options: ServerWorldOptions = {}) {
  const world = await serverWorld(options);
  const clientOf = (apiKey = 'none', maxRetries = 0) => new OpenAI({ baseURL: `${world.url}/v1`, apiKey, maxRetries });
  return { ...world, client: clientOf(), clientOf };
}

/** The runs of the tenant, as soon as there are so many. */
async function runsOf(
  { mill, redis, keys }: Pick<ServerWorld, 'mill' | 'redis' | 'keys'>,
  count = 1,
): Promise<RunWriter[]> {
  const runs = await until(`${count} runs`, async () => {
    const page = await mill.list();
    return page.runs.length >= count ? page.runs : undefined;
  });
  // A run with an execution id has two events when it is accepted.
  return runs.map(({ runId }) => new RunWriter(redis, keys, runId, 2));
}

const suspended: EventBody = {
  type: 'run.suspended',
  reason: 'approval',
  pending: [{ kind: 'approval', toolCallId: 'c1', requestedAt: '2026-11-21T09:00:00.000Z' }],
};

async function suspend(run: RunWriter, kind: 'approval' | 'provider_limit' = 'approval'): Promise<void> {
  const pending = [{ kind, id: 'c1', requestedAt: '2026-11-21T09:00:00.000Z' }];
  const fields = { status: 'suspended', pending: JSON.stringify(pending), lastSequence: String(run.sequence + 1) };
  await run.emit([suspended], { fields });
}

describe('a run that waits', () => {
  test('for people, as soon as it does, is an error that names it', async () => {
    const world = await makeWorld();
    const answer = world.client.chat.completions.create(chat).catch((error: unknown) => error);
    const [run] = await runsOf(world);
    const channel = world.keys.live(run?.runId ?? '');
    await until('the answer is waited for', async () => Number((await world.redis.pubsub('NUMSUB', channel))[1]) > 0);
    await suspend(run as RunWriter);
    expect(await answer).toMatchObject({ status: 409, code: 'run_suspended', error: { run_id: run?.runId } });
  });

  test.each([
    ['approval', 409, 'run_suspended'],
    ['provider_limit', 504, 'still_running'],
  ] as const)('for %s is %d: only people and money are not waited for', async (kind, status, code) => {
    const world = await makeWorld({ answerWaitMs: 100 });
    const ask = async (n: number) => {
      const headers = { 'x-stainless-retry-count': String(n), 'content-type': 'application/json' };
      return await world.send('POST', '/v1/chat/completions', chat, headers);
    };
    expect((await ask(0)).body.error.code).toBe('still_running');
    const [run] = await runsOf(world);
    await suspend(run as RunWriter, kind);
    expect(await ask(1)).toMatchObject({ status, body: { error: { code, run_id: run?.runId } } });
  });

  test('for people ends a stream with an error, but none that is followed in the background', async () => {
    const world = await makeWorld();
    const stream = await world.client.responses.create({ ...response, stream: true });
    const [run] = await runsOf(world);
    await suspend(run as RunWriter);
    await expect(Array.fromAsync(stream)).rejects.toMatchObject({ code: 'run_suspended' });
    const followed = await world.client.responses.retrieve(`resp_${run?.runId}`, { stream: true });
    await run?.end();
    expect((await Array.fromAsync(followed)).at(-1)?.type).toBe('response.completed');
  });

  test('longer than the route does is an error that is worth a repeat, which finds the same run', async () => {
    const world = await makeWorld({ answerWaitMs: 100 });
    const { status, headers, body } = await world.send('POST', '/v1/chat/completions', chat);
    const [run] = await runsOf(world);
    expect(status).toBe(504);
    expect(headers.get('x-should-retry')).toBe('true');
    expect(body.error).toMatchObject({ code: 'still_running', run_id: run?.runId });
    expect(headers.get('x-millrace-run-id')).toBe(run?.runId);
  });

  test('without an event for longer than that ends its stream with the same error', async () => {
    const world = await makeWorld({ answerWaitMs: 100 });
    const stream = await world.client.responses.create({ ...response, stream: true, background: true });
    await expect(Array.fromAsync(stream)).rejects.toMatchObject({ code: 'still_running' });
  });

  test('when the producer drains is an error that is worth a repeat', async () => {
    const world = await makeWorld();
    const whole = world.client.chat.completions.create(chat).catch((error: unknown) => error);
    await runsOf(world);
    const stream = await world.client.chat.completions.create({ ...chat, stream: true });
    await runsOf(world, 2);
    const read = Array.fromAsync(stream).catch((error: unknown) => error);
    await world.server.close();
    expect(await whole).toMatchObject({ status: 503, code: 'queue_unavailable' });
    expect(await read).toMatchObject({ code: 'queue_unavailable' });
  });
});

test('comments keep a quiet stream open, and a client that goes away does not stop the run', async () => {
  const world = await makeWorld({ keepAliveMs: 10 });
  const stop = new AbortController();
  const body = JSON.stringify({ ...chat, stream: true });
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  const answer = await fetch(`${world.url}/v1/chat/completions`, {
    method: 'POST',
    headers,
    body,
    signal: stop.signal,
  });
  expect(answer.headers.get('content-type')).toMatch('text/event-stream');
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toBe(': keep-alive\n\n');
  stop.abort();
  const [run] = await runsOf(world);
  expect(await world.mill.get(run?.runId ?? '')).toMatchObject({ status: 'queued', cancelling: false });
});

describe('a repeat without a key', () => {
  const repeat = (n: number) => ({ 'x-stainless-retry-count': String(n), 'content-type': 'application/json' });
  const ask = async (world: ServerWorld, n: number, body: object = { ...response, background: true }) =>
    (await world.send('POST', '/v1/responses', body, repeat(n))).body.id as string;

  test('has the run of the first try, two at once the same, and no other request has it', async () => {
    const world = await makeWorld();
    const first = await ask(world, 0);
    expect(await Promise.all([ask(world, 1), ask(world, 1), ask(world, 2)])).toEqual([first, first, first]);
    const other = await ask(world, 1, { ...response, input: 'And order 8?', background: true });
    expect(other).not.toBe(first);
    expect(await ask(world, 0)).not.toBe(first);
    expect((await world.mill.list()).runs).toHaveLength(3);
  });

  test('of a try that was never accepted makes one run, however many come at once', async () => {
    const world = await makeWorld();
    const ids = await Promise.all([1, 1, 2, 2].map((n) => ask(world, n)));
    expect(new Set(ids).size).toBe(1);
    expect((await world.mill.list()).runs).toHaveLength(1);
  });

  test('is known for ten minutes, and by the key that it came with', async () => {
    const keys = ['one', 'two'];
    const world = await makeWorld({ apiKeys: keys.map((key) => `${sha256(key)}:t:*`).join(',') });
    const idOf = async (key: string, n: number) => {
      const headers = { ...repeat(n), authorization: `Bearer ${key}` };
      return (await world.send('POST', '/v1/responses', { ...response, background: true }, headers)).body.id as string;
    };
    const first = await idOf('one', 0);
    expect(await idOf('two', 1)).not.toBe(first);
    expect(await idOf('one', 1)).toBe(first);
    const kept = await world.redis.keys(world.keys.repeat('t', '*'));
    const ttls = await Promise.all(kept.map((key) => world.redis.ttl(key)));
    expect(ttls).toHaveLength(2);
    for (const ttl of ttls) expect(ttl).toBeGreaterThan(590);
    for (const ttl of ttls) expect(ttl).toBeLessThanOrEqual(600);
  });

  test('with a key of its own is the run of that key, with another body a conflict', async () => {
    const world = await makeWorld();
    const headers = { 'idempotency-key': 'order-7', 'content-type': 'application/json' };
    const body = { ...response, background: true };
    const first = await world.send('POST', '/v1/responses', body, headers);
    expect((await world.send('POST', '/v1/responses', body, headers)).body.id).toBe(first.body.id);
    const other = await world.send('POST', '/v1/responses', { ...body, input: 'Else' }, headers);
    expect([other.status, other.body.error.code]).toEqual([409, 'idempotency_conflict']);
    expect(other.headers.get('x-should-retry')).toBe('false');
  });
});

test('nothing of one tenant is seen by another', async () => {
  const apiKeys = ['a', 'b'].map((name) => `${sha256(name)}:${name}:*`).join(',');
  const world = await makeWorld({ apiKeys });
  const [own, other] = [world.clientOf('a'), world.clientOf('b')];
  const { id } = await own.responses.create({ ...response, background: true });
  const conversation = await own.conversations.create({ metadata: { topic: 'orders' } });
  const calls = [
    () => other.responses.retrieve(id),
    () => other.responses.retrieve(id, { stream: true }),
    () => other.responses.cancel(id),
    () => other.responses.delete(id),
    () => other.responses.inputItems.list(id),
    () => other.responses.create({ ...response, previous_response_id: id }),
    () => other.conversations.retrieve(conversation.id),
    () => other.conversations.update(conversation.id, { metadata: {} }),
    () => other.conversations.delete(conversation.id),
    () => other.conversations.items.list(conversation.id),
    () => other.responses.create({ ...response, conversation: conversation.id }),
  ];
  for (const call of calls)
    await expect(call()).rejects.toMatchObject({ status: 404, code: 'not_found', type: 'invalid_request_error' });
  expect(await own.responses.retrieve(id)).toMatchObject({ id, status: 'queued' });
  expect(await own.conversations.retrieve(conversation.id)).toEqual(conversation);
});

describe('errors before the run', () => {
  test('have the shape of OpenAI, also those about keys', async () => {
    const world = await makeWorld({ apiKeys: `${sha256('reader')}:t:read` });
    const unknown = await world.send('GET', '/v1/models');
    expect(unknown).toMatchObject({
      status: 401,
      body: { error: { type: 'authentication_error', code: 'unauthorized' } },
    });
    const lacking = world.clientOf('reader').chat.completions.create(chat);
    await expect(lacking).rejects.toMatchObject({ status: 403, type: 'permission_error', code: 'forbidden' });
  });

  test.each([
    ['/v1/chat/completions', { ...chat, metadata: { queue: 'nowhere' } }, 400, 'unknown_queue', null],
    [
      '/v1/chat/completions',
      { ...chat, messages: [{ role: 'user', content: 'x'.repeat(300_000) }] },
      413,
      'payload_too_large',
      null,
    ],
    ['/v1/chat/completions', { ...chat, model: 'not an id' }, 400, 'invalid_id', 'model'],
    ['/v1/responses', { ...response, instructions: '{{ secrets.KEY }}' }, 400, 'validation', 'instructions'],
    ['/v1/responses', { input: 'Hi' }, 400, 'validation', 'model'],
    ['/v1/responses', undefined, 400, 'invalid_json', null],
  ])('of %s name the field of the request', async (path, body, status, code, param) => {
    const world = await makeWorld();
    const answer = await world.send('POST', path, body, { 'content-type': 'application/json' });
    expect(answer).toMatchObject({ status, body: { error: { code, param } } });
  });
});

describe('a response whose events are gone', () => {
  test('is followed by its last event alone, with the whole response', async () => {
    const world = await makeWorld();
    const { id } = await world.client.responses.create({ ...response, background: true });
    const [run] = await runsOf(world);
    await run?.end();
    await world.redis.del(world.keys.events(run?.runId ?? ''));
    const events = await Array.fromAsync(
      await world.client.responses.retrieve(id, { stream: true, starting_after: 7 }),
    );
    expect(events).toMatchObject([
      { type: 'response.completed', sequence_number: 8, response: { output_text: 'It is on its way.' } },
    ]);
  });

  test('starting_after is refused without a stream', async () => {
    const world = await makeWorld();
    const { body } = await world.send('GET', '/v1/responses/resp_01JD0000000000000000000000?starting_after=1');
    expect(body.error.code).toBe('not_found');
    const { id } = await world.client.responses.create({ ...response, background: true });
    expect(await world.send('GET', `/v1/responses/${id}?starting_after=1`)).toMatchObject({ status: 400 });
  });
});

describe('a response before another', () => {
  test('has to have ended, and what it said after it had read others keeps its label', async () => {
    const world = await makeWorld();
    const { id } = await world.client.responses.create({ ...response, background: true });
    const next = { ...response, input: 'And 8?', previous_response_id: id, background: true };
    await expect(world.client.responses.create(next)).rejects.toMatchObject({ status: 409, code: 'concurrent_run' });
    const [run] = await runsOf(world);
    const flow = { sources: [{ name: 'fetch', trust: 'external' }] };
    await run?.end('completed', { fields: {} });
    await run?.set({ flow: JSON.stringify(flow) });
    const following = await world.client.responses.create(next);
    const request = JSON.parse((await world.redis.hget(world.keys.run(following.id.slice(5)), 'request')) ?? '{}');
    expect(request.history).toEqual([
      { role: 'user', content: 'Where is order 7?' },
      { role: 'assistant', content: 'It is on its way.', flow },
    ]);
    expect(following.previous_response_id).toBe(id);
  });

  test('is not deleted before it has ended', async () => {
    const world = await makeWorld();
    const { id } = await world.client.responses.create({ ...response, background: true });
    await expect(world.client.responses.delete(id)).rejects.toMatchObject({ status: 409, code: 'concurrent_run' });
    const [run] = await runsOf(world);
    await run?.end();
    const runId = run?.runId ?? '';
    await world.redis.hset(world.keys.blobs(`run-${runId}`), 'record', 'what was archived');
    await world.client.responses.delete(id);
    // So that no worker archives it a moment later.
    expect(await world.redis.keys(`${world.prefix}:{${runId}}:*`)).toEqual([world.keys.erased(runId)]);
    expect(await world.redis.ttl(world.keys.erased(runId))).toBeGreaterThan(3_500);
    expect(await world.redis.exists(world.keys.blobs(`run-${runId}`))).toBe(0);
    expect(await world.redis.zrange(world.keys.index('default'), '0', '-1')).toEqual([]);
  });
});

describe('a conversation', () => {
  test('gives what it began with to one run, and to that of a repeat', async () => {
    const world = await makeWorld();
    const items = [{ role: 'user' as const, type: 'message' as const, content: 'I am Kim.' }];
    const { id } = await world.client.conversations.create({ items });
    const ask = async (key: string) => {
      const headers = { 'idempotency-key': key, 'content-type': 'application/json' };
      return (await world.send('POST', '/v1/responses', { ...response, conversation: id, background: true }, headers))
        .body;
    };
    const answers = [await ask('first'), await ask('second'), await ask('first')];
    expect(answers[2].id).toBe(answers[0].id);
    const histories = await Promise.all(
      answers.map(async (answer) => {
        const stored = await world.redis.hget(world.keys.run(answer.id.slice(5)), 'request');
        return JSON.parse(stored ?? '{}').history as unknown;
      }),
    );
    expect(histories).toEqual([
      [{ role: 'user', content: 'I am Kim.' }],
      undefined,
      [{ role: 'user', content: 'I am Kim.' }],
    ]);
    expect(await world.redis.ttl(world.keys.conversation('default', id))).toBeGreaterThan(29 * 86_400);
  });

  test('gives it to another run when the first is refused', async () => {
    const world = await makeWorld();
    const items = [{ role: 'user' as const, type: 'message' as const, content: 'I am Kim.' }];
    const { id } = await world.client.conversations.create({ items });
    const refused = { ...response, conversation: id, metadata: { queue: 'nowhere' } };
    await expect(world.client.responses.create(refused)).rejects.toMatchObject({ code: 'unknown_queue' });
    const answer = await world.client.responses.create({ ...response, conversation: id, background: true });
    const stored = await world.redis.hget(world.keys.run(answer.id.slice(5)), 'request');
    expect(JSON.parse(stored ?? '{}')).toMatchObject({
      history: items.map(({ role, content }) => ({ role, content })),
    });
  });

  test('keeps no instructions, and its metadata change', async () => {
    const world = await makeWorld();
    const items = [{ role: 'system' as const, type: 'message' as const, content: 'Be brief.' }];
    await expect(world.client.conversations.create({ items })).rejects.toMatchObject({ status: 400, param: 'items' });
    const { id } = await world.client.conversations.create({});
    expect(await world.client.conversations.update(id, { metadata: { topic: 'b' } })).toMatchObject({
      metadata: { topic: 'b' },
    });
    expect(await world.client.conversations.retrieve(id)).toMatchObject({ metadata: { topic: 'b' } });
  });
});
