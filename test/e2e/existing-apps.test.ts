import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeEach, inject, expect, test, onTestFinished, vi } from 'vitest';
import { startWorker } from '../../src/worker/index.ts';
import { defineAgent } from '../../src/worker/agents/define-agent.ts';
import { scriptedModel } from '../../src/testing/scripted-model.ts';
import { always } from '../../src/testing/scripts.ts';
import { docsPage } from '../support/docs-page.ts';
import { codeBlocks } from '../support/markdown.ts';
import { testPrefix } from '../support/redis.ts';

const redis = inject('redisUrl');
const prefix = testPrefix();

beforeEach(() => {
  vi.stubEnv('REDIS_URL', redis);
  vi.stubEnv('MILLRACE_PREFIX', prefix);
});

afterAll(async () => {
  const { mill } = await import('../../examples/apps/runs.ts');
  await mill.close();
});

/** Apps with the same two routes. Each answers where it listens, or takes requests itself. */
const apps = {
  async express() {
    const { app } = await import('../../examples/apps/express.ts');
    const server = app.listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    return (path: string, init?: RequestInit) => fetch(`http://127.0.0.1:${port}${path}`, init);
  },
  async fastify() {
    const { app } = await import('../../examples/apps/fastify.ts');
    onTestFinished(() => app.close());
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    return (path: string, init?: RequestInit) => fetch(`${url}${path}`, init);
  },
  async next() {
    const { GET, POST } = await import('../../examples/apps/next.ts');
    return async (path: string, init?: RequestInit) => {
      const request = new Request(`http://app${path}`, init);
      if (path === '/ask') return await POST(request);
      return await GET(request, { params: Promise.resolve({ runId: path.split('/')[2] ?? '' }) });
    };
  },
};

test.each(Object.entries(apps))(
  'an app with %s starts a run, streams it, and continues a stream',
  async (name, start) => {
    const provider = scriptedModel(always('It was delivered.'));
    const worker = await startWorker({ redis, prefix, agents: [defineAgent({ id: 'support', model: 'm' })], provider });
    onTestFinished(() => worker.stop(1_000));
    const request = await start();
    const ask = async (body: object) =>
      await request('/ask', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });

    const bad = await ask({ input: '' });
    expect([bad.status, await bad.json()]).toMatchObject([400, { error: { code: 'validation' } }]);
    const accepted = await ask({ input: 'Where is order 7?', messageId: `${name}-1` });
    const { runId } = (await accepted.json()) as { runId: string };
    expect(accepted.status).toBe(202);
    const again = await ask({ input: 'Where is order 7?', messageId: `${name}-1` });
    expect(await again.json()).toEqual({ runId });

    const whole = await (await request(`/runs/${runId}/events`)).text();
    const ids = [...whole.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
    expect(ids).toEqual(ids.map((_, index) => index + 1));
    expect(whole).toContain('event: run.completed');
    expect(whole).toContain('It was delivered.');
    const rest = await (await request(`/runs/${runId}/events`, { headers: { 'last-event-id': '3' } })).text();
    expect(whole.endsWith(rest)).toBe(true);
    expect(rest).toMatch(/^id: 4\n/);

    const unknown = await request('/runs/01HZZZZZZZZZZZZZZZZZZZZZZZ/events');
    expect([unknown.status, await unknown.json()]).toMatchObject([404, { error: { code: 'run_not_found' } }]);
  },
);

test('the page about existing apps shows the files that run here', () => {
  const shown = codeBlocks(docsPage('existing-apps.md'), 'ts');
  const files = ['runs', 'express', 'fastify', 'next'].map((name) => readFileSync(`examples/apps/${name}.ts`, 'utf8'));
  expect(shown).toEqual(files);
});
