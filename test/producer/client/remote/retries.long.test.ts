import { onTestFinished, expect, test, vi } from 'vitest';
import { Millrace } from '../../../../src/producer/client/millrace.ts';
import type { RunError } from '../../../../src/shared/base/errors.ts';
import { freePort } from '../../../support/scratch-redis.ts';
import { RunWriter } from '../../support/run-writer.ts';
import { suspendedRun } from '../../support/suspended.ts';
import { request } from '../../cli/options/client.ts';
import { serverWorld } from '../../http/server-world.ts';
import { meddlingProxy, type Meddling } from './proxy.ts';

const apiKey = 'sk-very-secret-key';

async function proxied() {
  const world = await serverWorld();
  const proxy = await meddlingProxy(world.url);
  const client = new Millrace({ url: proxy.url, apiKey });
  onTestFinished(() => client.close());
  return { ...world, proxy, client };
}

async function errorOf(call: Promise<unknown>): Promise<RunError> {
  return await call.then(
    () => Promise.reject(new Error('it did not throw')),
    (error: RunError) => error,
  );
}

test('a run that is asked for again, because the answer was lost, is one run', async () => {
  const { mill, proxy, client } = await proxied();
  proxy.meddle('POST /v1/runs', 'lose the answer', 'lose the answer');
  const run = await client.enqueue(request);
  expect(run.attached).toBe(false);
  expect((await mill.list()).runs.map(({ runId }) => runId)).toEqual([run.runId]);
  expect(proxy.seen.filter((name) => name === 'POST /v1/runs')).toHaveLength(3);
});

test('an execution id of the caller is kept, and says what was there', async () => {
  const { client } = await proxied();
  const run = await client.enqueue({ ...request, executionId: 'mine' });
  const again = await client.enqueue({ ...request, executionId: 'mine' });
  expect([run.attached, again.attached, again.runId]).toEqual([false, true, run.runId]);
});

test('many runs that are asked for again are as many, with one answer for each', async () => {
  const { mill, proxy, client } = await proxied();
  proxy.meddle('POST /v1/runs/bulk', 'lose the answer');
  const answers = await client.enqueueMany([request, { ...request, agent: '!' }, request]);
  expect(answers).toMatchObject([{ attached: false }, { error: { code: 'invalid_id' } }, { attached: false }]);
  expect((await mill.list()).runs).toHaveLength(2);
});

test('many large runs go in requests of a few megabytes', async () => {
  const { mill, proxy, client } = await proxied();
  const large = { agent: 'support', input: 'x'.repeat(200_000) };
  const answers = await client.enqueueMany(Array.from({ length: 30 }, () => large));
  expect(answers.filter((answer) => 'error' in answer)).toEqual([]);
  expect(proxy.seen.filter((name) => name === 'POST /v1/runs/bulk').length).toBeGreaterThan(1);
  expect((await mill.list({ limit: 100 })).runs).toHaveLength(30);
});

test('a producer that asks to come back is asked again, after so long', async () => {
  const { proxy, client } = await proxied();
  const body = JSON.stringify({ error: { code: 'overloaded', message: 'busy', retryable: true } });
  const busy = { status: 503, headers: { 'content-type': 'application/json', 'retry-after': '1' }, body };
  proxy.meddle('GET /v1/agents', busy, busy);
  expect(await client.agents()).toEqual([]);
  const late = { ...busy, headers: { ...busy.headers, 'retry-after': '60' } };
  proxy.meddle('GET /v1/agents', late);
  expect(await errorOf(client.agents())).toMatchObject({ code: 'overloaded', details: { retryAfterS: 60 }, http: 503 });
});

test('money is added once, also without a key of the caller', async () => {
  const { proxy, client } = await proxied();
  await client.budgets.set('batch', 'b', { maxCostUsd: 1 });
  proxy.meddle(/top-ups/, 'lose the answer');
  expect(await client.budgets.topUp('batch', 'b', { usd: 1 })).toMatchObject({ capMicrocents: 2e8 });
});

test('a note is written once', async () => {
  const { proxy, client, start } = await proxied();
  const { runId } = await start();
  proxy.meddle(/progress/, 'lose the answer');
  await client.writeProgress(runId, { text: 'done' });
  expect(await client.progress(runId)).toHaveLength(1);
});

