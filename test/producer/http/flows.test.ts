import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { flowReport } from '../../../src/producer/client/flows/flow-report.ts';
import { flowView } from '../../../src/producer/client/flows/flows.ts';
import { runWithFlows, runWithLeak } from '../support/flows.ts';
import { serverWorld, type ServerWorld } from './server-world.ts';

const digest = (key: string) => createHash('sha256').update(key).digest('hex');
const hour = 3_600_000;
const day = 24 * hour;

/** The call ids of a list. */
async function listed({ send }: ServerWorld, query = ''): Promise<string[]> {
  const { status, body } = await send('GET', `/v1/flows?${query}`);
  expect([status, body.error]).toEqual([200, undefined]);
  return body.flows.map((entry: { toolCallId: string }) => entry.toolCallId);
}

async function reportOf({ send }: ServerWorld, query = '') {
  const { status, body } = await send('GET', `/v1/flows/report?${query}`);
  expect([status, body.error]).toEqual([200, undefined]);
  return flowReport.parse(body);
}

test('flows are listed newest first, and each filter leaves what fits', async () => {
  const world = await serverWorld();
  const trifecta = { rule: 'lethal-trifecta', findings: [{ rule: 'lethal-trifecta' }] } as const;
  const first = await runWithFlows(world, [{}, { decision: 'blocked', toolName: 'pay' }, { ...trifecta }]);
  const both = [...trifecta.findings, { rule: 'argument-origin', argument: 'to' }] as const;
  const second = await runWithFlows(world, [{ agentId: 'buyer', findings: both, rule: 'lethal-trifecta' }]);
  const { body } = await world.send('GET', '/v1/flows');
  expect(body.flows.map((entry: unknown) => flowView.parse(entry))).toEqual(body.flows);
  expect(body.flows.map((entry: { runId: string }) => entry.runId)).toEqual([second, first, first, first]);
  expect(body.flows[3]).toEqual({
    kind: 'flow',
    sequenceNumber: 4,
    at: expect.any(String),
    tenant: 'default',
    runId: first,
    agent: 'support',
    decision: 'flagged',
    toolCallId: 'call-0',
    toolName: 'send_mail',
    rule: 'untrusted-value',
    mode: 'shadow',
    findings: [{ rule: 'untrusted-value', argument: 'to', source: { name: 'web_fetch', trust: 'external' } }],
  });
  expect(await listed(world, 'decision=blocked')).toEqual(['call-1']);
  expect(await listed(world, 'tool=pay')).toEqual(['call-1']);
  expect(await listed(world, 'agent=buyer')).toEqual(['call-0']);
  expect(await listed(world, `run=${first}`)).toEqual(['call-2', 'call-1', 'call-0']);
  expect(await listed(world, 'rule=lethal-trifecta')).toEqual(['call-0', 'call-2']);
  expect(await listed(world, 'rule=argument-origin')).toEqual(['call-0']);
  expect(await listed(world, 'kind=leak')).toEqual([]);
  expect(await listed(world, 'kind=flow&limit=1')).toEqual(['call-0']);
});

test('since and until bound when something was found, as a time or so long ago', async () => {
  const world = await serverWorld();
  await runWithFlows(world, [{ agoMs: 3 * day }, { agoMs: 2 * day }, { agoMs: day }, { agoMs: 0 }]);
  expect(await listed(world, 'since=36h')).toEqual(['call-3', 'call-2']);
  expect(await listed(world, 'until=36h')).toEqual(['call-1', 'call-0']);
  const middle = new Date(Date.now() - 60 * hour).toISOString();
  expect(await listed(world, `since=${middle}&until=12h`)).toEqual(['call-2', 'call-1']);
});

test('pages follow each other without a repeat or a gap while entries come', async () => {
  const world = await serverWorld();
  await runWithFlows(
    world,
    Array.from({ length: 25 }, () => ({})),
  );
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const { body } = await world.send('GET', `/v1/flows?limit=10${cursor === undefined ? '' : `&cursor=${cursor}`}`);
    seen.push(...body.flows.map((entry: { toolCallId: string }) => entry.toolCallId));
    cursor = body.cursor;
    await runWithFlows(world, [{ toolName: 'late' }]);
  } while (cursor !== undefined);
  expect(seen).toEqual(Array.from({ length: 25 }, (_, i) => `call-${24 - i}`));
});

