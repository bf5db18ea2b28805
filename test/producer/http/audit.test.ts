import { expect, test } from 'vitest';
import { auditView } from '../../../src/producer/client/audit/audit.ts';
import { sha256 } from '../../../src/shared/base/ids.ts';
import { parseApiKeys } from '../../../src/shared/contract/config.ts';
import { addDeed } from '../../../src/shared/state/audit/audit-stream.ts';
import { auditApiKeys } from '../../../src/shared/state/audit/api-keys.ts';
import { runWithFlows } from '../support/flows.ts';
import { suspendedRun } from '../support/suspended.ts';
import { serverWorld, type ServerWorld } from './server-world.ts';

const apiKeys = [
  `${sha256('ada')}:default:*`,
  `${sha256('kim')}:default:read+write+approve`,
  `${sha256('eve')}:south:*`,
].join(',');
const as = (key: string) => ({ authorization: `Bearer ${key}` });
const ada = `key:${sha256('ada').slice(0, 8)}`;

type Entry = Record<string, unknown>;

async function entriesOf({ send }: ServerWorld, query = '', key = 'ada'): Promise<Entry[]> {
  const { status, body } = await send('GET', `/v1/audit?${query}`, undefined, as(key));
  expect(status).toBe(200);
  expect(body.entries.map((entry: unknown) => auditView.parse(entry))).toEqual(body.entries);
  return body.entries;
}

test('what a key decides and pays in is in the audit log with the key, once, and without what was said', async () => {
  const world = await serverWorld({ apiKeys });
  const { send } = world;
  const call = { kind: 'approval', id: 'c1', toolName: 'send_mail', args: { to: 'canary-arg' } } as const;
  const run = await suspendedRun(world, [call, { kind: 'budget', id: 'batch:b1' }]);
  const decide = (body: object) => send('POST', `/v1/runs/${run.runId}/decisions`, body, as('ada'));
  const denial = { approvals: [{ toolCallId: 'c1', granted: false, reason: 'canary-reason' }] };
  for (let twice = 0; twice < 2; twice++) expect((await decide(denial)).status).toBe(202);
  await send('PUT', '/v1/budgets/batch/b1', { maxCostUsd: 1 }, as('ada'));
  const topUp = { ...as('ada'), 'idempotency-key': 'k1' };
  for (let twice = 0; twice < 2; twice++) await send('POST', '/v1/budgets/batch/b1/top-ups', { usd: 2 }, topUp);
  const entries = await entriesOf(world);
  const head = { at: expect.any(String), tenant: 'default', by: ada, id: expect.any(String) };
  expect(entries).toEqual([
    {
      ...head,
      kind: 'decision',
      runId: run.runId,
      agent: 'support',
      verdict: 'denied',
      toolCallId: 'c1',
      toolName: 'send_mail',
    },
    {
      ...head,
      kind: 'budget',
      change: 'set',
      scope: 'batch',
      accountId: 'b1',
      microcents: 1e8,
      onExceed: 'fail',
    },
    { ...head, kind: 'budget', change: 'top_up', scope: 'batch', accountId: 'b1', microcents: 2e8 },
  ]);
  expect(JSON.stringify(entries)).not.toContain('canary');
});

test('a pause of a batch and its end are in the log, and a pause of one that is paused is not', async () => {
  const world = await serverWorld({ apiKeys });
  const { send, url } = world;
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', new Blob(['{"input":"x"}\n']), 'lines.jsonl');
  const uploaded = await fetch(`${url}/v1/files`, { method: 'POST', headers: as('ada'), body: form });
  const { id: input_file_id } = (await uploaded.json()) as { readonly id: string };
  const asked = { input_file_id, endpoint: '/v1/runs', agent: 'support' };
  const { id } = (await send('POST', '/v1/batches', asked, as('ada'))).body;
  for (const change of ['pause', 'pause', 'resume', 'resume'])
    await send('POST', `/v1/batches/${id}/${change}`, {}, as('ada'));
  expect(await entriesOf(world)).toMatchObject([
    { kind: 'pause', change: 'paused', batchId: id, by: ada },
    { kind: 'pause', change: 'resumed', batchId: id, by: ada },
  ]);
});

