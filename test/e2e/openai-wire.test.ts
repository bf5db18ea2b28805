import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import OpenAI, { type APIError, BadRequestError, ConflictError, NotFoundError } from 'openai';
import { describe, expect, onTestFinished, test } from 'vitest';
import { planInput } from '../support/plan.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { testRedis, until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

const shared = shareWorld({ producer: true });

function clientOf(baseURL: string, options: object = {}): OpenAI {
  return new OpenAI({ baseURL: `${baseURL}/v1`, apiKey: 'not-needed', maxRetries: 0, ...options });
}

/** A run that the answer names. */
function runIdOf(answer: { readonly id: string }): string {
  return answer.id.replace(/^(resp_|chatcmpl-)/, '');
}

const said = (content: string) => [{ role: 'user' as const, content }];
const text = 'It is on its way to you.';

describe('a chat completion', () => {
  test('is the answer of the agent, with its usage, its cost and its run', async () => {
    const { world } = shared;
    const messages = [
      { role: 'system' as const, content: 'Be brief.' },
      { role: 'user' as const, content: 'Hello' },
      { role: 'assistant' as const, content: 'Hello!' },
      ...said(planInput({ text })),
    ];
    const {
      data,
      response,
      request_id: requestId,
    } = await clientOf(world.url)
      .chat.completions.create({ model: 'agent:plain', messages, temperature: 0.5, metadata: { colour: 'green' } })
      .withResponse();
    expect(data.choices[0]).toMatchObject({ message: { role: 'assistant', content: text }, finish_reason: 'stop' });
    expect(data.usage?.total_tokens).toBe((data.usage?.prompt_tokens ?? 0) + (data.usage?.completion_tokens ?? 0));
    expect(requestId).toBe(response.headers.get('x-request-id'));
    expect(response.headers.get('x-millrace-decided-by-agent')).toBe('temperature');
    const runId = runIdOf(data);
    expect(data).toMatchObject({ model: 'agent:plain', millrace: { run_id: runId, agent: 'plain', steps: 1 } });
    expect(await world.mill.get(runId)).toMatchObject({ status: 'completed', metadata: { colour: 'green' } });
    const [call] = world.provider.callsOf(runId);
    expect(call?.messages.map(({ role, content }) => [role, content])).toEqual([
      ['system', 'You answer briefly.\n\nBe brief.'],
      ['user', 'Hello'],
      ['assistant', 'Hello!'],
      ['user', planInput({ text })],
    ]);
  });

  test('is streamed as it is written, and a last chunk has the usage', async () => {
    const { world } = shared;
    const stream = await clientOf(world.url).chat.completions.create({
      model: 'plain',
      messages: said(planInput({ text, pieces: 4, hold: { gate: 'chat-stream', afterPieces: 2 } })),
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = [];
    let content = '';
    for await (const chunk of stream) {
      chunks.push(chunk);
      content += chunk.choices[0]?.delta.content ?? '';
      // The second half is only written once the first has arrived.
      if (content !== '' && content !== text) world.provider.gates.open('chat-stream');
    }
    expect(content).toBe(text);
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe('stop');
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: expect.any(Number) } });
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
  });

  test('of a run that waits for a person is an error that names the run, which goes on', async () => {
    const { world } = shared;
    const client = clientOf(world.url);
    const plan = planInput({ calls: [{ name: 'charge', args: { id: 'wire' } }] }, { text: 'Charged.' });
    const ask = (stream: boolean) => client.chat.completions.create({ model: 'gated', messages: said(plan), stream });
    const error = await ask(false).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConflictError);
    const { runId } = (error as { error: { details: { runId: string } } }).error.details;
    expect(error).toMatchObject({ code: 'run_suspended', error: { run_id: runId } });
    const streamed = await ask(true);
    await expect(Array.fromAsync(streamed as AsyncIterable<unknown>)).rejects.toMatchObject({ code: 'run_suspended' });
    await world.mill.run(runId).approve();
    await world.mill.result(runId);
    expect((await client.responses.retrieve(`resp_${runId}`)).output_text).toBe('Charged.');
  });

  test('whose run fails is an error with the code of the run', async () => {
    const faults = Array.from({ length: 9 }, () => ({ kind: 'status' as const, status: 401 }));
    const asked = clientOf(shared.world.url, { maxRetries: 2 }).chat.completions.create({
      model: 'plain',
      messages: said(planInput({ text, faults })),
    });
    await expect(asked).rejects.toMatchObject({
      status: 502,
      code: 'provider_auth',
      error: { run_id: expect.any(String) },
    });
  });
});

