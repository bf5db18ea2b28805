import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { JournalEntry } from '../../../src/shared/contract/journal/journal.ts';
import type { AssistantPart } from '../../../src/shared/contract/message.ts';
import { threadEvent, threadEntry, type ThreadEntry } from '../../../src/shared/contract/thread/thread.ts';
import { threadItem } from '../../../src/shared/contract/thread/thread-items.ts';
import {
  modelResponse,
  aThread,
  toolResult,
  lockThread,
  tenant,
  titled,
  turnEntries,
  workerThreads,
} from '../support/threads.ts';
import { serverWorld, type ServerWorld } from './server-world.ts';

const digest = (key: string) => createHash('sha256').update(key).digest('hex');
const call = (id: string): AssistantPart => ({ type: 'tool_call', id, name: 'look', args: '{"order":8}' });
const textPart = (text: string) => ({ type: 'text' as const, text });

/** Kind and number, or what is in place of a number, of each item. */
function marks({ body }: { body: { messages: { kind: string; seq?: number; live?: true }[] } }): string[] {
  return body.messages.map(({ kind, seq, live }) => `${kind} ${seq ?? (live ? 'live' : 'nothing')}`);
}

async function journal({ redis, keys }: ServerWorld, runId: string, ...entries: JournalEntry[]): Promise<void> {
  await redis.rpush(keys.journal(runId), ...entries.map((entry) => JSON.stringify(entry)));
}

test('a thread shows its lock owner, how many runs wait, and that the owner is suspended', async () => {
  const world = await serverWorld();
  const threads = workerThreads(world);
  await aThread(world, 't1');
  const idle = await world.send('GET', '/v1/threads/t1');
  expect([idle.status, idle.body]).toEqual([
    200,
    {
      threadId: 't1',
      agentId: 'support',
      createdAt: expect.any(String) as string,
      updatedAt: expect.any(String) as string,
      waiting: 0,
      lastSeq: 5,
    },
  ]);
  const acquired = await threads.acquire({ tenant, threadId: 't1', runId: 'run2', agentId: 'support', epoch: 1 });
  const fence = acquired.kind === 'acquired' ? acquired.fence : 0;
  const lock = { tenant, threadId: 't1', runId: 'run2', fence };
  const session = { provider: 'openai', model: 'm', sessionToken: 'resp_secret' };
  await threads.append(lock, 'op', [], { session });
  await threads.suspend(lock);
  await threads.enter({ tenant, threadId: 't1', runId: 'run3', agentId: 'support' });
  const { body } = await world.send('GET', '/v1/threads/t1');
  expect(body).toMatchObject({ lockOwner: 'run2', suspendedBy: 'run2', waiting: 1, session: { provider: 'openai' } });
  expect(JSON.stringify(body)).not.toContain('resp_secret');
});

test('threads are listed page by page, and by agent', async () => {
  const world = await serverWorld();
  for (const id of ['t1', 't2', 't3']) await aThread(world, id);
  await aThread(world, 't4', 'run4', 'sales');
  const ids = ({ body }: { body: { threads: { threadId: string }[] } }) => body.threads.map((each) => each.threadId);
  const first = await world.send('GET', '/v1/threads?limit=3');
  const rest = await world.send('GET', `/v1/threads?limit=3&cursor=${first.body.cursor}`);
  expect(rest.body.cursor).toBeUndefined();
  expect([...ids(first), ...ids(rest)].toSorted()).toEqual(['t1', 't2', 't3', 't4']);
  expect(ids(await world.send('GET', '/v1/threads?agent=sales'))).toEqual(['t4']);
  for (const wrong of ['?limit=0', '?limit=101', '?cursor=x', '?agent=..%2Fx'])
    expect((await world.send('GET', `/v1/threads${wrong}`)).body.error?.code, wrong).toBe('validation');
});