test('a verdict about money is in the audit log', async () => {
  const world = await serverWorld({ apiKeys });
  const run = await suspendedRun(world, [{ kind: 'budget', id: 'batch:b1' }]);
  await world.send('POST', `/v1/runs/${run.runId}/decisions`, { budget: 'approve' }, as('ada'));
  expect(await entriesOf(world)).toMatchObject([{ kind: 'decision', runId: run.runId, verdict: 'approved', by: ada }]);
});

test('the log is read from either end, page by page, and whole as lines', async () => {
  const world = await serverWorld({ apiKeys });
  const { redis, keys, send, url } = world;
  const at = new Date().toISOString();
  for (let i = 0; i < 7; i++)
    await addDeed({ redis, keys }, 'default', { kind: 'pause', at, change: 'paused', batchId: `b${i}` });
  await runWithFlows(world, [{}]);
  const read = async (order: string) => {
    const seen: unknown[] = [];
    for (let after: string | undefined = ''; after !== undefined;) {
      const query = `limit=3&order=${order}${after === '' ? '' : `&after=${after}`}`;
      const { body } = await send('GET', `/v1/audit?${query}`, undefined, as('ada'));
      seen.push(...body.entries.map(({ batchId = 'flow' }: { batchId?: string }) => batchId));
      after = body.next;
    }
    return seen;
  };
  const all = ['b0', 'b1', 'b2', 'b3', 'b4', 'b5', 'b6', 'flow'];
  expect(await read('oldest')).toEqual(all);
  expect(await read('newest')).toEqual(all.toReversed());
  expect(await entriesOf(world, 'kind=flow')).toMatchObject([{ kind: 'flow', toolName: 'send_mail' }]);
  const headers = { ...as('ada'), accept: 'application/x-ndjson' };
  const lines = (await (await fetch(`${url}/v1/audit`, { headers })).text()).trimEnd().split('\n');
  expect(lines.map((line) => (JSON.parse(line) as Entry)['batchId'] ?? 'flow')).toEqual(all);
  // What guards found is listed as before, without the other kinds.
  expect((await send('GET', '/v1/flows', undefined, as('ada'))).body.flows).toHaveLength(1);
  expect((await send('GET', '/v1/flows/report', undefined, as('ada'))).body).toMatchObject({ leaks: 0 });
});

test('only an operator reads the log, and only that of the own tenant', async () => {
  const world = await serverWorld({ apiKeys });
  const { redis, keys, send } = world;
  const at = new Date().toISOString();
  await addDeed({ redis, keys }, 'default', { kind: 'pause', at, change: 'paused', batchId: 'b' });
  expect((await send('GET', '/v1/audit', undefined, as('kim'))).body.error).toMatchObject({ code: 'forbidden' });
  await expect(world.mill.forTenant('default', 'caller').audit()).rejects.toMatchObject({ code: 'forbidden' });
  expect(await entriesOf(world, '', 'eve')).toEqual([]);
  expect(await entriesOf(world)).toHaveLength(1);
  for (const query of ['after=x', 'kind=nothing', 'limit=0', 'since=soon', 'order=random'])
    expect((await send('GET', `/v1/audit?${query}`, undefined, as('ada'))).body.error.code).toBe('validation');
});

test('a start with other API keys is in the log of each tenant, once', async () => {
  const world = await serverWorld({ apiKeys });
  const { redis, keys } = world;
  const start = (source: string) => auditApiKeys({ redis, keys }, parseApiKeys(source).keys);
  await Promise.all([start(apiKeys), start(apiKeys)]);
  expect((await entriesOf(world)).map(({ change, key }) => [change, key])).toEqual([
    ['added', ada],
    ['added', `key:${sha256('kim').slice(0, 8)}`],
  ]);
  await start(`${sha256('ada')}:default:read,${sha256('eve')}:south:*`);
  expect((await entriesOf(world)).slice(2)).toMatchObject([
    { change: 'changed', key: ada, scopes: ['read'] },
    { change: 'removed', key: `key:${sha256('kim').slice(0, 8)}`, scopes: ['approve', 'read', 'write'] },
  ]);
  expect(await entriesOf(world, '', 'eve')).toHaveLength(1);
});