describe('a response', () => {
  test('has the text of the agent, and continues the one before it', async () => {
    const { world } = shared;
    const client = clientOf(world.url);
    const first = await client.responses.create({
      model: 'plain',
      input: planInput({ text: 'I am Kim.' }),
      store: true,
    });
    expect(first).toMatchObject({ status: 'completed', output_text: 'I am Kim.', error: null });
    const second = await client.responses.create({
      model: 'plain',
      input: planInput({ text: 'Kim, as I said.' }),
      previous_response_id: first.id,
      instructions: 'Be kind.',
    });
    expect(second).toMatchObject({ output_text: 'Kim, as I said.', previous_response_id: first.id });
    const [call] = world.provider.callsOf(runIdOf(second));
    expect(call?.messages.map(({ role, content }) => [role, content])).toEqual([
      ['system', 'You answer briefly.\n\nBe kind.'],
      ['user', planInput({ text: 'I am Kim.' })],
      ['assistant', 'I am Kim.'],
      ['user', planInput({ text: 'Kim, as I said.' })],
    ]);
    const items = await Array.fromAsync(client.responses.inputItems.list(second.id, { order: 'asc', limit: 2 }));
    expect(items.map((item) => ('role' in item ? item.role : item.type))).toEqual(['user', 'assistant', 'user']);
  });

  test('is streamed with numbers without gaps, and its tool calls are shown as done elsewhere', async () => {
    const plan = planInput({ text: 'I look.', calls: [{ name: 'look', args: { id: 'wire' } }] }, { text, pieces: 3 });
    const stream = clientOf(shared.world.url).responses.stream({ model: 'gated', input: plan });
    const events = await Array.fromAsync(stream);
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, index) => index));
    const types = events.map(({ type }) => type);
    expect(types.slice(0, 3)).toEqual(['response.created', 'response.queued', 'response.in_progress']);
    expect(types).toContain('response.mcp_call.completed');
    expect(types.at(-1)).toBe('response.completed');
    expect((await stream.finalResponse()).output_text).toBe(text);
  });

  test('in a conversation is a turn of its thread', async () => {
    const { world } = shared;
    const client = clientOf(world.url);
    const items = [{ type: 'message' as const, role: 'user' as const, content: 'My name is Kim.' }];
    const conversation = await client.conversations.create({ items, metadata: { topic: 'names' } });
    expect(await client.conversations.retrieve(conversation.id)).toEqual(conversation);
    const turns = ['One.', 'Two.'].map((answer) => planInput({ text: answer }));
    for (const input of turns) await client.responses.create({ model: 'plain', input, conversation: conversation.id });
    const { messages } = await world.mill.threads.messages(conversation.id);
    const expected = ['My name is Kim.', turns[0], 'One.', turns[1], 'Two.'];
    expect(messages.map((item) => (item.kind === 'message' ? item.text : item.kind))).toEqual(expected);
    const listed = await Array.fromAsync(client.conversations.items.list(conversation.id, { order: 'asc', limit: 2 }));
    expect(listed.map((item) => (item.type === 'message' ? (item.content[0] as { text: string }).text : ''))).toEqual(
      expected,
    );
    await client.conversations.delete(conversation.id);
    await expect(client.conversations.retrieve(conversation.id)).rejects.toBeInstanceOf(NotFoundError);
    await expect(world.mill.threads.get(conversation.id)).rejects.toMatchObject({ code: 'not_found' });
  });

  test('whose run is redriven has what the conversation began with once', async () => {
    const { world } = shared;
    const client = clientOf(world.url);
    const items = [
      { type: 'message' as const, role: 'user' as const, content: 'My name is Kim.' },
      { type: 'message' as const, role: 'assistant' as const, content: 'Hello Kim!' },
    ];
    const { id: conversation } = await client.conversations.create({ items });
    const input = planInput({ text, faults: [{ kind: 'status', status: 401 }] });
    const failed = await client.responses.create({ model: 'plain', input, conversation });
    expect(failed).toMatchObject({ status: 'failed', error: { code: 'provider_auth' } });
    await world.mill.redrive({ runId: runIdOf(failed) });
    expect(await world.mill.result(runIdOf(failed))).toMatchObject({ status: 'completed', text });
    const said = ['You answer briefly.', 'My name is Kim.', 'Hello Kim!', input];
    for (const { messages } of world.provider.callsOf(runIdOf(failed)))
      expect(messages.map(({ content }) => content)).toEqual(said);
    const { messages } = await world.mill.threads.messages(conversation);
    const texts = messages.map((item) => (item.kind === 'message' ? item.text : item.kind));
    expect(texts.filter((it) => said.includes(it) || it === text)).toEqual([...said.slice(1), text]);
  });

  test('that is not to be stored is in no thread and cannot be read', async () => {
    const client = clientOf(shared.world.url);
    const answer = await client.responses.create({ model: 'plain', input: planInput({ text }), store: false });
    expect(answer.output_text).toBe(text);
    await expect(client.responses.retrieve(answer.id)).rejects.toBeInstanceOf(NotFoundError);
    const { fleet, mill } = shared.world;
    expect((await mill.threads.list()).threads.filter(({ threadId }) => threadId.includes(runIdOf(answer)))).toEqual(
      [],
    );
    const redis = await testRedis('work', fleet.redisUrl);
    const keys = keysFor(fleet.prefix);
    for (const key of [keys.run, keys.journal]) {
      const ttl = await redis.ttl(key(runIdOf(answer)));
      expect(ttl).toBeLessThanOrEqual(600);
      expect(ttl).toBeGreaterThan(500);
    }
  });

  test('is deleted once it has ended', async () => {
    const client = clientOf(shared.world.url);
    const answer = await client.responses.create({ model: 'plain', input: planInput({ text }) });
    await client.responses.delete(answer.id);
    await expect(client.responses.retrieve(answer.id)).rejects.toBeInstanceOf(NotFoundError);
    await expect(shared.world.mill.get(runIdOf(answer))).rejects.toMatchObject({ code: 'run_not_found' });
  });

  test('in the background is cancelled', async () => {
    const client = clientOf(shared.world.url);
    const input = planInput({ text, hold: { gate: 'never', afterPieces: 1 } });
    const begun = await client.responses.create({ model: 'plain', input, background: true });
    expect(['queued', 'in_progress']).toContain(begun.status);
    await until('its answer has begun', () => shared.world.provider.callsOf(runIdOf(begun)).length > 0);
    await client.responses.cancel(begun.id);
    await shared.world.mill.result(runIdOf(begun));
    expect(await client.responses.retrieve(begun.id)).toMatchObject({ status: 'cancelled' });
    expect(await client.responses.cancel(begun.id)).toMatchObject({ status: 'cancelled' });
  });

  test('in the background goes on at another producer when its own is killed, without gap or repeat', async () => {
    const { world } = shared;
    const own = await world.fleet.startProducer();
    const hold = { gate: 'resume', afterPieces: 2 };
    const input = planInput({ text: 'one two three four', pieces: 4, hold });
    const stream = await clientOf(own.url).responses.create({ model: 'plain', input, background: true, stream: true });
    const seen: { readonly sequence_number: number; readonly type: string; readonly delta?: unknown }[] = [];
    let id = '';
    const cut = async () => {
      for await (const event of stream) {
        seen.push(event);
        if (event.type === 'response.created') ({ id } = event.response);
        if (event.type === 'response.output_text.delta') own.child.signal('SIGKILL');
      }
    };
    await expect(cut()).rejects.toThrow('terminated');
    const last = seen.at(-1)?.sequence_number ?? 0;
    const rest = await clientOf(world.url).responses.retrieve(id, { stream: true, starting_after: last });
    world.provider.gates.open('resume');
    for await (const event of rest) seen.push(event);
    expect(seen.map(({ sequence_number: number }) => number)).toEqual(seen.map((_, index) => index));
    const deltas = seen.filter(({ type }) => type === 'response.output_text.delta');
    expect(deltas.map(({ delta }) => delta).join('')).toBe('one two three four');
    expect(seen.at(-1)?.type).toBe('response.completed');
    const whole = await clientOf(world.url).responses.retrieve(id, { stream: true });
    expect(await Array.fromAsync(whole)).toEqual(seen);
  });
});

