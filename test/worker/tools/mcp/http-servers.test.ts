import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { FakeClock } from '../../../../src/testing/fake-clock.ts';
import { httpServer } from './http-server.ts';
import { call, makeMcpWorld, output, until } from './world.ts';

test('runs of one tenant share a connection, and it ends with the last of them', async () => {
  const server = await httpServer();
  const { open } = makeMcpWorld();
  const [one, two] = await Promise.all([open({ a: { url: server.url } }), open({ b: { url: server.url } })]);
  expect([await call(one, 'echo'), await call(two, 'echo')]).toEqual(['session-1', 'session-1']);
  await one[Symbol.asyncDispose]();
  await one[Symbol.asyncDispose]();
  expect(await call(two, 'echo')).toBe('session-1');
  expect(server.count('DELETE')).toBe(0);
  await two[Symbol.asyncDispose]();
  expect([server.count('initialize'), server.count('DELETE')]).toEqual([1, 1]);
  expect(await call(await open({ a: { url: server.url } }), 'echo')).toBe('session-2');
});

test('another tenant, other headers and another secret have a connection of their own', async () => {
  const server = await httpServer();
  const { url } = server;
  const { open } = makeMcpWorld({ secrets: { A: 'secret-a', B: 'secret-b' } });
  await open({ it: { url } });
  await open({ it: { url } }, { tenant: 'other' });
  await open({ it: { url, headers: { authorization: { secret: 'A' } } } });
  await open({ it: { url, headers: { authorization: { secret: 'B' } } } });
  await open({ it: { url, headers: { authorization: { secret: 'A' } } } });
  expect(server.count('initialize')).toBe(4);
  expect(new Set(server.asked.map(({ headers }) => headers.authorization))).toEqual(
    new Set([undefined, 'secret-a', 'secret-b']),
  );
});

test('a connection that is not used stays until its time is up, and no longer than the hub', async () => {
  const server = await httpServer();
  const { open, hub } = makeMcpWorld({ idleMs: 60_000 });
  await (await open({ it: { url: server.url } }))[Symbol.asyncDispose]();
  expect(await call(await open({ it: { url: server.url } }), 'echo')).toBe('session-1');
  await hub[Symbol.asyncDispose]();
  expect(server.count('DELETE')).toBe(1);
});

test.each([404, 400])(
  'a session that is answered with %i is begun anew for a call that may be repeated',
  async (status) => {
    let forgotten = true;
    let calls = 0;
    const server = await httpServer((message, response) => {
      if (message.method !== 'tools/call') return undefined;
      if (forgotten) {
        forgotten = false;
        response.writeHead(status).end('no such session');
        return true;
      }
      calls++;
      return undefined;
    });
    const { open } = makeMcpWorld();
    expect(await call(await open({ it: { url: server.url, effect: 'idempotent' } }), 'echo')).toBe('session-2');
    expect(calls).toBe(1);
  },
);

