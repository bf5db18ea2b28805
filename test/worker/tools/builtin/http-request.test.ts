import type { IncomingHttpHeaders, RequestListener } from 'node:http';
import { gzipSync } from 'node:zlib';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createEgress } from '../../../../src/shared/egress/egress.ts';
import { createHttpRequestTool } from '../../../../src/worker/tools/builtin/http-request.ts';
import { type HostContext, ToolOutput } from '../../../../src/worker/tools/tool.ts';
import { refusedHosts, startListener, testLookup } from '../../../support/egress.ts';
import { calls, makeWorld } from '../world.ts';
import { callTool } from '../execute/context.ts';

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly truncated: boolean;
  readonly url?: string;
}

const echo: RequestListener = (request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const { method, headers } = request;
    response.end(JSON.stringify({ method, headers, body: Buffer.concat(chunks).toString() }));
  });
};

/** The tool beside a server on this machine that it may ask. */
async function world(
  answer: RequestListener = echo,
  { domains, named = true, onPublic }: { domains?: string[]; named?: boolean; onPublic?: () => void } = {},
) {
  const server = await startListener(answer);
  const allowedHosts = named ? [`127.0.0.1:${server.port}`] : [];
  const egress = createEgress({ allowedHosts, allowHttp: true, lookup: testLookup(onPublic) });
  onTestFinished(() => egress[Symbol.asyncDispose]());
  const tool = createHttpRequestTool({ egress, domains });
  const run = async (args: object, more?: Partial<HostContext>) => (await callTool(tool, args, more)).output;
  const ask = async (path: string, args: object = {}) => (await run({ url: server.url + path, ...args })) as Answer;
  const sent = async (args: object) =>
    JSON.parse((await ask('/', args)).body) as { method: string; headers: IncomingHttpHeaders; body: string };
  return { server, tool, run, ask, sent };
}

describe('a request', () => {
  test('answers status, some headers and the text', async () => {
    const { ask } = await world((_, response) => {
      response.writeHead(404, { 'content-type': 'text/plain', etag: '"1"', 'set-cookie': 'a=b', 'x-powered-by': 'me' });
      response.end('nothing here');
    });
    const { headers, ...rest } = await ask('/a');
    expect(rest).toEqual({ status: 404, body: 'nothing here', truncated: false });
    expect(headers).toMatchObject({ 'content-type': 'text/plain', etag: '"1"' });
    expect(Object.keys(headers)).not.toContain('set-cookie');
    expect(Object.keys(headers)).not.toContain('x-powered-by');
  });

  test('carries text as it is, and anything else as JSON', async () => {
    const { sent } = await world();
    expect(await sent({ method: 'POST', body: 'a=b', headers: { 'Content-Type': 'text/x' } })).toMatchObject({
      method: 'POST',
      body: 'a=b',
      headers: { 'content-type': 'text/x' },
    });
    expect(await sent({ method: 'PUT', body: { a: [1] } })).toMatchObject({
      body: '{"a":[1]}',
      headers: { 'content-type': 'application/json' },
    });
    expect(await sent({ method: 'PATCH', body: null })).toMatchObject({ body: 'null' });
  });

  test.each([
    ['POST', 'key'],
    ['PUT', 'key'],
    ['PATCH', 'key'],
    ['DELETE', 'key'],
    ['GET', undefined],
  ])('with %s carries the key of the call: %s', async (method, key) => {
    const { sent } = await world();
    expect((await sent({ method })).headers['idempotency-key']).toBe(key);
  });

  test('that was redirected says where the answer came from', async () => {
    const { ask, server } = await world((request, response) => {
      if (request.url === '/') response.writeHead(302, { location: '/there' }).end();
      else response.end();
    });
    expect((await ask('/')).url).toBe(`${server.url}/there`);
    expect(await ask('/there')).not.toHaveProperty('url');
  });

  test('gets 1 MiB of the answer at most, counted after decompression', async () => {
    const { ask } = await world((_, response) => {
      response.writeHead(200, { 'content-type': 'text/plain', 'content-encoding': 'gzip' });
      response.end(gzipSync(Buffer.alloc(8 * 1024 * 1024, 'x')));
    });
    const { body, truncated } = await ask('/');
    expect([body.length, truncated]).toEqual([1024 * 1024, true]);
  });
});