test('messages show what happened one by one, with the numbers of their entries', async () => {
  const world = await serverWorld();
  await aThread(world, 't1');
  const all = await world.send('GET', '/v1/threads/t1/messages');
  expect(all.body.messages).toMatchObject([
    { seq: 1, kind: 'message', role: 'user', text: 'Where is order 7?', runId: 'run1' },
    { seq: 2, kind: 'assistant_text', text: 'I look.' },
    { seq: 2, kind: 'tool_use', toolCallId: 'c1', name: 'look', input: { order: 7 } },
    { seq: 3, kind: 'tool_result', toolCallId: 'c1', name: 'look', content: 'shipped', isError: false },
    { seq: 4, kind: 'message', role: 'assistant', text: 'It is shipped.' },
  ]);
  for (const item of all.body.messages) expect(threadItem.parse(item)).toEqual(item);
});

test('handoffs, summaries and results are not among the messages, and pages are full without them', async () => {
  const world = await serverWorld();
  const at = '2026-01-02T03:04:05.000Z';
  const run1 = { v: 1, runId: 'run1', at } as const;
  const facts = {
    step: 1,
    began: 0,
    fromAgentId: 'support',
    toAgentId: 'sales',
    descriptor: { kind: 'last-user' },
  } as const;
  const handoff = { ...run1, t: 'handoff', key: 'run1:handoff:1', ...facts } as const;
  const summary = { ...run1, t: 'summary', text: 'It is shipped.', upTo: 4 } as const;
  const [asked, looks, found, answer, result] = turnEntries('run1') as [ThreadEntry, ...ThreadEntry[]];
  await lockThread(world, 't1', 'run1', [
    asked,
    handoff,
    ...[looks, found, answer, result].filter((each) => each !== undefined),
    summary,
  ]);
  await workerThreads(world).leave(tenant, 't1', 'run1');
  const read = async (query: string) => await world.send('GET', `/v1/threads/t1/messages?${query}`);
  const first = await read('limit=2');
  expect([marks(first), first.body.next]).toEqual([['message 1', 'assistant_text 3', 'tool_use 3'], 3]);
  const rest = await read('after=3&limit=2');
  expect([marks(rest), rest.body.next]).toEqual([['tool_result 4', 'message 5'], undefined]);
  const last = await read('order=desc&limit=1');
  expect([marks(last), last.body.next]).toEqual([['message 5'], 5]);
  const exported = await fetch(`${world.url}/v1/threads/t1/export`).then(async (sent) => await sent.text());
  for (const kind of ['handoff', 'summary', 'result']) expect(exported).toContain(`"t":"${kind}"`);
});

test('messages come in pages, in either order', async () => {
  const world = await serverWorld();
  await aThread(world, 't1');
  const read = async (query: string) => await world.send('GET', `/v1/threads/t1/messages?${query}`);
  const first = await read('limit=2');
  expect([marks(first), first.body.next]).toEqual([['message 1', 'assistant_text 2', 'tool_use 2'], 2]);
  const rest = await read('after=2&limit=3');
  expect([marks(rest), rest.body.next]).toEqual([['tool_result 3', 'message 4'], undefined]);
  const last = await read('order=desc&limit=3');
  expect([marks(last), last.body.next]).toEqual([['message 4', 'tool_result 3', 'tool_use 2', 'assistant_text 2'], 2]);
  expect(marks(await read('order=desc&before=2'))).toEqual(['message 1']);
  for (const wrong of ['limit=0', 'limit=201', 'after=-1', 'before=x', 'order=up'])
    expect((await read(wrong)).body.error?.code, wrong).toBe('validation');
});

