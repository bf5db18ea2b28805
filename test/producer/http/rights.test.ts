import { expect, test } from 'vitest';
import { scope, type Scope } from '../../../src/shared/contract/config.ts';
import { sha256 } from '../../../src/shared/base/ids.ts';
import { request } from '../cli/options/client.ts';
import { serverWorld } from './server-world.ts';

/** Every route with the scope that it needs. A route that is not here, or needs another one, fails the first test. */
const routes: Readonly<Record<string, Scope | 'open'>> = {
  'POST /v1/runs': 'write',
  'POST /v1/runs/bulk': 'write',
  'GET /v1/runs': 'read',
  'GET /v1/runs/{id}': 'read',
  'GET /v1/runs/{id}/result': 'read',
  'GET /v1/runs/{id}/steps': 'read',
  'GET /v1/runs/{id}/export': 'read',
  'GET /v1/runs/{id}/events': 'read',
  'GET /v1/runs/{id}/progress': 'read',
  'POST /v1/runs/{id}/progress': 'write',
  'POST /v1/runs/{id}/cancel': 'write',
  'POST /v1/runs/{id}/decisions': 'approve',
  'POST /v1/runs/cancel': 'write',
  'POST /v1/runs/redrive': 'write',
  'POST /v1/runs/{id}/redrive': 'write',
  'GET /v1/run-ids/{beginning}': 'read',
  'GET /v1/events': 'read',
  'GET /v1/fleet': 'read',
  'GET /v1/doctor': 'admin',
  'GET /v1/approvals': 'read',
  'POST /v1/chat/turns': 'write',
  'GET /v1/budgets': 'read',
  'GET /v1/budgets/{scope}/{id}': 'read',
  'PUT /v1/budgets/batch/{id}': 'approve',
  'POST /v1/budgets/{scope}/{id}/top-ups': 'approve',
  'GET /v1/costs': 'read',
  'GET /v1/audit': 'admin',
  'GET /v1/metrics/series': 'read',
  'DELETE /v1/runs': 'admin',
  'DELETE /v1/runs/{id}': 'admin',
  'GET /v1/erasure-key': 'read',
  'GET /v1/flows': 'read',
  'GET /v1/flows/report': 'read',
  'GET /v1/mcp/pins': 'read',
  'POST /v1/mcp/pins/{server}/accept': 'approve',
  'GET /v1/threads': 'read',
  'GET /v1/threads/{id}': 'read',
  'GET /v1/threads/{id}/messages': 'read',
  'GET /v1/threads/{id}/export': 'read',
  'GET /v1/threads/{id}/events': 'read',
  'PATCH /v1/threads/{id}': 'write',
  'DELETE /v1/threads/{id}': 'write',
  'DELETE /v1/threads': 'admin',
  'GET /v1/media/{sha256}': 'read',
  'GET /v1/files': 'read',
  'POST /v1/files': 'write',
  'GET /v1/files/{id}': 'read',
  'GET /v1/files/{id}/content': 'read',
  'DELETE /v1/files/{id}': 'write',
  'GET /v1/models': 'read',
  'GET /v1/models/{id}': 'read',
  'POST /v1/chat/completions': 'write',
  'POST /v1/responses': 'write',
  'GET /v1/responses/{id}': 'read',
  'DELETE /v1/responses/{id}': 'write',
  'POST /v1/responses/{id}/cancel': 'write',
  'GET /v1/responses/{id}/input_items': 'read',
  'POST /v1/conversations': 'write',
  'GET /v1/conversations/{id}': 'read',
  'POST /v1/conversations/{id}': 'write',
  'DELETE /v1/conversations/{id}': 'write',
  'GET /v1/conversations/{id}/items': 'read',
  'GET /v1/batches': 'read',
  'GET /v1/batches/{id}': 'read',
  'GET /v1/batches/{id}/events': 'read',
  'GET /v1/batches/{id}/results': 'read',
  'POST /v1/batches': 'write',
  'POST /v1/batches/{id}/cancel': 'write',
  'POST /v1/batches/{id}/pause': 'write',
  'POST /v1/batches/{id}/redrive': 'write',
  'POST /v1/batches/{id}/resume': 'write',
  'GET /v1/whoami': 'read',
  'GET /v1/session': 'open',
  'POST /v1/session': 'open',
  'DELETE /v1/session': 'open',
  'GET /v1/chat/turns/{executionId}': 'read',
  'GET /v1/agents': 'read',
  'GET /v1/agents/{id}': 'read',
  'GET /healthz': 'open',
  'GET /livez': 'open',
  'GET /readyz': 'open',
  'GET /metrics': 'open',
};

