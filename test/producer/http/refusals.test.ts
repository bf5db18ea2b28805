import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { request } from '../cli/options/client.ts';
import { serverWorld } from './server-world.ts';

const json = (more: object) => JSON.stringify({ ...request, ...more });
const nested = (levels: number) =>
  `{"agent":"a","input":"x","metadata":${'{"a":'.repeat(levels - 2)}{}${'}'.repeat(levels - 2)}}`;
const utf16 = new TextDecoder('latin1').decode(Buffer.from(JSON.stringify(request), 'utf16le'));

const refused: [string, string, number, string][] = [
  ['no JSON', '{"agent":', 400, 'invalid_json'],
  ['an empty body', '', 400, 'invalid_json'],
  ['a byte order mark', `\uFEFF${JSON.stringify(request)}`, 400, 'invalid_json'],
  ['UTF-16', utf16, 400, 'invalid_json'],
  ['NaN', '{"agent":"a","input":"x","priority":NaN}', 400, 'invalid_json'],
  ['two megabytes', json({ input: 'x'.repeat(2 * 1024 * 1024) }), 413, 'payload_too_large'],
  ['an input over its limit', json({ input: 'x'.repeat(256 * 1024 + 1) }), 413, 'payload_too_large'],
  ['65 levels', nested(65), 400, 'too_deep'],
  ['100,000 levels', '['.repeat(100_000), 400, 'too_deep'],
  ['the key __proto__', '{"agent":"a","input":"x","metadata":{"__proto__":{"polluted":"1"}}}', 400, 'invalid_json'],
  [
    'the keys constructor.prototype',
    '{"agent":"a","input":"x","constructor":{"prototype":{"polluted":1}}}',
    400,
    'invalid_json',
  ],
  ['an unknown field', json({ colour: 'red' }), 400, 'validation'],
  ['a number as text', json({ priority: '1' }), 400, 'validation'],
  ['a number beyond all bounds', '{"agent":"a","input":"x","priority":1e999}', 400, 'validation'],
  ['an unsafe number', '{"agent":"a","input":"x","limits":{"maxSteps":9007199254740993}}', 400, 'validation'],
  ['maxTurns 0', json({ overrides: { maxTurns: 0 } }), 400, 'validation'],
  ['a list', '[]', 400, 'validation'],
  ['null', 'null', 400, 'invalid_json'],
  ['a thread id with a slash', json({ thread: '../x' }), 400, 'invalid_id'],
  ['a key that looks secret', json({ metadata: { api_key: 'x' } }), 422, 'secret_in_payload'],
];

test.each(refused)('a request with %s is refused', async (_, body, status, code) => {
  const { send, mill } = await serverWorld();
  const answer = await send('POST', '/v1/runs', body);
  expect([answer.status, answer.body.error?.code]).toEqual([status, code]);
  expect(Object.keys(answer.body)).toEqual(['error']);
  expect(answer.body.error).toMatchObject({ message: expect.any(String), retryable: false });
  expect((await mill.list()).runs).toEqual([]);
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
});

test('64 levels are not too deep, and brackets in text do not count', async () => {
  const { send } = await serverWorld();
  expect((await send('POST', '/v1/runs', nested(64))).body.error.code).toBe('validation');
  expect((await send('POST', '/v1/runs', json({ input: `\\"${'['.repeat(100)}` }))).status).toBe(202);
});

test.each([
  ['application/x-www-form-urlencoded', {}],
  ['text/plain', {}],
  ['application/json; charset=utf-16', {}],
  ['application/json', { 'content-encoding': 'gzip' }],
])('a body as %s %o is refused', async (type, headers) => {
  const { send } = await serverWorld();
  const answer = await send('POST', '/v1/runs', JSON.stringify(request), { 'content-type': type, ...headers });
  expect([answer.status, answer.body.error.code]).toEqual([415, 'unsupported_media_type']);
});