test.each<[string, string, Buffer, string]>([
  ['UTF-8', 'text/html', Buffer.from('ä€'), 'ä€'],
  ['its charset', 'text/plain; charset=ISO-8859-1', Buffer.from([0xe4]), 'ä'],
  ['its quoted charset', 'text/csv; header=no; charset="utf-16le"', Buffer.from('hi', 'utf16le'), 'hi'],
  ['UTF-8 where the charset is unknown', 'text/plain; charset=klingon', Buffer.from('hi'), 'hi'],
  ['JSON', 'application/problem+json', Buffer.from('{"a":1}'), '{"a":1}'],
  ['text where there is no type', '', Buffer.from('plain'), 'plain'],
  ['a note where there is no type and no text', '', Buffer.from([0xff, 0xfe, 0xfd]), '[not text: no type, 3 bytes]'],
  [
    'a note where it has zero bytes',
    'application/octet-stream',
    Buffer.from([65, 0]),
    '[not text: application/octet-stream, 2 bytes]',
  ],
  ['a note where it is a picture', 'image/png', Buffer.from('PNG'), '[not text: image/png, 3 bytes]'],
])('a body is read as %s', async (_, type, bytes, expected) => {
  const { ask } = await world((_request, response) => {
    response.writeHead(200, type === '' ? {} : { 'content-type': type }).end(bytes);
  });
  expect((await ask('/')).body).toBe(expected);
});

test('a character that the bound cuts is left out', async () => {
  const { ask } = await world((_, response) => {
    response.writeHead(200, { 'content-type': 'text/plain' }).end(`x${'ä'.repeat(1024 * 1024)}`);
  });
  const { body } = await ask('/');
  expect(body).toBe(`x${'ä'.repeat(512 * 1024 - 1)}`);
});

describe('arguments', () => {
  test.each([
    ['headers: Host cannot be set', { headers: { Host: 'a' } }],
    ['headers: Transfer-Encoding cannot be set', { headers: { 'Transfer-Encoding': 'chunked' } }],
    ['headers: connection cannot be set', { headers: { connection: 'close' } }],
    ['headers: X-HTTP-Method-Override cannot be set', { headers: { 'X-HTTP-Method-Override': 'DELETE' } }],
    ['headers: Proxy-Authorization cannot be set', { headers: { 'Proxy-Authorization': 'Basic x' } }],
    ['headers: the value of x has characters that a header cannot have', { headers: { x: 'a\r\nHost: b' } }],
    ['headers: the value of x has characters that a header cannot have', { headers: { x: 'a\nb' } }],
    ['headers: a name is not one that a header can have', { headers: { 'x\r\nHost': 'b' } }],
    ['headers: a name is not one that a header can have', { headers: { 'Authorization ': 'b' } }],
    ['headers: a name is not one that a header can have', { headers: { '': 'b' } }],
    ['headers: Authorization cannot be set by you', { headers: { Authorization: 'Bearer x' } }],
    ['headers: cookie cannot be set by you', { headers: { cookie: 'a=b' } }],
    ['headers: X-Api-Key cannot be set by you', { headers: { 'X-Api-Key': 'k' } }],
    ['headers: Idempotency-Key cannot be set by you', { headers: { 'Idempotency-Key': 'mine' } }],
    ['headers: private-token cannot be set by you', { headers: { 'private-token': 'k' } }],
    ['body: GET has none', { body: 'x' }],
    ['body: HEAD has none', { method: 'HEAD', body: 'x' }],
  ])('are refused: %s', async (problem, args) => {
    const { tool, server } = await world();
    expect(await tool.check({ url: server.url, ...args })).toEqual({ ok: false, problems: [problem] });
    expect(server.connections).toBe(0);
  });

  test('of another shape are refused', async () => {
    const { tool } = await world();
    for (const args of [{}, { url: 'x', method: 'TRACE' }, { url: 'x', more: 1 }, { url: 'x', timeoutMs: 120_001 }])
      expect((await tool.check(args)).ok).toBe(false);
  });

  test('show the rules which address is contacted', async () => {
    const { tool } = await world();
    expect(tool.facts?.({ url: 'https://a.example/' })).toEqual({ urls: ['https://a.example/'] });
  });
});

