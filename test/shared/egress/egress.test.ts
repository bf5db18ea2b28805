import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { IncomingMessage, RequestListener } from 'node:http';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createEgress, type EgressOptions } from '../../../src/shared/egress/egress.ts';
import { EgressError, type EgressInit } from '../../../src/shared/egress/egress-fetch.ts';
import { refusedHosts, startListener, testLookup } from '../../support/egress.ts';

function egressWith(options: Partial<EgressOptions> = {}) {
  const egress = createEgress({ allowedHosts: [], lookup: testLookup(), ...options });
  onTestFinished(() => egress[Symbol.asyncDispose]());
  return egress;
}

/** What a request came to: its reason, or the status of its answer. */
async function outcome(request: Promise<{ readonly status: number }>): Promise<string | number> {
  try {
    return (await request).status;
  } catch (error) {
    if (error instanceof EgressError) return error.reason;
    throw error;
  }
}

/** A lookup, and a signal that ends the request which it has answered with a public address, at which no server is. */
function rebinding() {
  const controller = new AbortController();
  const lookup = testLookup(() => controller.abort(new EgressError('timeout', 'there is no server')));
  return { lookup, signal: controller.signal };
}

/** A server that may be asked, and an egress that may ask only it. */
async function world(answer: RequestListener, options: Partial<EgressOptions> = {}) {
  const server = await startListener(answer);
  const egress = egressWith({ allowedHosts: [`127.0.0.1:${server.port}`], ...options });
  return { server, egress, fetch: (path: string, init?: EgressInit) => egress.fetch(server.url + path, init) };
}

const reasonOf = (host: string) => (host.includes('@') ? 'userinfo' : 'private_address');
const text = (body: Uint8Array) => Buffer.from(body).toString('utf8');

test('the list of refused hosts is there', () => {
  expect(refusedHosts).toHaveLength(30);
});

describe.each(['http', 'https'])('over %s', (scheme) => {
  test.each(refusedHosts)('%s is refused before a connection', async (host) => {
    const listener = await startListener();
    const { lookup, signal } = rebinding();
    // Cleartext is allowed here, so that nothing but the host can be what is refused.
    const egress = egressWith({ allowHttp: true, lookup });
    const url = `${scheme}://${host}:${listener.port}/`;
    if (host === 'rebind.test') await outcome(egress.fetch(url, { signal }));
    expect(await outcome(egress.fetch(url))).toBe(reasonOf(host));
    expect(signal.aborted).toBe(host === 'rebind.test');
    expect(listener.connections).toBe(0);
  });

  test.each(refusedHosts)('%s is refused for a client that streams', async (host) => {
    const listener = await startListener();
    const { lookup, signal } = rebinding();
    const fetch = egressWith({ allowHttp: true, lookup }).asFetch();
    const url = `${scheme}://${host}:${listener.port}/`;
    if (host === 'rebind.test') await outcome(fetch(url, { signal }));
    expect(await outcome(fetch(url))).toBe(reasonOf(host));
    expect(signal.aborted).toBe(host === 'rebind.test');
    expect(listener.connections).toBe(0);
  });

  test.each(refusedHosts)('%s is refused as the target of a redirect', async (host) => {
    const listener = await startListener();
    const location = `${scheme}://${host}:${listener.port}/`;
    const { lookup, signal } = rebinding();
    const { fetch } = await world((_, response) => void response.writeHead(302, { location }).end(), {
      allowHttp: true,
      lookup,
    });
    if (host === 'rebind.test') await outcome(fetch('/', { signal }));
    expect(await outcome(fetch('/'))).toBe(reasonOf(host));
    expect(signal.aborted).toBe(host === 'rebind.test');
    expect(listener.connections).toBe(0);
  });
});