test('what the running run has done shows as live where the log ends, and once it is in the log only there', async () => {
  const world = await serverWorld();
  await aThread(world, 't1');
  const { runId } = await world.start();
  await lockThread(world, 't1', runId, turnEntries(runId).slice(0, 1));
  const read = async (query = '') => marks(await world.send('GET', `/v1/threads/t1/messages?after=5${query}`));
  expect(await read()).toEqual(['message 6']);
  await journal(world, runId, modelResponse(1, textPart('I look.'), call('c1'), call('c2')), toolResult(1, 1, 'c2'));
  const live = ['assistant_text live', 'tool_use live', 'tool_use live', 'tool_result live'];
  expect(await read()).toEqual(['message 6', ...live]);
  expect(await read('&order=desc')).toEqual([...live.toReversed(), 'message 6']);
  expect(await read('&before=7')).toEqual(['message 6']);
  await journal(world, runId, toolResult(1, 0, 'c1'), modelResponse(2, textPart('Both are shipped.')));
  expect(await read('&order=desc&limit=1')).toEqual([
    'message live',
    'tool_result live',
    ...live.toReversed(),
    'message 6',
  ]);
  const some = await world.send('GET', '/v1/threads/t1/messages?limit=2');
  expect([marks(some).filter((mark) => mark.endsWith('live')), some.body.next]).toEqual([[], 2]);
  // Between the end of the turn and the next lock owner both have it.
  await lockThread(world, 't1', runId, turnEntries(runId).slice(1));
  const kept = ['assistant_text 7', 'tool_use 7', 'tool_result 8', 'message 9'];
  expect(await read()).toEqual(['message 6', ...kept]);
  const rest = await world.send('GET', '/v1/threads/t1/messages?after=10');
  expect(marks(rest)).toEqual([]);
});

test('a turn that will be rolled back shows no more from that request on', async () => {
  const world = await serverWorld();
  await aThread(world, 't1');
  const { runId } = await world.start();
  await lockThread(world, 't1', runId, turnEntries(runId).slice(0, 1));
  await journal(world, runId, modelResponse(1, textPart('I look.'), call('c1')));
  const read = async (query: string) => marks(await world.send('GET', `/v1/threads/t1/messages?${query}`));
  expect(await read('after=5')).toEqual(['message 6', 'assistant_text live', 'tool_use live']);
  const rollback = { tenant, threadId: 't1', runId: 'run3', agentId: 'support', onBusy: 'rollback' } as const;
  await workerThreads(world).enter(rollback);
  expect(await read('after=5')).toEqual([]);
  expect(await read('order=desc&limit=1')).toEqual(['message 4']);
  expect(await read('before=9&after=3')).toEqual(['message 4']);
  const exported = await fetch(`${world.url}/v1/threads/t1/export`).then(async (answer) => await answer.text());
  expect(exported.trim().split('\n')).toHaveLength(6);
  await workerThreads(world).leave(tenant, 't1', runId);
  expect(await read('after=5')).toEqual([]);
});

test('the journal of a run of another tenant is never shown, whatever a thread says about its lock owner', async () => {
  const world = await serverWorld();
  const { runId } = await world.mill.forTenant('other').enqueue({ agent: 'support', input: 'Mine.' });
  await lockThread(world, 't1', runId, []);
  await journal(world, runId, modelResponse(1, textPart('A secret.')));
  expect((await world.send('GET', '/v1/threads/t1/messages')).body).toEqual({ messages: [] });
});

test('a journal line of a later version does not hide the others', async () => {
  const world = await serverWorld();
  const { runId } = await world.start();
  await lockThread(world, 't1', runId, []);
  await journal(world, runId, { v: 9, t: 'sung' } as never, modelResponse(1, call('c1')));
  expect(marks(await world.send('GET', '/v1/threads/t1/messages'))).toEqual(['tool_use live']);
});

test('title and task are changed and removed, and nothing else is', async () => {
  const world = await serverWorld();
  await aThread(world, 't1');
  const change = async (body: unknown) => await world.send('PATCH', '/v1/threads/t1', body);
  expect((await change({ title: 'Order 7', taskId: 'task-1' })).body).toMatchObject({
    title: 'Order 7',
    taskId: 'task-1',
  });
  const taken = await change({ title: null });
  expect([taken.status, taken.body.title, taken.body.taskId]).toEqual([200, undefined, 'task-1']);
  for (const wrong of [{}, { title: '' }, { title: 'x'.repeat(201) }, { agentId: 'sales' }, { taskId: 'a b' }, []])
    expect((await change(wrong)).body.error?.code, JSON.stringify(wrong)).toBe('validation');
  expect((await world.send('PATCH', '/v1/threads/none', { title: 'x' })).body.error.code).toBe('not_found');
});