test('a body that grows past the limit without announcing it is refused and the connection closed', async () => {
  const { url } = await serverWorld();
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk) => (answer += chunk.toString()));
  socket.on('error', () => {});
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.write(
    'POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n',
  );
  const block = `10000\r\n${'x'.repeat(0x1_00_00)}\r\n`;
  for (let i = 0; i < 24; i++) socket.write(block);
  await closed;
  expect(answer).toMatch(/^HTTP\/1\.1 413 /);
  expect(answer).toContain('payload_too_large');
  expect(answer.toLowerCase()).toContain('connection: close');
});

const wrongIds = ['a:b', '%7Bx%7D', '*', '..%2F..', '%00', '%20', 'x'.repeat(129), 'x'.repeat(5_000)];

test.each(wrongIds.map((id) => [id.slice(0, 40), id]))('the run id %s is refused on every route', async (_, id) => {
  const { send } = await serverWorld();
  for (const [method, rest] of [
    ['GET', ''],
    ['GET', '/result'],
    ['GET', '/events'],
    ['POST', '/cancel'],
  ] as const) {
    const answer = await send(method, `/v1/runs/${id}${rest}`);
    expect([answer.status, answer.body.error.code], rest).toEqual([400, 'invalid_id']);
  }
});

test('an empty run id is refused', async () => {
  const { send } = await serverWorld();
  const answer = await send('GET', '/v1/runs/');
  expect([answer.status, answer.body.error.code]).toEqual([400, 'invalid_id']);
});

test('a run that does not exist is not found on every route', async () => {
  const { send } = await serverWorld();
  for (const [method, rest] of [
    ['GET', ''],
    ['GET', '/result'],
    ['GET', '/events'],
    ['POST', '/cancel'],
  ] as const) {
    const answer = await send(method, `/v1/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV${rest}`);
    expect([answer.status, answer.body.error.code], rest).toEqual([404, 'run_not_found']);
  }
});

test.each([
  '/v1/runs?limit=0',
  '/v1/runs?limit=101',
  '/v1/runs?limit=1e1',
  '/v1/runs?limit=1&limit=2',
  '/v1/runs?status=odd',
  '/v1/runs?cursor=odd',
  '/v1/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV/result?wait=61',
  '/v1/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV/result?wait=-1',
  '/v1/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV/result?wait=soon',
  '/v1/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV/events?after=-1',
  '/%',
])('the query of %s is refused', async (path) => {
  const { send } = await serverWorld();
  const answer = await send('GET', path);
  expect([answer.status, answer.body.error.code]).toEqual([400, 'validation']);
});

test('paths and methods that do not exist are not found', async () => {
  const { send } = await serverWorld();
  for (const [method, path] of [
    ['GET', '/v2'],
    ['PUT', '/v1/runs'],
    ['DELETE', '/healthz'],
    ['GET', '/v1/approval'],
  ] as const) {
    const answer = await send(method, path);
    expect([answer.status, answer.body]).toEqual([
      404,
      { error: { code: 'not_found', message: expect.any(String), retryable: false } },
    ]);
  }
});

test('a HEAD of an event stream, which would never end, is not found', async () => {
  const { send, start } = await serverWorld();
  expect((await send('HEAD', `/v1/runs/${(await start()).runId}/events`)).status).toBe(404);
});

