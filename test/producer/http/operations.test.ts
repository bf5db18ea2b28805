import { until } from '../../support/redis.ts';
import { expect, test } from 'vitest';
import { missingDurability, ProducerReadiness } from '../../../src/producer/http/readiness.ts';
import { ProducerMetrics } from '../../../src/producer/http/metrics.ts';
import { request } from '../cli/options/client.ts';
import { endRun, serverWorld } from './server-world.ts';

test('a ready producer shows the durability in force', async () => {
  const { send } = await serverWorld();
  const { status, body } = await send('GET', '/readyz');
  expect([status, body]).toEqual([
    200,
    { status: 'ready', redis: 'ok', durability: 'process', unservedQueues: ['runs'] },
  ]);
  expect((await send('HEAD', '/healthz')).status).toBe(200);
});

test('a producer is not ready while Redis keeps less than is asked for', async () => {
  const { send } = await serverWorld({ durability: 'replica' });
  const { status, body } = await send('GET', '/readyz');
  expect([status, body.status, body.durability]).toEqual([503, 'not_ready', 'process']);
  expect(body.reason).toContain('replica');
});

test('probes share a look at Redis, and one that takes too long counts as none', async () => {
  let asked = 0;
  const durability = async () => 'host' as const;
  const unservedQueues = async () => ['slow'];
  const providers = async () => [];
  const quick = new ProducerReadiness(
    { writeProblem: async () => void (asked += 1), durability, unservedQueues, providers },
    'process',
  );
  const answers = await Promise.all([quick.look(), quick.look(), quick.look()]);
  expect(answers).toEqual(
    answers.map(() => ({ status: 'ready', redis: 'ok', durability: 'host', unservedQueues: ['slow'] })),
  );
  expect(asked).toBe(1);
  const never = new Promise<never>(() => {});
  expect(
    await new ProducerReadiness({ writeProblem: () => never, durability, unservedQueues, providers }, 'any').look(),
  ).toMatchObject({
    redis: 'away',
  });
  const slow = {
    writeProblem: async () => undefined,
    durability: () => never,
    unservedQueues: () => never,
    providers: () => never,
  };
  expect(await new ProducerReadiness(slow, 'any').look()).toEqual({ status: 'ready', redis: 'ok' });
  expect(await new ProducerReadiness(slow, 'process').look()).toMatchObject({ status: 'not_ready', redis: 'ok' });
});

test('each durability level includes the ones below it', () => {
  expect(missingDurability('none', 'any')).toBeUndefined();
  expect(missingDurability('none', 'process')).toContain('appendonly');
  expect(missingDurability('host', 'process')).toBeUndefined();
  expect(missingDurability('process', 'host')).toContain('appendfsync');
});

test('metrics count requests by route, runs by outcome and jobs by queue, and name no run', async () => {
  const { send, start } = await serverWorld();
  const run = await start({ ...request, executionId: 'once' });
  await send('POST', '/v1/runs', { ...request, executionId: 'once' });
  await send('POST', '/v1/runs', {});
  await send('POST', '/v1/runs/bulk', [request, 'nonsense']);
  await send('GET', `/v1/runs/${run.runId}`);
  await send('GET', '/nowhere/secret-path');
  const { status, body, headers } = await send('GET', '/metrics');
  expect(status).toBe(200);
  expect(headers.get('content-type')).toContain('text/plain; version=0.0.4');
  for (const line of [
    'millrace_http_requests_total{route="/v1/runs",method="POST",status="202"} 2',
    'millrace_http_requests_total{route="/v1/runs",method="POST",status="400"} 1',
    'millrace_http_requests_total{route="/v1/runs/:id",method="GET",status="200"} 1',
    'millrace_http_requests_total{route="unmatched",method="GET",status="404"} 1',
    'millrace_runs_enqueued_total{outcome="accepted"} 2',
    'millrace_runs_enqueued_total{outcome="attached"} 1',
    'millrace_runs_enqueued_total{outcome="refused"} 2',
    'millrace_queue_jobs{queue="runs",state="waiting"} 2',
    'millrace_redis_up 1',
    'millrace_http_request_seconds_count{route="/v1/runs",method="POST"} 3',
  ]) {
    expect(body).toContain(`${line}\n`);
  }
  expect(body).toContain('nodejs_eventloop_lag_p99_seconds');
  expect(body).not.toContain(run.runId);
  expect(body).not.toContain('secret-path');
});