/** Passes requests on. The first answers to each request are lost: a 503 in the place of one, a connection that breaks in that of the next. */
async function lossyProxy(target: string): Promise<{ readonly url: string; readonly tries: () => number }> {
  let tries = 0;
  const server = createServer((request, response) => {
    void lose(request, response, ++tries);
  });
  const lose = async (request: IncomingMessage, response: ServerResponse, n: number) => {
    const answer = await passOn(request, target);
    if (n === 1) response.writeHead(503, { 'retry-after-ms': '1' }).end('{}');
    else if (n === 2) request.socket.destroy();
    else sendBack(answer, response);
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, tries: () => tries };
}

async function passOn(request: IncomingMessage, target: string) {
  const body = Buffer.concat(await request.toArray());
  const headers = Object.entries(request.headers).filter(([name]) =>
    /^(x-stainless|content-type|authorization)/.test(name),
  );
  const answer = await fetch(target + request.url, {
    method: request.method ?? 'GET',
    headers: Object.fromEntries(headers) as Record<string, string>,
    body,
  });
  return { status: answer.status, body: Buffer.from(await answer.arrayBuffer()) };
}

function sendBack({ status, body }: Awaited<ReturnType<typeof passOn>>, response: ServerResponse): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(body);
}

describe('a client that repeats its request after a 503 and a broken connection', () => {
  test.each(['chat', 'responses'] as const)('gets the answer of one run from %s', async (kind) => {
    const { world } = shared;
    const proxy = await lossyProxy(world.url);
    const client = clientOf(proxy.url, { maxRetries: 3 });
    const input = planInput({ text: `%call ${kind}` });
    const answer =
      kind === 'chat'
        ? await client.chat.completions.create({ model: 'plain', messages: said(input) })
        : await client.responses.create({ model: 'plain', input });
    expect(proxy.tries()).toBe(3);
    const asked = world.provider.calls.filter(({ messages }) => messages.some(({ content }) => content === input));
    expect(asked.map(({ runId }) => runId)).toEqual([runIdOf(answer)]);
  });
});

