import { expect, test } from 'vitest';
import { clientWorld, type ClientWorld } from './options/client.ts';
import { aThread, lockThread, tenant, titled, workerThreads } from '../support/threads.ts';
import { CliCommand, millrace, settings } from './support/cli-process.ts';

async function run({ prefix }: ClientWorld, ...args: string[]) {
  return await millrace(['threads', ...args], { env: settings(prefix) });
}

test('threads are listed and shown for people and as JSON', async () => {
  const world = await clientWorld();
  expect(await run(world)).toMatchObject({ code: 0, stdout: '', stderr: 'There are no such threads.\n' });
  await aThread(world, 'one');
  await lockThread(world, 'two', 'run2', [], 'sales');
  const listed = await run(world);
  expect(listed.stdout).toMatch(
    /^THREAD +AGENT +CHANGED \(UTC\) +LOCKED BY +WAITING +TITLE\ntwo +sales +\S+ \S+ +run2\none +support +/,
  );
  expect(JSON.parse((await run(world, 'list', '--agent', 'support', '--json')).stdout)).toMatchObject([
    { threadId: 'one' },
  ]);
  expect((await run(world, '--limit', '1')).stderr).toContain('--limit 2');
  expect((await run(world, 'show', 'two')).stdout).toMatch(/^thread +two\nagent +sales\n(.*\n)*locked by +run2\n/);
  expect(JSON.parse((await run(world, 'show', 'one', '--json')).stdout)).toMatchObject({ lastSeq: 5 });
});

test('messages are shown one by one, first or last, without what a terminal would obey', async () => {
  const world = await clientWorld();
  await aThread(world, 'one');
  const message = { v: 1, t: 'message', runId: 'run2', at: '2026-01-02T03:04:05.000Z' } as const;
  await lockThread(world, 'one', 'run2', [{ ...message, message: { role: 'user', content: 'And\u001b[2J 8?' } }]);
  const { stdout, stderr } = await run(world, 'messages', 'one');
  expect(stdout).toContain(
    '1  user  2026-01-02 03:04:05\nWhere is order 7?\n\n2  assistant  2026-01-02 03:04:05\nI look.\n',
  );
  expect(stdout).toContain('2  call c1  2026-01-02 03:04:05\nlook({"order":7})\n');
  expect(stdout).toContain('3  result of c1  2026-01-02 03:04:05\nshipped\n');
  expect(stdout).toContain('6  user  2026-01-02 03:04:05\nAnd[2J 8?\n');
  expect(stderr).toBe('');
  const last = await run(world, 'messages', 'one', '--newest', '--limit', '2', '--json');
  expect((JSON.parse(last.stdout) as { seq: number }[]).map(({ seq }) => seq)).toEqual([4, 6]);
  expect((await run(world, 'messages', 'one', '--limit', '2')).stderr).toContain('There is more: --after 2');
  expect((await run(world, 'messages', 'one', '--newest', '--limit', '2')).stderr).toContain(
    'There is more: --before 4',
  );
});

test('a handoff is exported with who went on and through what, and is no message', async () => {
  const world = await clientWorld();
  const entry = {
    v: 1,
    t: 'handoff',
    runId: 'run1',
    at: '2026-01-02T03:04:05.000Z',
    key: 'k',
    step: 2,
    began: 0,
  } as const;
  const facts = { fromAgentId: 'support', toAgentId: 'sales', descriptor: { kind: 'last-n', n: 4 } } as const;
  await lockThread(world, 'one', 'run1', [{ ...entry, ...facts }]);
  expect(await run(world, 'messages', 'one')).toMatchObject({ code: 0, stdout: '', stderr: 'There is nothing.\n' });
  const lines = (await run(world, 'export', 'one')).stdout.trimEnd().split('\n');
  expect(JSON.parse(lines[1] ?? '')).toMatchObject({ seq: 1, t: 'handoff', ...facts });
});

test('events of post-run jobs are shown, and with --follow as they come', async () => {
  const world = await clientWorld();
  await aThread(world, 'one');
  const nothing = await run(world, 'events', 'one');
  expect(nothing).toMatchObject({ code: 0, stdout: '', stderr: 'There is nothing.\n' });
  await titled(world, 'one', 'Order\u001b[2J 7');
  const error = { code: 'provider_auth', message: 'it answered 401', retryable: false } as const;
  const origin = { agentId: 'support', runId: 'run1' };
  const threads = workerThreads(world);
  await threads.emit({ tenant, threadId: 'one' }, origin, 'b', { type: 'postrun.failed', effect: 'embeddings', error });
  const { stdout } = await run(world, 'events', 'one');
  expect(stdout).toMatch(
    /^1 {2}\S+ \S+ {2}run1 {2}title: Order\[2J 7\n2 {2}.*embeddings failed: provider_auth: it answered 401\n$/,
  );
  const lines = (await run(world, 'events', 'one', '--after', '1', '--json')).stdout.trimEnd().split('\n');
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ sequenceNumber: 2, type: 'postrun.failed', error }]);

  const following = new CliCommand(['threads', 'events', 'one', '--follow'], { env: settings(world.prefix) });
  await following.says('Ctrl-C ends it');
  await threads.emit({ tenant, threadId: 'one' }, origin, 'c', {
    type: 'thread.embedding_done',
    model: 'small',
    messages: 2,
  });
  await following.says('embeddings of 2 messages');
  following.signal('SIGINT');
  expect(await following.exited).toBe(130);
  expect(following.stdout.match(/^\d /gm)).toEqual(['1 ', '2 ', '3 ']);
  expect(following.stdout).toMatch(/\n3 .*embeddings of 2 messages by small\n$/);
  expect(await run(world, 'events', 'none')).toMatchObject({ code: 2, stderr: 'not_found: there is no thread none\n' });
});

test('a thread is titled, exported and deleted', async () => {
  const world = await clientWorld();
  await aThread(world, 'one');
  expect((await run(world, 'title', 'one', 'Order 7')).stdout).toMatch(/\ntitle +Order 7\n/);
  const lines = (await run(world, 'export', 'one')).stdout.trimEnd().split('\n');
  expect(lines.map((line) => (JSON.parse(line) as { t: string }).t)).toEqual([
    'thread',
    'message',
    'message',
    'message',
    'message',
    'result',
  ]);
  expect(JSON.parse((await run(world, 'title', 'one', '', '--json')).stdout)).not.toHaveProperty('title');
  expect(await run(world, 'delete', 'one')).toMatchObject({ code: 0, stdout: 'deleted one\n' });
  const gone = await run(world, 'delete', 'one');
  expect([gone.code, gone.stderr]).toEqual([2, 'not_found: there is no thread one\n']);
  await lockThread(world, 'two', 'run2', []);
  const busy = await run(world, 'delete', 'two', '--json');
  expect([busy.code, busy.stderr]).toEqual([1, 'concurrent_run: thread two is in use: run run2 holds it\n']);
});

test('all threads are deleted only with --yes', async () => {
  const world = await clientWorld();
  await aThread(world, 'one');
  await lockThread(world, 'two', 'run2', []);
  const refused = await run(world, 'purge');
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('--yes')]);
  const purged = await run(world, 'purge', '--yes');
  expect(purged).toMatchObject({ code: 0, stdout: 'deleted 1 thread\n', stderr: 'kept two: runs use it\n' });
  expect(JSON.parse((await run(world, 'purge', '--yes', '--json')).stdout)).toEqual({ removed: 0, kept: ['two'] });
});