test('a cancel and a removal whose answers were lost have done what they say', async () => {
  const { proxy, client, start, mill } = await proxied();
  const { runId } = await start();
  proxy.meddle(/cancel/, 'lose the answer');
  expect(await client.cancel(runId)).toMatchObject({ status: 'cancelled' });
  const file = await mill.files.upload('a line', { filename: 'a.jsonl', purpose: 'batch' });
  proxy.meddle('DELETE', 'lose the answer');
  await client.files.remove(file.id);
  expect(await errorOf(client.files.remove(file.id))).toMatchObject({ code: 'not_found' });
});

test('what may not be done twice is not asked for twice', async () => {
  const world = await proxied();
  const { proxy, client, redis, keys } = world;
  const money = await suspendedRun(world, [{ kind: 'budget', id: 'batch:b' }]);
  proxy.meddle(/decisions/, 'lose the answer');
  expect(await errorOf(client.decide(money.runId, { budget: 'approve' }))).toMatchObject({ code: 'queue_unavailable' });
  const { runId } = await world.start();
  await new RunWriter(redis, keys, runId).end('failed');
  proxy.meddle(/redrive/, 'lose the answer');
  expect(await errorOf(client.redrive({ runId }))).toMatchObject({ code: 'queue_unavailable' });
  expect(proxy.seen.filter((name) => /decisions|redrive/.test(name))).toHaveLength(2);
});

const json = { 'content-type': 'application/json; charset=utf-8' };
const page = { 'content-type': 'text/html' };
test.each<[string, Meddling, string, string]>([
  [
    'a page of a proxy that cannot reach it',
    { status: 502, headers: page, body: '<html>' },
    'queue_unavailable',
    'answered with 502 (text/html)',
  ],
  [
    'a page of another server',
    { status: 200, headers: page, body: '<html>' },
    'invalid_config',
    'is this the address of a Millrace producer?',
  ],
  [
    'a 404 of another server',
    { status: 404, headers: page, body: 'no' },
    'invalid_config',
    'is this the address of a Millrace producer?',
  ],
  ['a proxy that asks for credentials', { status: 401, headers: page }, 'unauthorized', 'a proxy asks for credentials'],
  [
    'a redirect',
    { status: 302, headers: { location: 'https://elsewhere.example/x?token=1' } },
    'invalid_config',
    'redirects to https://elsewhere.example/x:',
  ],
  ['an empty answer', { status: 200, headers: json, body: '' }, 'queue_unavailable', 'sent an empty answer'],
  [
    'JSON that broke off',
    { status: 200, headers: json, body: '{"agents":[' },
    'queue_unavailable',
    'sent an answer that broke off',
  ],
  [
    'JSON that is no error of ours',
    { status: 500, headers: json, body: '{"message":"x"}' },
    'queue_unavailable',
    'answered with 500',
  ],
  [
    'an older producer',
    {
      status: 404,
      headers: json,
      body: '{"error":{"code":"not_found","message":"there is no such route","retryable":false}}',
    },
    'not_found',
    'there is no such route: GET http',
  ],
])('%s is told apart, with the address and without the key', async (_, answer, code, says) => {
  const { proxy, client } = await proxied();
  proxy.meddle('GET /v1/agents', ...Array.from({ length: 20 }, () => answer));
  const error = await errorOf(client.agents());
  expect(error).toMatchObject({ code });
  expect(error.message).toContain(says);
  expect(error.message).toContain(proxy.url);
  expect(`${error.message}${JSON.stringify(error)}${String(error.stack)}`).not.toContain(apiKey);
  expect(error.message).not.toContain('token');
});

test('a code that this version does not know comes as it is, with what the producer says of it', async () => {
  const { proxy, client } = await proxied();
  const error = { code: 'from_the_future', message: 'later', retryable: true, details: { a: 1 } };
  proxy.meddle('GET /v1/agents', { status: 418, headers: json, body: JSON.stringify({ error }) });
  expect(await errorOf(client.agents())).toMatchObject({ ...error, http: 418 });
});

test('the error of OpenAI’s routes has our code', async () => {
  const { client } = await proxied();
  expect(await errorOf(client.files.get('file-01KAS7YJ5V2N8Q4T6W9X0B3D1F'))).toMatchObject({
    code: 'not_found',
    http: 404,
  });
});