test('a list that finds little ends a page early and goes on from its cursor', async () => {
  const world = await serverWorld();
  await runWithFlows(world, [{ toolName: 'rare' }]);
  const { redis, keys } = world;
  const [[, [, json = '']] = ['', []]] = await redis.xrange(keys.audit('default'), '-', '+');
  const other = json.replace('rare', 'common');
  const pipeline = redis.pipeline();
  for (let i = 0; i < 2_100; i++) pipeline.xadd(keys.audit('default'), '*', 'a', other);
  await pipeline.exec();
  const { body } = await world.send('GET', '/v1/flows?tool=rare');
  expect(body.flows).toEqual([]);
  expect(await listed(world, `tool=rare&cursor=${body.cursor}`)).toEqual(['call-0']);
});

test('the report counts by tool and by rule what became of each call', async () => {
  const world = await serverWorld();
  const source = { name: 'mcp:crm/notes', trust: 'mcp-derived' } as const;
  const trifecta = { rule: 'lethal-trifecta', source } as const;
  const iban = { rule: 'argument-origin', argument: 'items.0.iban', source } as const;
  await runWithFlows(world, [{ agoMs: 8 * day }, { agoMs: 2 * day }, { agoMs: day }]);
  const call = { toolName: 'pay', rule: 'argument-origin', findings: [iban, trifecta], mode: 'confirm' } as const;
  await runWithFlows(world, [
    { ...call, decision: 'asked', toolCallId: 'a' },
    { ...call, decision: 'declassified', toolCallId: 'a', by: 'kim' },
    { ...call, decision: 'asked', toolCallId: 'b', agentId: 'buyer' },
    { ...call, decision: 'blocked', toolCallId: 'b', agentId: 'buyer' },
    { ...call, decision: 'blocked', toolCallId: 'c' },
    { ...call, decision: 'declassified', toolCallId: 'd' },
  ]);
  const report = await reportOf(world);
  const pay = { flagged: 0, blocked: 1, asked: 2, granted: 1, denied: 1, declassified: 1, runs: 1 };
  expect(report.totals).toEqual({ ...pay, flagged: 2, runs: 2 });
  expect(report.tools).toEqual([
    {
      tool: 'pay',
      ...pay,
      rules: ['argument-origin', 'lethal-trifecta'],
      agents: ['support', 'buyer'],
      arguments: ['items.0.iban'],
      sources: ['mcp:crm/notes'],
      firstAt: expect.any(String),
      lastAt: expect.any(String),
    },
    {
      tool: 'send_mail',
      flagged: 2,
      blocked: 0,
      asked: 0,
      granted: 0,
      denied: 0,
      declassified: 0,
      runs: 1,
      rules: ['untrusted-value'],
      agents: ['support'],
      arguments: ['to'],
      sources: ['web_fetch'],
      firstAt: expect.any(String),
      lastAt: expect.any(String),
    },
  ]);
  const mail = report.tools[1];
  expect(Date.parse(mail?.lastAt ?? '') - Date.parse(mail?.firstAt ?? '')).toBe(day);
  expect(report.rules.map(({ rule, tools, arguments: paths }) => [rule, tools, paths])).toEqual([
    ['argument-origin', ['pay'], ['items.0.iban']],
    ['lethal-trifecta', ['pay'], []],
    ['untrusted-value', ['send_mail'], ['to']],
  ]);
  expect(report.partial).toBe(false);
  expect(Date.now() - Date.parse(report.reachesBackTo ?? '')).toBeGreaterThan(7.9 * day);
  expect((await reportOf(world, 'since=30d')).totals).toMatchObject({ flagged: 3 });
  expect((await reportOf(world, 'since=1h')).totals).toMatchObject({ flagged: 0 });
});

test('leaks between agents are in the list and counted in the report', async () => {
  const world = await serverWorld();
  await runWithFlows(world, [{}]);
  const runId = await runWithLeak(world);
  const { body } = await world.send('GET', '/v1/flows?kind=leak');
  expect(body.flows.map((entry: unknown) => flowView.parse(entry))).toMatchObject([
    { kind: 'leak', runId, vector: 'child-answer', severity: 'high', decision: 'blocked' },
  ]);
  expect((await world.send('GET', '/v1/flows?decision=blocked')).body.flows).toHaveLength(1);
  expect((await world.send('GET', '/v1/flows?decision=escaped')).body.flows).toEqual([]);
  expect(await reportOf(world)).toMatchObject({ leaks: 1, totals: { flagged: 1, blocked: 0, runs: 1 } });
});