test('a body that is not UTF-8 is refused', async () => {
  const { url } = await serverWorld();
  const body = Buffer.from('{"agent":"a","input":"\xff"}', 'latin1');
  const answer = await fetch(`${url}/v1/runs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  });
  expect([answer.status, await answer.json()]).toMatchObject([400, { error: { code: 'invalid_json' } }]);
});

test('a client that sends all of a large body before it reads still gets its answer', async () => {
  const { url } = await serverWorld();
  const socket = connect(Number(new URL(url).port), '127.0.0.1').pause();
  const size = 8 * 1024 * 1024;
  const head = `Host: localhost\r\nContent-Type: application/json\r\nContent-Length: ${size}\r\n\r\n`;
  socket.write(`POST /v1/runs HTTP/1.1\r\n${head}`);
  await new Promise((resolve) => socket.write(Buffer.alloc(size, 'x'), resolve));
  const answer = Buffer.concat(await Array.fromAsync(socket as AsyncIterable<Buffer>)).toString();
  expect(answer).toMatch(/^HTTP\/1\.1 413 [^]*"payload_too_large"/);
});

test('what is not HTTP gets an error too', async () => {
  const { url, send } = await serverWorld();
  const long = await send('GET', `/v1/runs/${'x'.repeat(100_000)}`);
  expect([long.status, long.body.error.code]).toEqual([431, 'payload_too_large']);
  const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write('nonsense\r\n\r\n'));
  const chunks = await Array.fromAsync(socket as AsyncIterable<Buffer>);
  expect(Buffer.concat(chunks).toString()).toMatch(/^HTTP\/1\.1 400 [^]*"code":"validation"/);
});

test('a full queue answers 429 and says when to come back', async () => {
  const { send } = await serverWorld({ client: { queueMaxLength: 1 } });
  expect((await send('POST', '/v1/runs', request)).status).toBe(202);
  const { status, body, headers } = await send('POST', '/v1/runs', request);
  expect([status, body.error.code, body.error.retryable]).toEqual([429, 'queue_full', true]);
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
});

test('a defect answers 500 with an id that finds it in the log, and reveals no secret', async () => {
  const lines: string[] = [];
  const { send, mill } = await serverWorld({ lines, secrets: ['hunter2-hunter2'] });
  Object.assign(mill, {
    forTenant: () => ({ get: async () => Promise.reject(new TypeError('cannot read hunter2-hunter2 of undefined')) }),
  });
  const { status, body, headers } = await send('GET', '/v1/runs/x', undefined, { 'x-request-id': 'my-id' });
  const message = 'cannot read [redacted] of undefined';
  expect([status, body]).toEqual([
    500,
    { error: { code: 'internal', message, retryable: false, correlationId: 'my-id' } },
  ]);
  expect(headers.get('x-request-id')).toBe('my-id');
  const logged = lines.find((line) => line.includes('my-id'));
  expect(JSON.parse(logged ?? '{}')).toMatchObject({
    level: 'error',
    requestId: 'my-id',
    code: 'internal',
    err: { message },
  });
});

test('neither inputs nor ids of callers are logged', async () => {
  const lines: string[] = [];
  const { send } = await serverWorld({ lines });
  await send('POST', '/v1/runs', { ...request, input: 'private words' });
  await send('POST', '/v1/runs', { ...request, thread: '/private words/' });
  await send('GET', '/v1/runs?agent=private%20words');
  expect(lines.join('')).not.toContain('private');
  expect(lines).toHaveLength(2);
});

test.each([
  ['/v1/runs?limit=many', 'limit: '],
  ['/v1/runs?status=done', 'status: must be one of queued, running, suspended, completed'],
  ['/v1/runs?after=yesterday', 'after: must be a time like 2026-11-21T09:00:00Z'],
])('GET %s is refused in words about the query', async (path, words) => {
  const { send } = await serverWorld();
  const { status, body } = await send('GET', path);
  expect([status, body.error.code]).toEqual([400, 'validation']);
  expect(body.error.message).toContain(`the request is not valid: ${words}`);
  expect(body.error.message).not.toMatch(/expected|received|Invalid/);
  expect(body.error.details).toMatchObject([{ path: words.split(':')[0] }]);
});

test('a body is refused in words about its fields, with the name that was probably meant', async () => {
  const { send } = await serverWorld();
  const { body } = await send('POST', '/v1/runs', '{"agent":"a","inptu":"x","limits":{"maxStep":1},"priority":"1"}');
  expect(body.error.details).toEqual([
    { path: 'input', message: 'is missing' },
    { path: 'limits.maxStep', message: 'is not a known field; did you mean maxSteps?' },
    { path: 'priority', message: 'must be a number, not a text' },
    { path: 'inptu', message: 'is not a known field; did you mean input?' },
  ]);
});
