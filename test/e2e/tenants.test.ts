import { expect, test } from 'vitest';
import { sha256 } from '../../src/shared/base/ids.ts';
import { call } from '../support/http.ts';
import { planInput } from '../support/plan.ts';
import { shareWorld } from '../support/world.ts';

const keys = { a: 'key-of-tenant-a', b: 'key-of-tenant-b', reader: 'key-of-a-reader' };
const shared = shareWorld({
  producer: true,
  env: { MILLRACE_API_KEYS: `${sha256(keys.a)}:a,${sha256(keys.b)}:b,${sha256(keys.reader)}:a:read` },
});
const as = (who: keyof typeof keys) => ({ authorization: `Bearer ${keys[who]}` });

async function runOfA(text = 'for a only'): Promise<string> {
  const { world } = shared;
  const accepted = await call('POST', `${world.url}/v1/runs`, { agent: 'plain', input: planInput({ text }) }, as('a'));
  expect(accepted.status).toBe(202);
  const { runId } = accepted.body;
  expect((await call('GET', `${world.url}/v1/runs/${runId}/result?wait=30`, undefined, as('a'))).body.text).toBe(text);
  return runId;
}

test('every route answers another tenant as if the run did not exist', async () => {
  const { world } = shared;
  const runId = await runOfA();
  const routes: [string, string][] = [
    ['GET', ''],
    ['GET', '/result'],
    ['GET', '/events'],
    ['POST', '/cancel'],
  ];
  for (const [method, path] of routes) {
    const foreign = await call(method, `${world.url}/v1/runs/${runId}${path}`, undefined, as('b'));
    const unknown = await call(method, `${world.url}/v1/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV${path}`, undefined, as('b'));
    expect([foreign.status, foreign.body.error.code], `${method} ${path}`).toEqual([404, 'run_not_found']);
    expect(JSON.stringify(foreign.body).replaceAll(runId, 'ID')).toBe(
      JSON.stringify(unknown.body).replaceAll('01ARZ3NDEKTSV4RRFFQ69G5FAV', 'ID'),
    );
  }
  expect((await call('GET', `${world.url}/v1/runs`, undefined, as('b'))).body.runs).toEqual([]);
  expect(
    (await call('GET', `${world.url}/v1/runs`, undefined, as('a'))).body.runs.map(
      (run: { runId: string }) => run.runId,
    ),
  ).toContain(runId);
});

test('one execution id of two tenants is two runs', async () => {
  const { world } = shared;
  const send = (who: keyof typeof keys) =>
    call(
      'POST',
      `${world.url}/v1/runs`,
      { agent: 'plain', input: planInput({ text: 'x' }), executionId: 'shared-name' },
      as(who),
    );
  const [a, b] = await Promise.all([send('a'), send('b')]);
  expect([a.body.attached, b.body.attached]).toEqual([false, false]);
  expect(a.body.runId).not.toBe(b.body.runId);
});

test.each([
  'a:b',
  '{x}',
  '*',
  '..%2F..',
  '%00',
  '__proto__',
  '12',
  'x'.repeat(500),
  '01ARZ3NDEKTSV4RRFFQ69G5FAV:journal',
])('an id like %s is refused before it reaches a key', async (id) => {
  const { world } = shared;
  const answer = await call('GET', `${world.url}/v1/runs/${id}`, undefined, as('a'));
  expect([400, 404, 414]).toContain(answer.status);
  expect(['invalid_id', 'not_found', 'run_not_found', 'validation']).toContain(answer.body.error.code);
});

test('a missing, unknown or too narrow key is refused', async () => {
  const { world } = shared;
  const body = { agent: 'plain', input: 'x' };
  const none = await call('POST', `${world.url}/v1/runs`, body);
  const unknown = await call('POST', `${world.url}/v1/runs`, body, { authorization: 'Bearer absent' });
  const narrow = await call('POST', `${world.url}/v1/runs`, body, as('reader'));
  expect([none.status, none.body.error.code]).toEqual([401, 'unauthorized']);
  expect([unknown.status, unknown.body.error.code]).toEqual([401, 'unauthorized']);
  expect([narrow.status, narrow.body.error.code]).toEqual([403, 'forbidden']);
  const runId = await runOfA();
  expect((await call('GET', `${world.url}/v1/runs/${runId}`, undefined, as('reader'))).status).toBe(200);
});
