import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { parseConfig } from '../../../src/shared/contract/config.ts';
import type { EventBody } from '../../../src/shared/contract/event.ts';
import { Redactor } from '../../../src/shared/base/redact.ts';
import { createProviders } from '../../../src/worker/llm/backends/providers.ts';
import { ProviderWatch } from '../../../src/worker/ops/provider-watch.ts';
import { freePort } from '../../support/scratch-redis.ts';

const key = 'sk-test-0123456789abcdef';

/** Serves lists of models with a status that a test may change. */
async function modelServer(status: number) {
  const state = { status, asked: [] as (string | undefined)[], url: '' };
  const server = createServer((request, response) => {
    state.asked.push(request.headers.authorization);
    response.writeHead(state.status).end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  state.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return state;
}

function watchOf(env: Record<string, string>) {
  let nowMs = Date.parse('2026-11-23T08:00:00Z');
  const { about } = createProviders(parseConfig(env), (name) => env[name]);
  const watch = new ProviderWatch(about, { clock: { now: () => nowMs }, redactor: new Redactor([key]) });
  onTestFinished(() => watch[Symbol.dispose]());
  return { watch, pass: (ms: number) => void (nowMs += ms), only: () => watch.reports()[0] };
}

function called(error?: { kind: string; message: string; status?: number }, provider = 'openai'): EventBody {
  const about = { model: 'gpt-5', provider, requestId: 'r', attemptNumber: 1, tokensIn: 0, tokensOut: 0, latencyMs: 1 };
  return { type: 'llm.call', ...about, outcome: error ? 'failed' : 'succeeded', error };
}

test('a provider is asked for its models with its key, and again only when that is due', async () => {
  const server = await modelServer(200);
  const { watch, pass, only } = watchOf({ OPENAI_BASE_URL: server.url, OPENAI_API_KEY: key });
  expect(only()).toEqual({ id: 'openai', kind: 'openai', host: new URL(server.url).host, hasKey: true });
  await watch.look();
  await watch.look();
  expect(only()).toMatchObject({ endpoint: { state: 'answers', status: 200, at: '2026-11-23T08:00:00.000Z' } });
  expect(server.asked).toEqual([`Bearer ${key}`]);
  pass(300_000);
  watch.observe(called());
  await watch.look();
  expect(server.asked).toHaveLength(1);
  pass(300_000);
  server.status = 401;
  await watch.look();
  expect(only()).toMatchObject({ endpoint: { state: 'refuses_key', status: 401 } });
  server.status = 403;
  await watch.look();
  expect(only()).toMatchObject({ endpoint: { state: 'refuses_key', status: 403 } });
  server.status = 503;
  await watch.look();
  expect(only()).toMatchObject({ endpoint: { state: 'fails', status: 503 } });
});

test('a provider that is away is unreachable, and one without a key is asked without', async () => {
  const { watch, only } = watchOf({ OPENAI_BASE_URL: `http://127.0.0.1:${await freePort()}/v1` });
  await watch.look();
  expect(only()).toMatchObject({ hasKey: false, endpoint: { state: 'unreachable' } });
  const server = await modelServer(404);
  const keyless = watchOf({ OPENAI_BASE_URL: server.url });
  await keyless.watch.look();
  expect([keyless.only()?.endpoint?.state, server.asked]).toEqual(['answers', [undefined]]);
});

test('the last error is kept, without secrets, bounded, and without what may quote a user', () => {
  const { watch, only } = watchOf({ OPENAI_API_KEY: key });
  watch.observe(called({ kind: 'auth', status: 401, message: `${key} is unknown ${'x'.repeat(1_000)}` }));
  const { message = '' } = only()?.lastError ?? {};
  expect(only()?.lastError).toMatchObject({ kind: 'auth', status: 401, model: 'gpt-5' });
  expect([message.length <= 200, message.includes(key)]).toEqual([true, false]);
  watch.observe(called({ kind: 'bad_request', status: 400, message: 'my secret plan is not valid' }));
  expect(JSON.stringify(only())).not.toContain('secret plan');
  watch.observe(called({ kind: 'cancelled', message: 'stopped' }));
  watch.observe({ ...called({ kind: 'rate_limit', message: 'later' }), outcome: 'skipped' } as EventBody);
  expect(only()?.lastError?.kind).toBe('bad_request');
  watch.observe({ ...called({ kind: 'auth', message: 'no' }), model: 'm'.repeat(1_000) } as EventBody);
  expect(only()?.lastError?.model).toHaveLength(128);
});

test('calls of providers that no setting names are reported as well, up to a bound', () => {
  const { watch } = watchOf({ MILLRACE_SCRIPT: 'builtin' });
  for (let n = 0; n < 100; n++) watch.observe(called(undefined, `own-${n}`));
  const reports = watch.reports();
  expect(reports).toHaveLength(32);
  expect(reports[1]).toMatchObject({ id: 'own-0', kind: 'custom', lastAnswerAt: '2026-11-23T08:00:00.000Z' });
});

test('a watch that is disposed asks no longer, and notes nothing more', async () => {
  const asked = Promise.withResolvers<AbortSignal>();
  const provider = {
    id: 'slow',
    kind: 'openai' as const,
    hasKey: true,
    look: async (signal: AbortSignal) => {
      asked.resolve(signal);
      return await new Promise<number>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    },
  };
  const watch = new ProviderWatch([provider], { clock: { now: () => 0 }, redactor: new Redactor([]) });
  const looking = watch.look();
  const signal = await asked.promise;
  watch[Symbol.dispose]();
  expect(signal.aborted).toBe(true);
  await looking;
  expect(watch.reports()[0]).not.toHaveProperty('endpoint');
});