test('a thread is deleted unless runs use it, and the answer says which', async () => {
  const world = await serverWorld();
  await aThread(world, 't1');
  await lockThread(world, 't2', 'run2', []);
  await workerThreads(world).enter({ tenant, threadId: 't2', runId: 'run3', agentId: 'support' });
  const gone = await world.send('DELETE', '/v1/threads/t1');
  expect([gone.status, gone.body]).toEqual([200, { threadId: 't1', deleted: true }]);
  expect((await world.send('GET', '/v1/threads/t1/messages')).status).toBe(404);
  expect((await world.send('DELETE', '/v1/threads/t1')).status).toBe(404);
  const refused = await world.send('DELETE', '/v1/threads/t2');
  expect([refused.status, refused.body.error]).toMatchObject([
    409,
    { code: 'concurrent_run', message: expect.stringContaining('run2') as string, details: { runs: ['run2', 'run3'] } },
  ]);
});

test('all threads of a tenant are deleted only on purpose, and those in use are kept', async () => {
  const world = await serverWorld();
  for (const id of ['t1', 't2']) await aThread(world, id);
  await lockThread(world, 't3', 'run3', []);
  for (const query of ['', '?confirm=yes'])
    expect((await world.send('DELETE', `/v1/threads${query}`)).body.error.code).toBe('validation');
  expect((await world.send('DELETE', '/v1/threads?confirm=all&cursor=x')).body.error.code).toBe('validation');
  const { status, body } = await world.send('DELETE', '/v1/threads?confirm=all');
  expect([status, body]).toEqual([200, { removed: 2, kept: ['t3'] }]);
  expect((await world.send('GET', '/v1/threads')).body.threads).toMatchObject([{ threadId: 't3' }]);
});

test('an export has every entry as it is kept, after a line about the thread', async () => {
  const world = await serverWorld();
  await aThread(world, 't1');
  await world.mill.threads.update('t1', { title: 'Order 7' });
  const long = Array.from({ length: 250 }, (_, i) => ({ ...turnEntries('run2')[3], step: i + 1 }) as never);
  await lockThread(world, 't1', 'run2', [...turnEntries('run2').slice(0, 1), ...long]);
  const { status, headers, body } = await world.send('GET', '/v1/threads/t1/export');
  expect([status, headers.get('content-type')]).toEqual([200, 'application/x-ndjson; charset=utf-8']);
  const lines = String(body)
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(lines[0]).toMatchObject({ t: 'thread', v: 1, threadId: 't1', agentId: 'support', title: 'Order 7' });
  expect(lines[0]).not.toHaveProperty('lockOwner');
  const { entries } = await workerThreads(world).read(tenant, 't1', { limit: 1_000 });
  expect(lines.slice(1)).toEqual(entries.map(({ seq, entry }) => ({ seq, ...entry })));
  expect(lines).toHaveLength(257);
  for (const line of lines.slice(1)) expect(threadEntry.safeParse(line).success).toBe(true);
  expect((await world.send('GET', '/v1/threads/none/export')).body.error.code).toBe('not_found');
});

