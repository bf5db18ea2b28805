import { request as httpRequest } from 'node:http';
import { fastify } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { expect, test } from 'vitest';
import type { App } from '../../../src/producer/http/app.ts';
import { guardRoutes, isLoopback } from '../../../src/producer/http/auth.ts';
import type { ConsoleSessions } from '../../../src/shared/state/console-sessions.ts';
import { sha256 } from '../../../src/shared/base/ids.ts';
import { clientWorld, request } from '../cli/options/client.ts';
import { serverWorld, type ServerWorld } from './server-world.ts';

const entries = {
  all: 'a',
  reader: 'a:read',
  writer: 'a:write',
  other: 'b',
};
const apiKeys = Object.entries(entries)
  .map(([key, rest]) => `${sha256(key)}:${rest}`)
  .join(',');
const as = (key: keyof typeof entries) => ({ authorization: `Bearer ${key}` });
const aRun = async ({ send }: ServerWorld) => (await send('POST', '/v1/runs', request, as('all'))).body.runId as string;

const runRoutes = [
  ['GET', ''],
  ['GET', '/result?wait=1'],
  ['GET', '/events'],
  ['POST', '/cancel'],
] as const;

test.each([
  undefined,
  'all',
  'Bearer',
  'Bearer  ',
  'Basic all',
  'Bearer no-one',
  'Bearer all all',
  `Bearer ${sha256('all')}`,
])('the credentials %s are not accepted anywhere', async (authorization) => {
  const world = await serverWorld({ apiKeys });
  const headers = authorization === undefined ? {} : { authorization };
  const routes = [
    ['GET', '/v1/runs'],
    ['POST', '/v1/runs'],
    ['POST', '/v1/runs/bulk'],
    ['GET', '/v1/agents'],
  ] as const;
  const all = [
    ...routes,
    ...runRoutes.map(([method, rest]) => [method, `/v1/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV${rest}`] as const),
  ];
  for (const [method, path] of all) {
    const answer = await world.send(method, path, undefined, headers);
    expect([answer.status, answer.body.error.code], path).toEqual([401, 'unauthorized']);
    expect(answer.headers.get('www-authenticate')).toContain('Bearer');
  }
});

test('a key is accepted whatever the case of its scheme', async () => {
  const { send } = await serverWorld({ apiKeys });
  expect((await send('GET', '/v1/runs', undefined, { authorization: 'bearer all' })).status).toBe(200);
});

test('reading needs the scope read, starting and cancelling the scope write', async () => {
  const world = await serverWorld({ apiKeys });
  const runId = await aRun(world);
  const statusOf = async (key: keyof typeof entries, method: string, path: string, body?: unknown) => {
    const answer = await world.send(method, path, body, as(key));
    return answer.body.error?.code ?? answer.status;
  };
  expect(await statusOf('reader', 'GET', `/v1/runs/${runId}`)).toBe(200);
  expect(await statusOf('reader', 'POST', '/v1/runs', request)).toBe('forbidden');
  expect(await statusOf('reader', 'POST', '/v1/runs/bulk', [request])).toBe('forbidden');
  expect(await statusOf('reader', 'POST', `/v1/runs/${runId}/cancel`)).toBe('forbidden');
  expect(await statusOf('writer', 'GET', `/v1/runs/${runId}`)).toBe('forbidden');
  expect(await statusOf('writer', 'GET', `/v1/runs/${runId}/events`)).toBe('forbidden');
  expect(await statusOf('writer', 'POST', `/v1/runs/${runId}/cancel`)).toBe(202);
});

test.each(runRoutes)('a run of another tenant looks like none on %s %s', async (method, rest) => {
  const world = await serverWorld({ apiKeys });
  const runId = await aRun(world);
  const foreign = await world.send(method, `/v1/runs/${runId}${rest}`, undefined, as('other'));
  const none = await world.send(method, `/v1/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV${rest}`, undefined, as('other'));
  expect(foreign.status).toBe(404);
  expect(JSON.stringify(foreign.body).replace(runId, '')).toBe(
    JSON.stringify(none.body).replace('01ARZ3NDEKTSV4RRFFQ69G5FAV', ''),
  );
  expect((await world.send('GET', '/v1/runs', undefined, as('other'))).body).toEqual({ runs: [] });
  expect((await world.send('GET', `/v1/runs/${runId}`, undefined, as('all'))).body.status).toBe('queued');
});

test('probes, metrics, the API description and the console need no key', async () => {
  const { send } = await serverWorld({ apiKeys });
  for (const path of ['/healthz', '/livez', '/readyz', '/metrics', '/openapi.json', '/']) {
    expect((await send('GET', path)).status, path).toBe(200);
  }
});

/** `fetch` does not let a caller choose its Host. */
function statusWith(url: string, headers: Record<string, string>, method = 'GET'): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  httpRequest(`${url}/v1/runs`, { method, headers, agent: false }, (response) => resolve(response.resume().statusCode))
    .on('error', reject)
    .end();
  return promise;
}

test('without keys only pages and clients of this machine are served', async () => {
  const { url } = await serverWorld();
  for (const host of ['localhost', 'localhost:8080', '127.0.0.1', '[::1]:8080', 'app.localhost']) {
    expect(await statusWith(url, { host }), host).toBe(200);
  }
  for (const host of ['evil.example', '127.0.0.1.evil.example', 'localhost.evil.example', '10.0.0.1']) {
    expect(await statusWith(url, { host }), host).toBe(403);
  }
  expect(await statusWith(url, { origin: 'http://localhost:3000' })).toBe(200);
  for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1.evil.example']) {
    expect(await statusWith(url, { origin }), origin).toBe(403);
    expect(await statusWith(url, { origin }, 'POST'), origin).toBe(403);
  }
});

test('with keys the origin does not matter: a browser adds no key by itself', async () => {
  const { url } = await serverWorld({ apiKeys });
  expect(await statusWith(url, { origin: 'https://app.example', host: 'api.example', ...as('all') })).toBe(200);
});

test('a route that does not say what access it needs cannot be made', async () => {
  const { mill } = await clientWorld();
  const app = fastify().withTypeProvider<ZodTypeProvider>() as unknown as App;
  guardRoutes(app, mill, [], {} as ConsoleSessions);
  expect(() => app.route({ method: 'GET', url: '/open-to-all', handler: async () => 'x' })).toThrow('/open-to-all');
});

test('only loopback names and addresses count as this machine', () => {
  for (const host of ['localhost', '127.0.0.1', '127.8.9.1', '::1', '[::1]']) expect(isLoopback(host), host).toBe(true);
  for (const host of ['0.0.0.0', '::', '10.0.0.1', '::ffff:10.0.0.1', 'example.com', ''])
    expect(isLoopback(host), host).toBe(false);
});