const afterActing: readonly (readonly [string, (response: ServerResponse) => void])[] = [
  ...[400, 401, 403, 404, 408, 409, 429, 500, 503].map(
    (status) => [`answers ${status}`, (response: ServerResponse) => void response.writeHead(status).end()] as const,
  ),
  [
    'asks for more scope',
    (response) => void response.writeHead(403, { 'www-authenticate': 'Bearer error="insufficient_scope"' }).end(),
  ],
  ['redirects', (response) => void response.writeHead(307, { location: '/mcp' }).end()],
  ['breaks the connection off', (response) => void response.destroy()],
  [
    'breaks its answer off',
    (response) =>
      void response.writeHead(200, { 'content-type': 'application/json' }).write('{', () => response.destroy()),
  ],
  [
    'answers with what is no JSON',
    (response) => void response.writeHead(200, { 'content-type': 'application/json' }).end('<p>'),
  ],
  ['answers with a page', (response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<p>')],
  [
    'ends its stream',
    (response) => void response.writeHead(200, { 'content-type': 'text/event-stream' }).end(': hello\n\n'),
  ],
];

test.each(afterActing)(
  'a `once` call of a server that acts and then %s is made once, and its outcome is unknown',
  async (_, end) => {
    let acted = 0;
    const server = await httpServer((message, response) => {
      if (message.method !== 'tools/call') return undefined;
      acted++;
      end(response);
      return true;
    });
    const { open } = makeMcpWorld();
    // What the agent says about the tool stands over what it says about the server.
    const opened = await open({ it: { url: server.url, effect: 'read' } });
    await expect(call(opened, 'echo', {}, { effect: 'once' })).rejects.toMatchObject({ kind: 'outcome_unknown' });
    expect(acted).toBe(1);
  },
);

test('a server that wants to be asked again is refused, and the call is made once', async () => {
  const server = await httpServer((message, response) => {
    const answer = (result: object) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }));
      return true;
    };
    const about = { ttlMs: 0, cacheScope: 'private' };
    const supportedVersions = ['2026-07-28'];
    if (message.method === 'server/discover')
      return answer({
        resultType: 'complete',
        supportedVersions,
        capabilities: { tools: {} },
        serverInfo: { name: 'm', version: '1' },
        ...about,
      });
    if (message.method === 'tools/list')
      return answer({ resultType: 'complete', tools: [{ name: 'echo', inputSchema: { type: 'object' } }], ...about });
    return message.method === 'tools/call' && answer({ resultType: 'input_required', requestState: 'more' });
  });
  const { open } = makeMcpWorld();
  const said = await output(await open({ it: { url: server.url } }), 'echo');
  expect(said).toMatchObject({ isError: true, value: expect.stringContaining('it asks for input') as string });
  expect(server.count('tools/call')).toBe(1);
});

test('a stream of a `once` call that breaks off is resumed where it was, and the call is not made again', async () => {
  let acted = 0;
  const answer = (id: number | undefined) =>
    `data: ${JSON.stringify({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: 'done' }] } })}\n\n`;
  const server = await httpServer((message, response, request) => {
    if (request.headers['last-event-id'] === 'half') {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(answer(called));
      return true;
    }
    if (message.method !== 'tools/call') return undefined;
    acted++;
    called = message.id;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('id: half\nretry: 1\ndata:\n\n', () => response.destroy());
    return true;
  });
  let called: number | undefined;
  const { open } = makeMcpWorld();
  expect(await call(await open({ it: { url: server.url } }), 'echo')).toBe('done');
  expect(acted).toBe(1);
});

test('a `once` call over a session that has rested asks first whether the server still knows it', async () => {
  let known = 'session-1';
  const clock = new FakeClock();
  const server = await httpServer((message, response, request) => {
    if (message.method === 'initialize' || request.method !== 'POST') return undefined;
    if (request.headers['mcp-session-id'] === known) return undefined;
    response.writeHead(404).end();
    return true;
  });
  const { open } = makeMcpWorld({ clock });
  const opened = await open({ it: { url: server.url } });
  expect(await call(opened, 'echo')).toBe('session-1');
  expect(server.count('ping')).toBe(0);
  known = 'session-2';
  clock.jump(60_000);
  expect(await call(opened, 'echo')).toBe('session-2');
  expect([server.count('ping'), server.count('tools/call')]).toEqual([1, 2]);
});

test('a server that never knows its session is an error, and is not asked for ever', async () => {
  const server = await httpServer((message, response) => {
    if (message.method !== 'tools/call') return undefined;
    response.writeHead(404).end();
    return true;
  });
  const { open } = makeMcpWorld();
  await expect(call(await open({ it: { url: server.url, effect: 'read' } }), 'echo')).rejects.toThrow(
    'it answered 404',
  );
  expect(server.count('tools/call')).toBe(2);
});

test.each([
  ['a stream that ends without the answer', (response: ServerResponse) => response.end()],
  ['a stream that breaks off', (response: ServerResponse) => response.destroy()],
])('%s is a lost connection', async (_, end) => {
  const server = await httpServer((message, response) => {
    if (message.method !== 'tools/call') return undefined;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(': hello\n\n', () => end(response));
    return true;
  });
  const { open } = makeMcpWorld();
  await expect(call(await open({ it: { url: server.url } }), 'echo')).rejects.toMatchObject({
    kind: 'outcome_unknown',
    message: 'MCP server it: the connection was lost',
  });
});