describe('a URL', () => {
  test.each([
    ['no url', 'invalid_url'],
    ['http://1.2.3.4.5/', 'invalid_url'],
    ['file:///etc/passwd', 'insecure_url'],
    ['ftp://a.example/', 'insecure_url'],
    ['data:text/plain,hi', 'insecure_url'],
    ['blob:https://a.example/1', 'insecure_url'],
    ['http://a.example/', 'insecure_url'],
    ['https://user@a.example/', 'userinfo'],
    ['https://:pw@a.example/', 'userinfo'],
    ['https://a.example./', 'private_address'],
    ['https://metadata.google.internal/', 'private_address'],
    ['https://METADATA.google.internal/', 'private_address'],
    ['https://api.default.svc.cluster.local/', 'private_address'],
    ['https://db/', 'private_address'],
    ['https://x.localhost/', 'private_address'],
    ['https://ⓛocalhost/', 'private_address'],
    ['https://①②⑦.⓪.⓪.①/', 'private_address'],
    ['https://[::127.0.0.1]/', 'private_address'],
    ['https://[2002:7f00:1::]/', 'private_address'],
    ['https://[ff02::1]/', 'private_address'],
    ['https://a.example/', undefined],
    ['https://a.example:8443/path?key=value', undefined],
    ['https://8.8.8.8/', undefined],
  ])('%s is checked without a lookup: %s', (url, reason) => {
    const lookup = testLookup();
    expect(egressWith({ lookup }).check(url)?.reason).toBe(reason);
    expect(lookup.asked).toEqual([]);
  });

  test('beside the named domains is refused, and only exact names are named', () => {
    const egress = egressWith();
    const check = (url: string) => egress.check(url, ['api.example', 'b.example:8443'])?.reason;
    expect(['https://api.example/', 'https://b.example:8443/'].map(check)).toEqual([undefined, undefined]);
    const others = ['https://x.api.example/', 'https://api.example.evil.example/', 'https://b.example/'];
    expect(others.map(check)).toEqual(others.map(() => 'domain_not_allowed'));
    expect(egress.check('https://127.0.0.1/', ['127.0.0.1'])?.reason).toBe('private_address');
  });

  test('may name only the ports that are given', () => {
    const egress = egressWith({ ports: [443], allowedHosts: ['db.internal:5432'] });
    const check = (url: string) => egress.check(url)?.reason;
    expect(check('https://a.example/')).toBeUndefined();
    expect(check('https://a.example:8443/')).toBe('port_not_allowed');
    expect(check('http://db.internal:5432/')).toBeUndefined();
  });

  test('of an allowed host may be private and without TLS, and only at the port that is named', () => {
    const egress = egressWith({ allowedHosts: ['10.0.0.7:8000', 'db.internal', '[fd00::1]:8000', 'localhost'] });
    const check = (url: string) => egress.check(url)?.reason;
    const fine = ['http://10.0.0.7:8000/', 'https://DB.internal./', 'http://[fd00::1]:8000/', 'http://localhost:1/'];
    expect(fine.map(check)).toEqual(fine.map(() => undefined));
    expect(fine.map((url) => egress.names(url))).toEqual(fine.map(() => true));
    expect(check('http://10.0.0.7/')).toBe('private_address');
    expect(check('http://user@10.0.0.7:8000/')).toBe('userinfo');
    expect(egress.names('http://10.0.0.7/')).toBe(false);
    expect(['10.0.0.7', 'db.internal', '[fd00::1]', 'a.example'].map((host) => egress.isPrivateHost(host))).toEqual([
      false,
      false,
      false,
      false,
    ]);
    expect(['10.0.0.8', '[fd00::2]', 'cache.internal'].map((host) => egress.isPrivateHost(host))).toEqual([
      true,
      true,
      true,
    ]);
  });
});

test('a refusal says how to allow the host, and not what the name resolved to', async () => {
  const error = await egressWith()
    .fetch('https://meta.test/')
    .catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ message: expect.stringMatching(/meta\.test .*EGRESS_ALLOWED_HOSTS/) });
  expect((error as Error).message).not.toContain('169.254');
});

test('a name that changes its address never gets a connection to this machine', async () => {
  const listener = await startListener();
  let asked = 0;
  for (let round = 0; round < 10; round++) {
    const controller = new AbortController();
    const egress = egressWith({
      allowHttp: true,
      lookup: (_name, _options, callback) => {
        const isPublic = asked++ % 2 === 0;
        callback(null, [isPublic ? { address: '2d00::1', family: 6 } : { address: '127.0.0.1', family: 4 }]);
        // There is no server at that address.
        if (isPublic) setImmediate(() => controller.abort());
      },
    });
    await egress.fetch(`http://flip.test:${listener.port}/`, { signal: controller.signal }).catch(() => {});
  }
  expect(asked).toBe(10);
  expect(listener.connections).toBe(0);
});

