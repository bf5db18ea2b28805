import { promisify } from 'node:util';
import { expect, test, vi } from 'vitest';
import { JobQueues } from '../../../src/producer/client/enqueue.ts';
import { until } from '../../support/redis.ts';
import { request } from '../cli/options/client.ts';
import { serverWorld } from './server-world.ts';

const ndjson = { 'content-type': 'application/x-ndjson' };
const accepted = { runId: expect.any(String), status: 'queued', attached: false };

test('an array of runs is answered one by one, in order', async () => {
  const { send } = await serverWorld();
  const { status, body } = await send('POST', '/v1/runs/bulk', [
    request,
    { ...request, input: 7 },
    'nonsense',
    request,
  ]);
  expect(status).toBe(200);
  expect(body).toMatchObject([
    accepted,
    { error: { code: 'validation' } },
    { error: { code: 'validation' } },
    accepted,
  ]);
  expect((await send('GET', '/v1/runs')).body.runs).toHaveLength(2);
});

test('lines are answered one by one, also those that are not JSON', async () => {
  const { send } = await serverWorld();
  const deep = `{"agent":"a","input":${'['.repeat(70)}${']'.repeat(70)}}`;
  const lines = [
    '',
    JSON.stringify(request),
    'nonsense',
    '',
    deep,
    JSON.stringify({ ...request, executionId: 'x' }),
    '',
  ];
  const { status, body } = await send('POST', '/v1/runs/bulk', lines.join('\r\n'), ndjson);
  expect(status).toBe(200);
  expect(body).toMatchObject([
    accepted,
    { error: { code: 'invalid_json' } },
    { error: { code: 'too_deep' } },
    accepted,
  ]);
  const again = await send('POST', '/v1/runs/bulk', JSON.stringify({ ...request, executionId: 'x' }), ndjson);
  expect(again.body).toEqual([{ ...body[3], attached: true }]);
});

test('ten thousand runs go in one request, and not one more', async () => {
  const { send } = await serverWorld();
  const line = `${JSON.stringify({ ...request, input: 'x'.repeat(300) })}\n`;
  const { status, body } = await send('POST', '/v1/runs/bulk', line.repeat(10_000), ndjson);
  expect(status).toBe(200);
  expect(body).toHaveLength(10_000);
  expect(new Set(body.map(({ runId }: { runId: string }) => runId)).size).toBe(10_000);
  for (const [text, headers] of [
    ['nonsense\n'.repeat(10_001), ndjson],
    [`[${'1,'.repeat(10_000)}1]`, {}],
  ] as const) {
    const refused = await send('POST', '/v1/runs/bulk', text, headers);
    expect([refused.status, refused.body.error.code]).toEqual([400, 'validation']);
  }
});

test('a list may nest each of its runs as deep as a single run', async () => {
  const { send } = await serverWorld();
  const nested = (levels: number) =>
    `{"agent":"a","input":"x","metadata":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
  const codeOf = async (levels: number) => (await send('POST', '/v1/runs/bulk', `[${nested(levels)}]`)).body;
  expect(await codeOf(64)).toMatchObject([{ error: { code: 'validation' } }]);
  expect(await codeOf(65)).toMatchObject({ error: { code: 'too_deep' } });
});

test('what is no list is refused as a whole', async () => {
  const { send } = await serverWorld();
  const codeOf = async (body?: unknown, headers?: Record<string, string>) =>
    (await send('POST', '/v1/runs/bulk', body, headers)).body.error.code;
  expect(await codeOf(request)).toBe('validation');
  expect(await codeOf('"text"')).toBe('validation');
  expect(await codeOf()).toBe('invalid_json');
  expect(await codeOf('', ndjson)).toBe('invalid_json');
  expect(await codeOf('{}', { 'content-type': 'text/plain' })).toBe('unsupported_media_type');
});

test('a run over 1 MiB is refused without the others, in lines, and with them in an array', async () => {
  const { send } = await serverWorld();
  const large = JSON.stringify({ ...request, input: 'x'.repeat(1024 * 1024) });
  const lines = await send('POST', '/v1/runs/bulk', [large, JSON.stringify(request)].join('\n'), ndjson);
  expect(lines.body).toMatchObject([{ error: { code: 'payload_too_large' } }, accepted]);
  const { status, body } = await send('POST', '/v1/runs/bulk', `[${JSON.stringify(request)},${large}]`);
  expect([status, body.error.code]).toEqual([413, 'payload_too_large']);
  expect((await send('GET', '/v1/runs')).body.runs).toHaveLength(1);
});

test('a run that is wrong in thousands of fields is refused in few words', async () => {
  const { send } = await serverWorld();
  const metadata = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`k${i}`, i]));
  const { body } = await send('POST', '/v1/runs/bulk', [{ ...request, metadata, [`key_${'x'.repeat(9_000)}`]: 'x' }]);
  expect(body).toMatchObject([{ error: { code: 'validation' } }]);
  expect(JSON.stringify(body).length).toBeLessThan(30_000);
});

test('an array that breaks in its middle starts nothing', async () => {
  const { send } = await serverWorld();
  const { status, body } = await send(
    'POST',
    '/v1/runs/bulk',
    `[${`${JSON.stringify(request)},`.repeat(2_000)}nonsense]`,
  );
  expect([status, body.error.code]).toEqual([400, 'invalid_json']);
  expect((await send('GET', '/v1/runs')).body.runs).toEqual([]);
});

test('a client that goes away has no more of its runs started', async () => {
  const { url, mill, send, server } = await serverWorld();
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: go, resolve: proceed } = Promise.withResolvers<void>();
  let groups = 0;
  // Holds the first group back until the client is gone.
  vi.spyOn(JobQueues.prototype, 'addMany').mockImplementation(async () => {
    groups += 1;
    begin();
    await go;
  });
  const client = new AbortController();
  const line = `${JSON.stringify({ ...request, input: 'x'.repeat(1_000) })}\n`;
  const sent = fetch(`${url}/v1/runs/bulk`, {
    method: 'POST',
    headers: ndjson,
    body: line.repeat(5_000),
    signal: client.signal,
  });
  await begun;
  client.abort();
  await expect(sent).rejects.toThrow('abort');
  const connections = promisify(server.app.server.getConnections.bind(server.app.server));
  await until('the server has seen it', async () => (await connections()) === 0);
  proceed();
  await until('the first runs', async () => (await mill.list()).runs.length > 0);
  await send('POST', '/v1/runs/bulk', line, ndjson);
  expect(groups).toBe(2);
});