test('the time that answers wait for a run is not counted as ours', async () => {
  const { send, start } = await serverWorld();
  const run = await start();
  await endRun(run);
  await send('GET', `/v1/runs/${run.runId}/result?wait=1`);
  await send('GET', `/v1/runs/${run.runId}/events`);
  const { body } = await send('GET', '/metrics');
  expect(body).toContain('millrace_http_requests_total{route="/v1/runs/:id/events",method="GET",status="200"} 1');
  expect(body).not.toMatch(/millrace_http_request_seconds_count\{route="\/v1\/runs\/:id\//);
});

test('scrapes share a look at the queues, and the labels of very many queues end in one for the rest', async () => {
  let reads = 0;
  const depth = { waiting: 1, active: 0, delayed: 0, failed: 0, workers: 2 };
  const metrics = new ProducerMetrics(async () => {
    reads += 1;
    return Object.fromEntries(['runs', ...Array.from({ length: 200 }, (_, i) => `q${i}`)].map((name) => [name, depth]));
  });
  const [{ body }] = await Promise.all([metrics.scrape(), metrics.scrape()]);
  expect(reads).toBe(1);
  expect(body.match(/^millrace_queue_jobs\{.*state="waiting"/gm)).toHaveLength(103);
  expect(body).toContain('millrace_queue_jobs{queue="runs",state="waiting"} 1\n');
  expect(body).toContain('millrace_queue_jobs{queue="other",state="waiting"} 99\n');
  expect(body.match(/^millrace_queue_workers\{/gm)).toHaveLength(102);
});

test('lines of batches are counted by their outcome, and batches while they are open', async () => {
  const open = { batches: undefined as number | undefined };
  const metrics = new ProducerMetrics(
    async () => ({}),
    async () => open.batches,
  );
  expect((await metrics.scrape()).body).toContain('millrace_batch_lines_total{outcome="answered"} 0\n');
  for (const end of ['answered', 'answered', 'failed', 'refused'] as const) metrics.batchLine(end);
  open.batches = 3;
  const counted = await until('they are counted', async () => {
    const { body } = await metrics.scrape();
    return body.includes('millrace_batches_open 3\n') ? body : undefined;
  });
  expect(counted).toContain('millrace_batch_lines_total{outcome="answered"} 2\n');
  expect(counted).toContain('millrace_batch_lines_total{outcome="refused"} 1\n');
});

test('agents that callers name without end share one label after the first two hundred', async () => {
  const metrics = new ProducerMetrics(async () => ({}));
  for (let i = 0; i < 500; i++) metrics.runEnded({ agent: `a${i}`, kind: 'agent.turn', status: 'cancelled' });
  const { body } = await metrics.scrape();
  expect(body.match(/^millrace_runs_total\{/gm)).toHaveLength(201);
  expect(body).toContain('millrace_runs_total{agent="other",kind="agent.turn",status="cancelled"} 300\n');
});

test('a scrape does not wait for a Redis that is silent', async () => {
  const { body } = await new ProducerMetrics(() => new Promise(() => {})).scrape();
  expect(body).toContain('millrace_redis_up 0\n');
});

interface OpenApi {
  readonly openapi: string;
  readonly paths: Record<
    string,
    Record<string, { readonly responses: Record<string, unknown>; readonly parameters?: unknown[] }>
  >;
  readonly components: { readonly schemas: Record<string, object> };
}

test('the API description has every route and every schema that it refers to', async () => {
  const { send, server } = await serverWorld();
  const { status, body } = await send('GET', '/openapi.json');
  const document = body as OpenApi;
  expect([status, document.openapi]).toEqual([200, '3.1.0']);
  const described = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method} ${path}`),
  );
  expect(described.sort()).toEqual([
    'delete /v1/conversations/{id}',
    'delete /v1/files/{id}',
    'delete /v1/responses/{id}',
    'delete /v1/runs',
    'delete /v1/runs/{id}',
    'delete /v1/session',
    'delete /v1/threads',
    'delete /v1/threads/{id}',
    'get /healthz',
    'get /livez',
    'get /metrics',
    'get /readyz',
    'get /v1/agents',
    'get /v1/agents/{id}',
    'get /v1/approvals',
    'get /v1/audit',
    'get /v1/batches',
    'get /v1/batches/{id}',
    'get /v1/batches/{id}/events',
    'get /v1/batches/{id}/results',
    'get /v1/budgets',
    'get /v1/budgets/{scope}/{id}',
    'get /v1/chat/turns/{executionId}',
    'get /v1/conversations/{id}',
    'get /v1/conversations/{id}/items',
    'get /v1/costs',
    'get /v1/doctor',
    'get /v1/erasure-key',
    'get /v1/events',
    'get /v1/files',
    'get /v1/files/{id}',
    'get /v1/files/{id}/content',
    'get /v1/fleet',
    'get /v1/flows',
    'get /v1/flows/report',
    'get /v1/mcp/pins',
    'get /v1/media/{sha256}',
    'get /v1/metrics/series',
    'get /v1/models',
    'get /v1/models/{id}',
    'get /v1/responses/{id}',
    'get /v1/responses/{id}/input_items',
    'get /v1/run-ids/{beginning}',
    'get /v1/runs',
    'get /v1/runs/{id}',
    'get /v1/runs/{id}/events',
    'get /v1/runs/{id}/export',
    'get /v1/runs/{id}/progress',
    'get /v1/runs/{id}/result',
    'get /v1/runs/{id}/steps',
    'get /v1/session',
    'get /v1/threads',
    'get /v1/threads/{id}',
    'get /v1/threads/{id}/events',
    'get /v1/threads/{id}/export',
    'get /v1/threads/{id}/messages',
    'get /v1/whoami',
    'patch /v1/threads/{id}',
    'post /v1/batches',
    'post /v1/batches/{id}/cancel',
    'post /v1/batches/{id}/pause',
    'post /v1/batches/{id}/redrive',
    'post /v1/batches/{id}/resume',
    'post /v1/budgets/{scope}/{id}/top-ups',
    'post /v1/chat/completions',
    'post /v1/chat/turns',
    'post /v1/conversations',
    'post /v1/conversations/{id}',
    'post /v1/files',
    'post /v1/mcp/pins/{server}/accept',
    'post /v1/responses',
    'post /v1/responses/{id}/cancel',
    'post /v1/runs',
    'post /v1/runs/bulk',
    'post /v1/runs/cancel',
    'post /v1/runs/redrive',
    'post /v1/runs/{id}/cancel',
    'post /v1/runs/{id}/decisions',
    'post /v1/runs/{id}/progress',
    'post /v1/runs/{id}/redrive',
    'post /v1/session',
    'put /v1/budgets/batch/{id}',
  ]);
  expect(server.app.hasRoute({ method: 'GET', url: '/' })).toBe(true);
  const references = [...JSON.stringify(document).matchAll(/"#\/components\/schemas\/([^"]+)"/g)].map(
    ([, name]) => name ?? '',
  );
  expect(new Set(references)).toEqual(new Set(Object.keys(document.components.schemas)));
  expect(Object.keys(document.components.schemas)).toEqual(
    expect.arrayContaining(['RunRequestInput', 'Run', 'RunOutcome', 'Error', 'Event', 'Agent']),
  );
  for (const [path, methods] of Object.entries(document.paths)) {
    if (!path.startsWith('/v1')) continue;
    for (const { responses } of Object.values(methods))
      expect(Object.keys(responses)).toEqual(expect.arrayContaining(['4XX', '5XX']));
  }
  expect(JSON.stringify(document.paths['/v1/runs']?.['get']?.parameters)).toContain('"type":"integer"');
});

test('each operation has a name of its own, from which generators make one of a client', async () => {
  const { send } = await serverWorld();
  const { paths } = (await send('GET', '/openapi.json')).body as OpenApi;
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
  for (const operation of operations) {
    expect(operation).toMatchObject({ operationId: expect.stringMatching(/^[a-z]+([A-Z][a-z]+)*$/) });
    expect(operation).toMatchObject({ summary: expect.any(String), tags: [expect.stringMatching(/^[a-z]+$/)] });
  }
  const names = operations.map((operation) => (operation as { readonly operationId?: string }).operationId);
  expect(names).toEqual([...new Set(names)]);
});