const keys = Object.fromEntries(scope.options.map((name) => [name, `key-${name}`])) as Record<Scope, string>;
const apiKeys = [
  ...scope.options.map((name) => `${sha256(keys[name])}:t:${name}`),
  `${sha256('plain')}:t`,
  `${sha256('person')}:t:read+write+approve`,
  `${sha256('all')}:t:*`,
].join(',');
const as = (key: string) => ({ authorization: `Bearer ${key}` });

test('the API description says of every route which scope it needs, and there is no other route', async () => {
  const { send } = await serverWorld({ apiKeys });
  const { paths } = (await send('GET', '/openapi.json')).body;
  const described: Record<string, string> = {};
  for (const [path, methods] of Object.entries(paths as Record<string, Record<string, { security: unknown[] }>>)) {
    for (const [method, { security }] of Object.entries(methods)) {
      const [first] = security as { apiKey: string[] }[];
      if (method !== 'head') described[`${method.toUpperCase()} ${path}`] = first?.apiKey[0] ?? 'open';
    }
  }
  expect(described).toEqual(routes);
});

test('every route is closed to a key with all scopes but its own, and open to one with no other', async () => {
  const { url: server } = await serverWorld({ apiKeys });
  /** Of an answer that may never end. */
  const statusOf = async (method: string, path: string, key: string) => {
    const answer = await fetch(server + path, { method, headers: as(key) });
    await answer.body?.cancel();
    return answer.status;
  };
  for (const [route, needed] of Object.entries(routes)) {
    if (needed === 'open') continue;
    const [method = '', path = ''] = route.split(' ');
    const url = path
      .replace('{scope}', 'batch')
      .replace(/\{(id|sha256|beginning|executionId)\}/, '01ARZ3NDEKTSV4RRFFQ69G5FAV');
    const closed: Scope[] = [];
    for (const name of scope.options) {
      const status = await statusOf(method, url, keys[name]);
      if (status === 403) closed.push(name);
    }
    expect([route, closed]).toEqual([route, scope.options.filter((name) => name !== needed)]);
  }
});

test('a key without scopes may read and run, and nothing else', async () => {
  const { send } = await serverWorld({ apiKeys });
  const statusOf = async (method: string, path: string, body?: unknown) =>
    (await send(method, path, body, as('plain'))).status;
  expect(await statusOf('GET', '/v1/runs')).toBe(200);
  expect(await statusOf('POST', '/v1/runs', request)).toBe(202);
  expect(await statusOf('POST', '/v1/budgets/tenant/t/top-ups', { usd: 1 })).toBe(403);
  expect(await statusOf('PUT', '/v1/budgets/batch/b', { maxCostUsd: 1 })).toBe(403);
  expect(await statusOf('DELETE', '/v1/threads?confirm=all')).toBe(403);
});

/** What a caller asks for to get more than its operator gave. */
const greedy: readonly (readonly [string, string, string, unknown])[] = [
  ['money for its tenant', 'POST', '/v1/budgets/tenant/t/top-ups', { usd: 1_000 }],
  ['more than its agent gives', 'POST', '/v1/runs', { ...request, raise: true, limits: { maxSteps: 1_000 } }],
];

test.for(greedy)('%s is for keys with the scope admin only', async ([, method, path, body]) => {
  const { send } = await serverWorld({ apiKeys });
  const refused = await send(method, path, body, as('person'));
  expect([refused.status, refused.body.error.code]).toEqual([403, 'forbidden']);
  expect((await send(method, path, body, as('all'))).status).not.toBe(403);
});

test('in a bulk request only the greedy ones are refused', async () => {
  const { send } = await serverWorld({ apiKeys });
  const { body } = await send('POST', '/v1/runs/bulk', [request, { ...request, raise: true }], as('person'));
  expect(body).toMatchObject([{ runId: expect.any(String) }, { error: { code: 'forbidden' } }]);
});

test('who approves calls cannot approve money of the tenant', async () => {
  const { send, redis, keys } = await serverWorld({ apiKeys });
  const { runId } = (await send('POST', '/v1/runs', request, as('all'))).body;
  const pending = [{ kind: 'budget', id: 'tenant:t', requestedAt: new Date().toISOString() }];
  await redis.hset(keys.run(runId), { status: 'suspended', pending: JSON.stringify(pending) });
  const decide = (key: string, budget: unknown) => send('POST', `/v1/runs/${runId}/decisions`, { budget }, as(key));
  for (const budget of ['approve', { topUpUsd: 5 }]) {
    const refused = await decide('person', budget);
    expect([refused.status, refused.body.error.code]).toEqual([403, 'forbidden']);
  }
  expect((await decide('all', 'approve')).status).toBe(202);
});