test.each([
  ['application/json', (json: string) => json],
  ['text/event-stream', (json: string) => `data: ${json}\n\n`],
  ['text/event-stream', (json: string) => `: "\nid: ]]]]\ndata: ${json}\n\n`],
])('an answer in %s that is nested too deeply is not parsed', async (type, body) => {
  const deep = `${'['.repeat(65)}${']'.repeat(65)}`;
  const server = await httpServer((message, response) => {
    if (message.method !== 'tools/call') return undefined;
    response.writeHead(200, { 'content-type': type });
    response.end(body(`{"jsonrpc":"2.0","id":${message.id},"result":{"content":[],"x":${deep}}}`));
    return true;
  });
  const { open } = makeMcpWorld();
  await expect(call(await open({ it: { url: server.url } }), 'echo')).rejects.toMatchObject({
    kind: 'outcome_unknown',
  });
});

test('a stream that always ends at once is asked for twenty times a minute, whatever delay its server wants', async () => {
  const server = await httpServer((_, response, request) => {
    if (request.method !== 'GET') return undefined;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end('retry: 0\n\n');
    return true;
  });
  const clock = new FakeClock();
  const { open } = makeMcpWorld({ clock });
  await open({ it: { url: server.url } });
  for (let count = 1; count <= 20; count++) {
    await until(() => server.count('GET') === count && clock.waits.filter((ms) => ms === 500).length === count);
    clock.jump(500);
  }
  await until(() => server.count('GET') === 21);
  await expect(clock.pass(500)).rejects.toThrow('nothing sleeps');
});

test.each([
  ['a server that refuses the credentials', 401, 'it answered 401: check the headers'],
  ['a server that has no such page', 404, 'it answered 404'],
  ['a server that is broken', 500, 'it answered 500'],
])('%s is mcp_unavailable', async (_, status, message) => {
  const server = await httpServer((_message, response, request) => {
    response.writeHead(status).end(`no: ${request.headers.authorization}`);
    return true;
  });
  const { open, lines } = makeMcpWorld({ secrets: { KEY: 'sesame-open-1' } });
  const failure: unknown = await open({
    it: { url: server.url, headers: { authorization: { secret: 'KEY' } } },
  }).catch((error: unknown) => error);
  expect(failure).toMatchObject({ code: 'mcp_unavailable', message: expect.stringContaining(message) as string });
  expect(lines.join('') + String(failure)).not.toContain('sesame');
});

test('a redirect is not followed, and takes no secret along', async () => {
  const target = await httpServer();
  const server = await httpServer((_, response) => {
    response.writeHead(307, { location: target.url }).end();
    return true;
  });
  const { open } = makeMcpWorld();
  await expect(open({ it: { url: server.url } })).rejects.toMatchObject({ code: 'mcp_unavailable' });
  expect(target.asked).toEqual([]);
});

test('a server on a private address that the operator has not allowed is refused', async () => {
  const { open } = makeMcpWorld();
  await expect(open({ it: { url: 'http://10.0.0.1/mcp' } })).rejects.toThrow(
    'MCP server it: 10.0.0.1 is not public, or resolves to an address that is not: the operator can add 10.0.0.1 to EGRESS_ALLOWED_HOSTS',
  );
});

test('a header that HTTP does not allow is reported by its name', async () => {
  const { open } = makeMcpWorld({ secrets: { KEY: 'sesame\nopen' } });
  const failure: unknown = await open({
    it: { url: 'http://127.0.0.1:1/mcp', headers: { 'x-key': { secret: 'KEY' } } },
  }).catch((error: unknown) => error);
  expect(String(failure)).toContain('header x-key cannot be sent');
  expect(String(failure)).not.toContain('sesame');
});

test('one run that is stopped while the connection is made does not take it from another', async () => {
  const gate = Promise.withResolvers<void>();
  let waiting: (() => void) | undefined;
  const server = await httpServer((message, response) => {
    if (message.method !== 'initialize' || waiting) return undefined;
    waiting = () => {
      response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 'waiting' });
      const result = {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'h', version: '1' },
      };
      response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }));
    };
    gate.resolve();
    return true;
  });
  const { open } = makeMcpWorld();
  const stop = new AbortController();
  const one = open({ it: { url: server.url } }, { signal: stop.signal });
  const two = open({ it: { url: server.url } });
  await gate.promise;
  stop.abort(new Error('cancelled'));
  await expect(one).rejects.toThrow('cancelled');
  waiting?.();
  expect(await call(await two, 'echo')).toBe('waiting');
});