describe('headers that the agent has set', () => {
  const headers = { Authorization: 'Bearer secret', 'X-Team': 'shop' };

  test('may be credentials, and are checked all the same', async () => {
    const { tool, server } = await world();
    expect((await tool.check({ url: server.url, headers }, ['headers'])).ok).toBe(true);
    expect((await tool.check({ url: server.url, headers: { x: 'a\nb' } }, ['headers'])).ok).toBe(false);
  });

  test('go to hosts that the operator has named, and to no others', async () => {
    const call = async ({ tool, server }: Awaited<ReturnType<typeof world>>, url = server.url) => {
      const checked = await tool.check({ url, headers }, ['headers']);
      if (!checked.ok) throw new Error(checked.problems.join());
      const signal = AbortSignal.timeout(5_000);
      return await tool.execute(checked.value, { signal, idempotencyKey: 'key' } as HostContext);
    };
    const named = await world();
    expect(JSON.parse(((await call(named)) as Answer).body).headers).toMatchObject({
      authorization: 'Bearer secret',
      'x-team': 'shop',
    });
    await expect(call(named, 'https://a.example/')).rejects.toMatchObject({
      kind: 'capability_blocked',
      message: expect.stringContaining('authorization'),
    });
    const byDomain = await world(echo, { domains: ['gone.test'] });
    expect(await call(byDomain, 'https://gone.test/')).toMatchObject({ isError: true });
  });
});

describe('a refusal', () => {
  test.each(refusedHosts)('meets %s before a connection', async (host) => {
    const controller = new AbortController();
    const { run, server } = await world(echo, { named: false, onPublic: () => controller.abort() });
    const url = `http://${host}:${server.port}/`;
    // At the first question this name is public; no server is at that address.
    if (host === 'rebind.test') await run({ url }, { signal: controller.signal }).catch(() => {});
    await expect(run({ url })).rejects.toMatchObject({ kind: 'capability_blocked' });
    expect(server.connections).toBe(0);
  });

  test.each<[string, string, string]>([
    ['a host beside the domains', 'https://b.example/', 'capability_blocked'],
    ['another scheme', 'file:///etc/passwd', 'capability_blocked'],
    ['what is no URL', 'a.example/path', 'invalid_input'],
  ])('meets %s', async (_, url, kind) => {
    const { run } = await world(echo, { domains: ['a.example'] });
    await expect(run({ url })).rejects.toMatchObject({ kind });
  });

  test('meets a redirect to a metadata service', async () => {
    const { ask } = await world((_, response) => {
      response.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data/' }).end();
    });
    await expect(ask('/')).rejects.toMatchObject({ kind: 'capability_blocked' });
    await expect(ask('/', { method: 'POST' })).rejects.toMatchObject({ kind: 'outcome_unknown' });
  });
});