test('proxies that the environment names are not used', async () => {
  const proxy = await startListener();
  const server = await startListener((_, response) => void response.end('direct'));
  const names = ['http_proxy', 'https_proxy', 'all_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'];
  const child = spawn(process.execPath, [join(import.meta.dirname, '../../fixtures/egress/ask.ts'), server.url], {
    env: { NODE_USE_ENV_PROXY: '1', ...Object.fromEntries(names.map((name) => [name, proxy.url])) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const said: string[] = [];
  child.stdout.on('data', (chunk: Buffer) => said.push(chunk.toString()));
  await once(child, 'close');
  expect(said.join('')).toBe('direct direct');
  expect(proxy.connections).toBe(0);
  expect(server.connections).toBeGreaterThan(0);
});

describe('an answer', () => {
  test('comes with status, headers and the decompressed body', async () => {
    const { fetch, server } = await world((request, response) => {
      response.writeHead(418, { 'content-encoding': 'gzip', 'x-seen': request.headers.accept ?? '' });
      response.end(gzipSync(`${request.method} ${request.url}`));
    });
    const answer = await fetch('/a?b', { headers: { accept: 'text/plain' } });
    expect([answer.status, text(answer.body), answer.truncated]).toEqual([418, 'GET /a?b', false]);
    expect([answer.headers.get('x-seen'), answer.url]).toEqual(['text/plain', `${server.url}/a?b`]);
  });

  test('that grows when it is decompressed is counted as it comes out', async () => {
    const bomb = gzipSync(gzipSync(Buffer.alloc(64 * 1024 * 1024)));
    const { fetch } = await world((_, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip, gzip' }).end(bomb);
    });
    expect(bomb.length).toBeLessThan(10_000);
    expect(await outcome(fetch('/'))).toBe('too_large');
    const cut = await fetch('/', { overflow: 'cut', maxBytes: 1_000 });
    expect([cut.truncated, cut.body.length]).toEqual([true, 1_000]);
  });

  test('without an end is cut off, and its connection closed', async () => {
    const closed = Promise.withResolvers<void>();
    const { fetch } = await world((_, response) => {
      const chunk = Buffer.alloc(64 * 1024, 'x');
      const more = () => {
        while (!response.destroyed && response.write(chunk));
      };
      response.on('drain', more).on('close', () => closed.resolve());
      more();
    });
    const answer = await fetch('/', { overflow: 'cut', maxBytes: 100_000 });
    expect([answer.truncated, answer.body.length]).toEqual([true, 100_000]);
    await closed.promise;
    expect(await outcome(fetch('/'))).toBe('too_large');
  });

  test('of exactly the bound is whole', async () => {
    const { fetch } = await world((_, response) => void response.end('x'.repeat(100)));
    expect(await fetch('/', { maxBytes: 100 })).toMatchObject({ truncated: false });
    expect(await outcome(fetch('/', { maxBytes: 99 }))).toBe('too_large');
  });

  test.each<[string, RequestListener]>([
    ['never begins', () => {}],
    ['never ends', (_, response) => void response.write('and then')],
    ['comes drop by drop', (_, response) => void response.writeHead(200, { 'content-length': 9 }).write('1')],
  ])('that %s ends at the deadline', async (_, answer) => {
    const { fetch } = await world(answer);
    expect(await outcome(fetch('/', { deadlineMs: 50 }))).toBe('timeout');
  });

  test('for a name that is never resolved ends at the deadline', async () => {
    expect(await outcome(egressWith({ lookup: () => {} }).fetch('https://a.test/', { deadlineMs: 50 }))).toBe(
      'timeout',
    );
  });

  test('whose redirects together take too long ends at the deadline', async () => {
    const { fetch } = await world((request, response) => {
      if (request.url === '/') response.writeHead(302, { location: '/slow' }).end();
    });
    expect(await outcome(fetch('/', { deadlineMs: 100 }))).toBe('timeout');
  });

  test('with a head beyond the bound is refused', async () => {
    const { fetch } = await world((request, response) => {
      response.writeHead(200, { big: 'x'.repeat(Number(request.url?.slice(1))) }).end();
    });
    expect(await outcome(fetch('/30000'))).toBe(200);
    expect(await outcome(fetch('/60000'))).toBe('too_large');
  });

  test('that breaks off, or never comes, is unreachable', async () => {
    const { fetch, server } = await world((_, response) => {
      response.writeHead(200, { 'content-length': 9 }).write('1', () => response.destroy());
    });
    expect(await outcome(fetch('/'))).toBe('unreachable');
    const egress = egressWith({ allowedHosts: ['gone.test'] });
    const gone = await egress.fetch('http://gone.test/').catch((error: unknown) => error);
    expect(gone).toMatchObject({
      reason: 'unreachable',
      mayHaveArrived: false,
      message: expect.stringContaining('ENOTFOUND'),
    });
    expect(server.connections).toBe(1);
  });

  test('is abandoned with the reason of the signal', async () => {
    const arrived = Promise.withResolvers<void>();
    const { fetch } = await world(() => arrived.resolve());
    const controller = new AbortController();
    const asked = fetch('/', { signal: controller.signal });
    await arrived.promise;
    controller.abort(new Error('enough'));
    await expect(asked).rejects.toThrow('enough');
    await expect(fetch('/', { signal: controller.signal })).rejects.toThrow('enough');
  });
});

test('headers that belong to the connection are not sent', async () => {
  let seen: IncomingMessage['headers'] = {};
  const { fetch, server } = await world((request, response) => {
    seen = request.headers;
    response.end();
  });
  await fetch('/', {
    method: 'POST',
    body: 'hi',
    headers: { host: 'evil.example', 'transfer-encoding': 'chunked', te: 'x' },
  });
  expect(seen).toMatchObject({ host: `127.0.0.1:${server.port}`, 'content-length': '2', 'user-agent': 'millrace' });
  expect(seen).not.toHaveProperty('te');
});

describe('a redirect', () => {
  /** Answers `/<status>/<rest>` with a redirect to the rest, everything else with what was asked. */
  const echo: RequestListener = (request, response) => {
    const [, status, rest] = /^\/(\d{3})\/(.*)$/.exec(request.url ?? '') ?? [];
    if (status !== undefined) {
      response.writeHead(Number(status), { location: rest?.startsWith('http') ? rest : `/${rest}` }).end();
      return;
    }
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () =>
      response.end(
        JSON.stringify({ method: request.method, headers: request.headers, body: Buffer.concat(chunks).toString() }),
      ),
    );
  };
  const headers = {
    authorization: 'Bearer x',
    cookie: 'a=b',
    'x-api-key': 'k',
    'x-other': 'o',
    accept: 'text/plain',
    'content-type': 'text/x',
  };

  test.each([
    [301, 'POST', 'GET'],
    [302, 'POST', 'GET'],
    [303, 'POST', 'GET'],
    [303, 'PUT', 'GET'],
    [303, 'HEAD', 'HEAD'],
    [301, 'PUT', 'PUT'],
    [302, 'DELETE', 'DELETE'],
    [307, 'POST', 'POST'],
    [308, 'PATCH', 'PATCH'],
  ])('of status %s makes of %s a %s', async (status, method, becomes) => {
    const asked: unknown[] = [];
    const { fetch } = await world((request, response) => {
      asked.push(request.method);
      echo(request, response);
    });
    const body = method === 'HEAD' ? undefined : 'hello';
    const answer = await fetch(`/${status}/end`, { method, headers, ...(body !== undefined && { body }) });
    expect(answer.url).toMatch(/\/end$/);
    expect(asked).toEqual([method, becomes]);
    if (method === 'HEAD') return;
    const seen = JSON.parse(text(answer.body));
    const keepsBody = becomes !== 'GET';
    expect([seen.method, seen.body]).toEqual([becomes, keepsBody ? 'hello' : '']);
    expect(seen.headers['content-type']).toBe(keepsBody ? 'text/x' : undefined);
    expect(seen.headers).toMatchObject({ authorization: 'Bearer x', cookie: 'a=b', 'x-other': 'o' });
  });

  test('to another origin takes no header along but a safe few, also when it comes back', async () => {
    const other = await startListener(echo);
    const { fetch, server } = await world(echo, { allowedHosts: ['127.0.0.1'] });
    for (const path of [`/307/${other.url}/end`, `/307/${other.url}/307/${server.url}/end`]) {
      const seen = JSON.parse(text((await fetch(path, { method: 'POST', body: 'b', headers })).body));
      expect(seen).toMatchObject({ body: 'b', headers: { accept: 'text/plain', 'content-type': 'text/x' } });
      for (const name of ['authorization', 'cookie', 'x-api-key', 'x-other'])
        expect(seen.headers).not.toHaveProperty(name);
    }
  });

  test('is followed three times', async () => {
    const { fetch, server } = await world(echo);
    expect(await outcome(fetch('/302/302/302/end'))).toBe(200);
    expect(await outcome(fetch('/302/302/302/302/end'))).toBe('too_many_redirects');
    expect(await outcome(fetch('/302/end', { maxRedirects: 0 }))).toBe('too_many_redirects');
    expect(server.connections).toBeGreaterThan(0);
  });

  test('in a circle ends', async () => {
    let asked = 0;
    const { fetch } = await world((_, response) => {
      asked++;
      response.writeHead(302, { location: '/' }).end();
    });
    expect(await outcome(fetch('/'))).toBe('too_many_redirects');
    expect(asked).toBe(4);
  });

  test('to a host that is not among the domains is refused', async () => {
    const other = await startListener(echo);
    const { fetch, server } = await world(echo, { allowedHosts: ['127.0.0.1'] });
    const domains = [`127.0.0.1:${server.port}`];
    expect(await outcome(fetch(`/302/${other.url}/end`, { domains }))).toBe('domain_not_allowed');
    expect(other.connections).toBe(0);
  });

  test.each([
    ['http://a.example/', 'insecure_url'],
    ['file:///etc/passwd', 'insecure_url'],
    ['https://u:p@a.example/', 'userinfo'],
    ['http://[', 'invalid_url'],
  ])('to %s is refused', async (location, reason) => {
    const { fetch } = await world((_, response) => void response.writeHead(301, { location }).end());
    expect(await outcome(fetch('/'))).toBe(reason);
  });

  test('without a target, and a status that is none, are answers', async () => {
    const { fetch } = await world((request, response) => {
      if (request.url === '/304') response.writeHead(304, { location: '/x' }).end();
      else response.writeHead(302).end('here');
    });
    expect((await fetch('/304')).status).toBe(304);
    expect(text((await fetch('/')).body)).toBe('here');
  });
});

describe('a client that streams', () => {
  test('gets the answer as it comes, as a response of the platform', async () => {
    const begun = Promise.withResolvers<void>();
    const { egress, server } = await world((request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'mcp-session-id': '1' }).write('data: 1\n\n');
      void begun.promise.then(() => response.end(`data: ${request.method} ${String(request.headers['x-a'])}\n\n`));
    });
    const response = await egress.asFetch()(server.url, {
      method: 'POST',
      body: '{}',
      headers: new Headers({ 'x-a': 'b' }),
    });
    expect(response).toBeInstanceOf(Response);
    expect([response.status, response.headers.get('mcp-session-id')]).toEqual([200, '1']);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const first = await reader.read();
    expect(text(first.value ?? new Uint8Array())).toBe('data: 1\n\n');
    begun.resolve();
    const second = await reader.read();
    expect(text(second.value ?? new Uint8Array())).toBe('data: POST b\n\n');
    expect((await reader.read()).done).toBe(true);
  });

  test('gets an error that redirects are not followed', async () => {
    const { egress, server } = await world((request, response) => {
      response.writeHead(request.url === '/' ? 307 : 200, { location: '/other' }).end();
    });
    expect(await outcome(egress.asFetch()(server.url))).toBe('too_many_redirects');
    expect(await outcome(egress.asFetch()(`${server.url}/other`))).toBe(200);
  });

  test('gets an empty answer, and its own abort', async () => {
    const { egress, server } = await world((request, response) => {
      if (request.method === 'DELETE') response.writeHead(204).end();
    });
    expect(await outcome(egress.asFetch()(server.url, { method: 'DELETE' }))).toBe(204);
    const controller = new AbortController();
    const asked = egress.asFetch()(server.url, { signal: controller.signal });
    controller.abort(new Error('enough'));
    await expect(asked).rejects.toThrow('enough');
  });

  test.each([
    ['application/json', 'x'.repeat(5_000), 'x'.repeat(900)],
    ['text/event-stream', `data: ${'x'.repeat(5_000)}`, `data: ${'x'.repeat(600)}\n\n`.repeat(10)],
    ['text/event-stream', 'data: y\n'.repeat(500), `data: ${'x'.repeat(600)}\r\n\r\n`.repeat(10)],
    ['text/event-stream', 'data: y\r\n'.repeat(500), `data: ${'x'.repeat(600)}\r\r`.repeat(10)],
  ])('has to hold no more of %s at once than the bound', async (type, tooMuch, fine) => {
    const { egress, server } = await world((request, response) => {
      response.writeHead(200, { 'content-type': type }).end(request.url === '/fine' ? fine : tooMuch);
    });
    const fetch = egress.asFetch({ maxBytes: 1_000 });
    expect(await (await fetch(`${server.url}/fine`)).text()).toBe(fine);
    await expect((await fetch(server.url)).text()).rejects.toMatchObject({ reason: 'too_large' });
  });
});