test('a producer that is not there is named, and a closed client says so', async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const errors: Error[] = [];
  const client = new Millrace({ url, apiKey, onError: (error) => errors.push(error) });
  const error = await errorOf(client.agents());
  expect(error).toMatchObject({ code: 'queue_unavailable', retryable: true });
  expect(error.message).toBe(`Millrace cannot be reached at ${url} (ECONNREFUSED): is a producer running there?`);
  expect(errors.length).toBeGreaterThan(0);
  expect(await client.writeProblem()).toMatchObject({ redis: 'away' });
  await client.close();
  expect((await errorOf(client.agents())).message).toBe('this client is closed');
});

test('a request without an answer ends with its signal', async () => {
  const { proxy, client } = await proxied();
  proxy.meddle('POST /v1/runs', 'fall silent');
  const stop = new AbortController();
  const asked = client.enqueue(request, { signal: stop.signal });
  await vi.waitFor(() => expect(proxy.seen).toContain('POST /v1/runs'));
  stop.abort(new Error('enough'));
  expect((await errorOf(asked)).message).toBe('enough');
});

test.each([
  [{ url: 'nonsense' }, 'url: must be like'],
  [{ url: 'redis://localhost' }, 'url: must be like'],
  [{ url: 'https://u:p@x' }, 'url: has a user or a password'],
  [{ url: 'https://x/?a=1' }, 'url: has a query'],
  [{ url: 'https://x', apiKey: 'a\nb' }, 'apiKey: is empty, or has characters'],
  [{ url: 'https://x', redis: 'redis://localhost' }, 'redis is an option for Redis'],
  [{ url: 'https://x', tenant: 'a' }, 'tenant is an option for Redis'],
  [{ apiKey: 'x' }, 'apiKey is about HTTP and needs url'],
])('the options %o are refused', (options, says) => {
  expect(() => new Millrace(options as never)).toThrow(says);
});

test('MILLRACE_URL leads a client to HTTP where nothing is said about Redis', async () => {
  const { url } = await serverWorld();
  vi.stubEnv('MILLRACE_URL', url);
  onTestFinished(() => void vi.unstubAllEnvs());
  await using mill = new Millrace();
  expect(await mill.whoami()).toEqual({ tenant: 'default', rights: 'operator' });
  await using other = new Millrace({ redis: 'redis://127.0.0.1:1' });
  expect(other.tenant).toBe('default');
});

test('what only a process beside Redis may do is refused, and says why', async () => {
  const { client } = await proxied();
  expect(() => client.forTenant('x')).toThrow('the API key names the tenant');
  expect(await errorOf(client.registerAgents([]))).toMatchObject({ code: 'validation' });
  expect(await errorOf(client.forgetAgents([]))).toMatchObject({ code: 'validation' });
  expect(await errorOf(client.mcpPins.accept('x', {}, { by: 'kim' }))).toMatchObject({ code: 'validation' });
});

test('files go up and down as streams', async () => {
  const { client } = await proxied();
  const bytes = new Uint8Array(100_000).map((_, i) => i % 251);
  const pieces = async function* () {
    for (let at = 0; at < 30; at++) yield bytes;
  };
  const about = {
    filename: 'größe 1.bin',
    purpose: 'user_data',
    mediaType: 'image/png',
    expiresAfterS: 7_200,
  } as const;
  for (const body of [pieces(), new Blob(Array.from({ length: 30 }, () => bytes))]) {
    const file = await client.files.upload(body, about);
    expect(file).toMatchObject({ bytes: 3_000_000, filename: about.filename, purpose: 'user_data' });
    expect((file.expires_at ?? 0) - file.created_at).toBe(7_200);
    const got: Uint8Array[] = [];
    for await (const part of client.files.content(file.id)) got.push(part);
    expect(Buffer.concat(got).equals(Buffer.concat(Array.from({ length: 30 }, () => bytes)))).toBe(true);
  }
  const text = await client.files.upload('a\nb', () => ({ filename: 'x.jsonl', purpose: 'batch' }));
  expect((await client.files.list({ purpose: 'batch' })).data).toMatchObject([{ id: text.id, bytes: 3 }]);
});