describe('a request without an answer', () => {
  test('that reads has timed out, and one that writes may have taken effect', async () => {
    const { ask } = await world(() => {});
    await expect(ask('/', { timeoutMs: 50 })).rejects.toMatchObject({ kind: 'timeout' });
    await expect(ask('/', { timeoutMs: 50, method: 'POST' })).rejects.toMatchObject({ kind: 'outcome_unknown' });
  });

  test('because its connection broke off is an error result when it reads, and unknown when it writes', async () => {
    const { ask } = await world((request) => void request.socket.destroy());
    expect(await ask('/')).toBeInstanceOf(ToolOutput);
    expect(await ask('/')).toMatchObject({ isError: true, value: expect.stringContaining('127.0.0.1') });
    await expect(ask('/', { method: 'DELETE' })).rejects.toMatchObject({ kind: 'outcome_unknown' });
  });

  test('because there is no such host is an error result, also when it writes', async () => {
    const { run } = await world();
    expect(await run({ url: 'https://gone.test/', method: 'POST' })).toMatchObject({ isError: true });
  });

  test('because the run was cancelled ends with the reason of that', async () => {
    const arrived = Promise.withResolvers<void>();
    const { run, server } = await world(() => arrived.resolve());
    const controller = new AbortController();
    const asked = run({ url: server.url }, { signal: controller.signal });
    await arrived.promise;
    controller.abort(new Error('cancelled'));
    await expect(asked).rejects.toThrow('cancelled');
  });
});

test.each([
  ['GET', 'not_done'],
  ['HEAD', 'not_done'],
  ['POST', 'unknown'],
  ['DELETE', 'unknown'],
])('a %s whose worker died is %s', async (method, outcome) => {
  const { tool } = await world();
  expect(await tool.reconcile?.('key', { url: 'https://a.example/', method }, new AbortController().signal)).toEqual({
    outcome,
  });
});

describe('through the executor', () => {
  const options = {
    http_request: { args: { headers: { Authorization: { secret: 'shop_token' } } } },
  };
  const secrets = {
    get: (name: string) => (name === 'shop_token' ? 'Bearer shop-secret' : undefined),
    values: () => ['Bearer shop-secret'],
  };

  test('a secret of the agent reaches the server, and neither the events nor the journal', async () => {
    let seen: string | undefined;
    const { tool, server } = await world((request, response) => {
      seen = request.headers.authorization;
      response.end('done');
    });
    const executor = makeWorld();
    const asked = calls({ name: 'http_request', args: JSON.stringify({ url: server.url, method: 'POST', body: 'x' }) });
    await executor.run([tool], asked, {}, { options, secrets });
    expect(seen).toBe('Bearer shop-secret');
    expect(executor.result(0).content).toContain('done');
    expect(executor.result(0)).toMatchObject({ trust: 'web-search' });
    expect(JSON.stringify([executor.events, executor.journal])).not.toContain('shop-secret');
  });

  test('a model that sets headers, where the agent does or where they are credentials, gets an error that says so', async () => {
    const { tool, server } = await world();
    const executor = makeWorld();
    const ask = (headers: object) =>
      calls({ name: 'http_request', args: JSON.stringify({ url: server.url, headers }) });
    await executor.run([tool], ask({ accept: 'text/plain' }), {}, { options, secrets });
    expect(executor.result(0)).toMatchObject({
      errorKind: 'invalid_input',
      content: expect.stringContaining('headers'),
    });
    const other = makeWorld();
    await other.run([tool], ask({ Authorization: 'Bearer mine' }));
    expect(other.result(0)).toMatchObject({
      errorKind: 'invalid_input',
      content: expect.stringContaining('Authorization cannot be set by you'),
    });
    expect(server.connections).toBe(0);
  });

  test('a refused address is an error result that says who can allow it', async () => {
    const { tool } = await world(echo, { named: false });
    const executor = makeWorld();
    await executor.run([tool], calls({ name: 'http_request', args: '{"url":"http://169.254.169.254/latest/"}' }));
    expect(executor.result(0)).toMatchObject({
      errorKind: 'capability_blocked',
      content: expect.stringContaining('EGRESS_ALLOWED_HOSTS'),
    });
  });
});