test('a report of more entries than one request counts says that it is partial', async () => {
  const world = await serverWorld();
  await runWithFlows(world, [{}]);
  const { redis, keys } = world;
  const [[, [, json = '']] = ['', []]] = await redis.xrange(keys.audit('default'), '-', '+');
  for (let batch = 0; batch < 21; batch++) {
    const pipeline = redis.pipeline();
    for (let i = 0; i < 1_000; i++) pipeline.xadd(keys.audit('default'), '*', 'a', json);
    await pipeline.exec();
  }
  const report = await reportOf(world);
  expect([report.partial, report.totals.flagged]).toEqual([true, 20_000]);
});

test('without findings the list is empty and the report all zeros', async () => {
  const world = await serverWorld();
  expect(await listed(world)).toEqual([]);
  const report = await reportOf(world);
  expect(report).toMatchObject({ tools: [], rules: [], leaks: 0, partial: false, totals: { flagged: 0, runs: 0 } });
  expect(report.reachesBackTo).toBeUndefined();
});

test('a key sees the flows of its own tenant only', async () => {
  const world = await serverWorld({ apiKeys: `${digest('ada')}:alpha,${digest('bob')}:beta:write` });
  await runWithFlows({ ...world, mill: world.mill.forTenant('alpha') }, [{}]);
  await runWithFlows({ ...world, mill: world.mill.forTenant('beta') }, [{ toolName: 'other' }]);
  const ask = async (key: string, path: string) =>
    await world.send('GET', path, undefined, { authorization: `Bearer ${key}` });
  expect((await ask('ada', '/v1/flows')).body.flows).toMatchObject([{ tenant: 'alpha', toolName: 'send_mail' }]);
  expect((await ask('ada', '/v1/flows/report')).body.tools).toMatchObject([{ tool: 'send_mail' }]);
  for (const path of ['/v1/flows', '/v1/flows/report'])
    expect((await ask('bob', path)).body.error).toMatchObject({ code: 'forbidden' });
});

test.for([
  ['decision=stopped', 'decision'],
  ['rule=trifecta', 'rule'],
  ['agent=a%20b', 'agent'],
  ['run=nope', 'run'],
  ['since=soon', 'since'],
  ['until=2026-11-21', 'until'],
  ['limit=0', 'limit'],
  ['limit=1e2', 'limit'],
  ['cursor=x', 'cursor'],
  ['cursor=-', 'cursor'],
  ['cursor=1-1)%20COUNT', 'cursor'],
  ['kind=key', 'kind'],
  ['colour=red', 'colour'],
] as const)('GET /v1/flows?%s is refused with what is wrong', async ([query, path]) => {
  const { send } = await serverWorld();
  const { status, body } = await send('GET', `/v1/flows?${query}`);
  expect([status, body.error?.code]).toEqual([400, 'validation']);
  expect(JSON.stringify(body.error.details)).toContain(path);
});

test.for(['soon', '31d2h', '60d', '2099-01-01T00:00:00Z'])('a report since %s is refused', async (since) => {
  const { send } = await serverWorld();
  const { status, body } = await send('GET', `/v1/flows/report?since=${since}`);
  expect([status, body.error?.code]).toEqual([400, 'validation']);
  expect(body.error.details).toMatchObject([{ path: 'since' }]);
});

test.each([
  'until=0001-01-01T00:00:00Z',
  'until=1969-12-31T00:00:00Z',
  'until=9999-12-31T23:59:59Z',
  'since=9999-12-31T23:59:59Z&until=0001-01-01T00:00:00Z',
  'cursor=0-0',
  'cursor=9999999999999999-9999999999',
  'after=9999999999999999-9999999999',
  'tool=%00%1b',
])('a list at the ends of time, or of what nothing is called, is a list: %s', async (query) => {
  const world = await serverWorld();
  await runWithFlows(world, [{}]);
  const { status, body } = await world.send('GET', `/v1/flows?${query}`);
  expect([status, body.error]).toEqual([200, undefined]);
});