describe('errors', () => {
  test('are those of the client, and say which field is wrong', async () => {
    const client = clientOf(shared.world.url);
    const tools = [{ type: 'function' as const, function: { name: 'f', parameters: {} } }];
    const refused = await client.chat.completions
      .create({ model: 'plain', messages: said('Hi'), tools })
      .catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(BadRequestError);
    expect(refused).toMatchObject({ param: 'tools', code: 'validation', type: 'invalid_request_error' });
    expect((refused as APIError).message).toContain('an agent has its own tools');
    const unknown = client.responses.create({ model: 'plane', input: 'Hi' });
    await expect(unknown).rejects.toMatchObject({
      status: 400,
      param: 'model',
      message: expect.stringContaining('plain'),
    });
    await expect(client.responses.retrieve('resp_nothing')).rejects.toBeInstanceOf(NotFoundError);
    const conversation = client.responses.create({ model: 'plain', input: 'Hi', conversation: 'conv_nothing' });
    await expect(conversation).rejects.toBeInstanceOf(NotFoundError);
    await expect(client.models.retrieve('plane')).rejects.toBeInstanceOf(NotFoundError);
  });
});

test('agents are models', async () => {
  const client = clientOf(shared.world.url);
  const models = await Array.fromAsync(client.models.list());
  expect(models.map(({ id }) => id)).toEqual(expect.arrayContaining(['plain', 'gated']));
  expect(await client.models.retrieve('plain')).toMatchObject({ id: 'plain', object: 'model' });
});