test('events of a thread are read as lines, page by page', async () => {
  const world = await serverWorld();
  await aThread(world, 't1');
  const origin = { agentId: 'support', runId: 'run1' };
  for (const title of ['One', 'Two', 'Three']) await titled(world, 't1', title);
  const lines = async (query: string) => {
    const { status, headers, body } = await world.send('GET', `/v1/threads/t1/events${query}`);
    expect([status, headers.get('content-type')]).toEqual([200, 'application/x-ndjson; charset=utf-8']);
    // One line alone is read as the document that it is.
    const each = typeof body === 'string' ? body.split('\n').filter((line) => line !== '') : [JSON.stringify(body)];
    return each.map((line) => threadEvent.parse(JSON.parse(line)));
  };
  const all = await lines('');
  expect(all).toMatchObject(
    ['One', 'Two', 'Three'].map((title, i) => ({ sequenceNumber: i + 1, threadId: 't1', ...origin, title })),
  );
  expect(await lines('?limit=2')).toEqual(all.slice(0, 2));
  expect(await lines('?after=2&limit=2')).toEqual(all.slice(2));
  expect(await lines('?after=3')).toEqual([]);
  expect(await world.mill.threads.events('t1', { limit: 2 })).toEqual({ events: all.slice(0, 2), more: true });
  for (const wrong of ['?limit=0', '?limit=1001', '?after=-1', '?after=x'])
    expect((await world.send('GET', `/v1/threads/t1/events${wrong}`)).body.error?.code, wrong).toBe('validation');
});

test('an export is the log as it was when the export began', async () => {
  const world = await serverWorld();
  await aThread(world, 't1');
  const seen: string[] = [];
  for await (const line of world.mill.threads.export('t1')) {
    if (seen.length === 0) await aThread(world, 't1', 'run2');
    seen.push(line.t);
  }
  expect(seen).toEqual(['thread', 'message', 'message', 'message', 'message', 'result']);
});

test('a thread of another tenant is not there, and each way in needs its scope', async () => {
  const world = await serverWorld({
    apiKeys: `${digest('own')}:default:*,${digest('reader')}:default:read,${digest('writer')}:default:write,${digest('other')}:other:*`,
  });
  await aThread(world, 't1');
  const ways = [
    ['GET', '/v1/threads/t1', undefined, 'reader'],
    ['GET', '/v1/threads/t1/messages', undefined, 'reader'],
    ['GET', '/v1/threads/t1/export', undefined, 'reader'],
    ['GET', '/v1/threads/t1/events', undefined, 'reader'],
    ['PATCH', '/v1/threads/t1', { title: 'x' }, 'writer'],
    ['DELETE', '/v1/threads/t1', undefined, 'writer'],
  ] as const;
  const send = async (key: string, [method, path, body]: readonly [string, string, unknown, ...unknown[]]) =>
    await world.send(method, path, body, { authorization: `Bearer ${key}` });
  for (const way of ways) {
    const [method, path, , scoped] = way;
    const foreign = await send('other', way);
    expect([foreign.status, foreign.body.error.code], `${method} ${path}`).toEqual([404, 'not_found']);
    const forbidden = await send(scoped === 'reader' ? 'writer' : 'reader', way);
    expect(forbidden.body.error.code, `${method} ${path}`).toBe('forbidden');
  }
  expect((await send('other', ['GET', '/v1/threads', undefined])).body).toEqual({ threads: [] });
  for (const key of ['reader', 'writer'])
    expect((await send(key, ['DELETE', '/v1/threads?confirm=all', undefined])).body.error.code).toBe('forbidden');
  expect((await send('other', ['DELETE', '/v1/threads?confirm=all', undefined])).body).toEqual({
    removed: 0,
    kept: [],
  });
  for (const way of ways) expect((await send('own', way)).status).toBe(200);
});

test('an id of a wrong form is refused before Redis is asked', async () => {
  const { send } = await serverWorld();
  for (const [method, rest] of [
    ['GET', ''],
    ['GET', '/messages'],
    ['GET', '/export'],
    ['GET', '/events'],
    ['PATCH', ''],
    ['DELETE', ''],
  ] as const) {
    const answer = await send(method, `/v1/threads/a%20b${rest}`, method === 'PATCH' ? { title: 'x' } : undefined);
    expect([answer.status, answer.body.error?.code], `${method} ${rest}`).toEqual([400, 'invalid_id']);
  }
});
