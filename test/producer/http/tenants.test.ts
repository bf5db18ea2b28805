import { expect, test } from 'vitest';
import { sha256 } from '../../../src/shared/base/ids.ts';
import { request } from '../cli/options/client.ts';
import { aThread } from '../support/threads.ts';
import { serverWorld, type ServerWorld } from './server-world.ts';

const apiKeys = [`${sha256('north')}:default:*`, `${sha256('south')}:south:*`].join(',');
const as = (key: string) => ({ authorization: `Bearer ${key}` });
/** In whatever the one tenant has, so that it shows wherever some of it leaks. */
const secret = 'north-secret';

/** By the beginning of a route: what the one tenant has under an id, and an id of the same form that names nothing. */
async function thingsOf(world: ServerWorld): Promise<Readonly<Record<string, readonly [own: string, none: string]>>> {
  const { send, redis, keys } = world;
  const asked = { ...request, input: secret, metadata: { note: secret }, batch: `b-${secret}`, thread: `t2-${secret}` };
  const { runId } = (await send('POST', '/v1/runs', asked, as('north'))).body;
  // So that a stream of its events ends.
  await send('POST', `/v1/runs/${runId}/cancel`, {}, as('north'));
  await aThread(world, `t-${secret}`);
  const digest = sha256(secret);
  await redis.hset(keys.media('default', digest), { type: 'text/plain', bytes: secret });
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', new Blob([`{"input":"${secret}"}\n`]), `${secret}.jsonl`);
  const uploaded = await fetch(`${world.url}/v1/files`, { method: 'POST', headers: as('north'), body: form });
  const { id: file } = (await uploaded.json()) as { readonly id: string };
  const lines = { input_file_id: file, endpoint: '/v1/runs', agent: request.agent, metadata: { note: secret } };
  const { id: batch } = (await send('POST', '/v1/batches', lines, as('north'))).body;
  // The same.
  await redis.hset(keys.batch(batch), 'status', 'cancelled');
  const said = { metadata: { note: secret }, items: [{ role: 'user', content: secret }] };
  const { id: conversation } = (await send('POST', '/v1/conversations', said, as('north'))).body;
  const turn = { agent: request.agent, message: secret, sessionId: 's', turnIndex: 0 };
  const { executionId } = (await send('POST', '/v1/chat/turns?stream=false', turn, as('north'))).body;
  const ulid = '01K9Z5N3T8R6V2X4B7C1D0E9FG';
  return {
    '/v1/runs/{id}': [runId, ulid],
    '/v1/run-ids/{beginning}': [runId.slice(0, 25), ulid.slice(0, 25)],
    '/v1/threads/{id}': [`t-${secret}`, 't-none'],
    '/v1/media/{sha256}': [digest, sha256('none')],
    '/v1/chat/turns/{executionId}': [executionId, 'none:s:0'],
    '/v1/files/{id}': [file, `file-${ulid}`],
    '/v1/responses/{id}': [`resp_${runId}`, `resp_${ulid}`],
    '/v1/conversations/{id}': [conversation, `conv_${ulid}`],
    '/v1/batches/{id}': [batch, `batch_${ulid}`],
    '/v1/budgets/{scope}/{id}': [`b-${secret}`, 'b-none'],
    '/v1/budgets/batch/{id}': [`b-${secret}`, 'b-none'],
    '/v1/mcp/pins/{server}': [secret, 'nothing-so-called'],
  };
}

/** Bodies that a route would take, so that it comes as far as looking for what is named. */
const bodies: Readonly<Record<string, unknown>> = {
  'POST /v1/runs/{id}/progress': { text: 'x' },
  'POST /v1/runs/{id}/decisions': { approvals: [{ toolCallId: 'c', granted: true }] },
  'PATCH /v1/threads/{id}': { title: 'x' },
  'POST /v1/conversations/{id}': { metadata: {} },
  'PUT /v1/budgets/batch/{id}': { maxCostUsd: 1 },
  'POST /v1/budgets/{scope}/{id}/top-ups': { usd: 1 },
};
/** Agents are no tenant's own. */
const everybodys = new Set(['/v1/models/{id}', '/v1/agents/{id}']);
/** Sends what comes from now on, and ends with its reader. */
const endless = new Set(['GET /v1/events']);

async function routesOf({ send }: ServerWorld): Promise<readonly (readonly [method: string, path: string])[]> {
  const { paths } = (await send('GET', '/openapi.json')).body as { readonly paths: Record<string, object> };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => [method.toUpperCase(), path] as const),
  );
}

test('a tenant gets the same answer for an id of another tenant as for one that names nothing', async () => {
  const world = await serverWorld({ apiKeys });
  const things = await thingsOf(world);
  const answerTo = async (key: string, method: string, path: string, id: string) => {
    const url = path.replace('{scope}', 'batch').replace(/\{(?:id|beginning|sha256|server|executionId)\}/, id);
    const body = bodies[`${method} ${path}`] ?? (method === 'POST' ? {} : undefined);
    const answer = await world.send(method, url, body, as(key));
    const text = JSON.stringify(answer.body)
      .replaceAll(id, 'ID')
      .replaceAll(/"(?:correlationId|resetsAt|at)":"[^"]*"/g, '""');
    return { status: answer.status, text };
  };
  for (const [method, path] of await routesOf(world)) {
    if (!path.includes('{') || everybodys.has(path)) continue;
    const named = Object.entries(things).find(([start]) => path.startsWith(start));
    if (!named) throw new Error(`${method} ${path}: say in this test what its id names`);
    const [own, none] = named[1];
    const others = await answerTo('south', method, path, own);
    expect([method, path, others]).toEqual([method, path, await answerTo('south', method, path, none)]);
    if (method !== 'GET' || path.startsWith('/v1/budgets')) continue;
    const mine = await answerTo('north', method, path, own);
    expect([method, path, mine.status], mine.text).toEqual([method, path, expect.toSatisfy(isFound)]);
  }
});

const isFound = (status: number) => status === 200 || status === 202;

test('no list of a tenant shows anything of another tenant', async () => {
  const world = await serverWorld({ apiKeys });
  const things = await thingsOf(world);
  const ids = Object.values(things).map(([own]) => own);
  for (const [method, path] of await routesOf(world)) {
    if (method !== 'GET' || path.includes('{') || endless.has(`${method} ${path}`)) continue;
    const { status, body } = await world.send(method, path, undefined, as('south'));
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    expect([path, status]).toEqual([path, 200]);
    for (const id of [secret, ...ids]) expect(text, path).not.toContain(id);
  }
});
