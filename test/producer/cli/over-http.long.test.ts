import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { listenAgain } from '../../contract/over-http.ts';
import { until } from '../../support/redis.ts';
import { freePort } from '../../support/scratch-redis.ts';
import { serverWorld, type ServerWorld } from '../http/server-world.ts';
import { request } from './options/client.ts';
import { suspendedRun } from '../support/suspended.ts';
import { CliCommand, millrace } from './support/cli-process.ts';

const key = 'sk-of-the-tenant';
const reader = 'sk-that-only-reads';
const digest = (text: string) => createHash('sha256').update(text).digest('hex');
const apiKeys = `${digest(key)}:acme:*,${digest(reader)}:acme:read`;

async function guarded(): Promise<ServerWorld & { readonly env: Record<string, string> }> {
  const world = await serverWorld({ apiKeys });
  return { ...world, env: { MILLRACE_URL: world.url, MILLRACE_API_KEY: key } };
}

test('a command with a key is about the tenant of the key', async () => {
  const world = await guarded();
  const { runId } = await world.mill.forTenant('acme').enqueue(request);
  await world.mill.enqueue(request);
  const { code, stdout, stderr } = await millrace(['runs', '--json'], { env: world.env });
  expect([code, stderr]).toEqual([0, '']);
  expect(JSON.parse(stdout)).toMatchObject([{ runId }]);
});

test('MILLRACE_URL counts before REDIS_URL, and the command says so', async () => {
  const { env, url } = await guarded();
  const { code, stderr } = await millrace(['runs'], { env: { ...env, REDIS_URL: 'redis://127.0.0.1:1' } });
  expect(code).toBe(0);
  expect(stderr).toContain(`Using MILLRACE_URL (${url}). REDIS_URL is set, too, and is not used.`);
});

test('a tenant beside a URL is refused: the key names it', async () => {
  const { env } = await guarded();
  const { code, stderr } = await millrace(['runs', '--tenant', 'other'], { env });
  expect(code).toBe(2);
  expect(stderr).toContain('the API key names the tenant');
});

test.each([
  ['none', {}, 'unauthorized:'],
  ['a wrong one', { MILLRACE_API_KEY: 'sk-unknown' }, 'unauthorized:'],
  ['one that lacks the scope', { MILLRACE_API_KEY: reader }, 'forbidden:'],
])('with %s for a key a command exits 2 and says what to do, not the key', async (_, keys, says) => {
  const { url } = await guarded();
  const { code, stderr } = await millrace(['run', 'support', 'x', '--detach'], { env: { MILLRACE_URL: url, ...keys } });
  expect(code).toBe(2);
  expect(stderr).toContain(says);
  expect(stderr).toContain('→ set MILLRACE_API_KEY to a key');
  expect(stderr).not.toContain('sk-');
});

test.each([
  ['ftp://x', 'MILLRACE_URL: '],
  ['https://user:secret@x', 'MILLRACE_URL: has a user or a password'],
  ['https://x?key=secret', 'MILLRACE_URL: has a query'],
])('the address %s is refused, and what stands in it not shown', async (url, says) => {
  const { code, stderr } = await millrace(['runs'], { env: { MILLRACE_URL: url } });
  expect(code).toBe(2);
  expect(stderr).toContain(says);
  expect(stderr).not.toContain('secret');
});

test('a producer that is not there is exit 3, with its address', async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const env = { MILLRACE_URL: url };
  const { code, stderr } = await millrace(['runs'], { env });
  expect(code).toBe(3);
  expect(stderr).toContain(`queue_unavailable: Millrace cannot be reached at ${url} (ECONNREFUSED)`);
  const doctor = await millrace(['doctor'], { env });
  expect(doctor.code).toBe(3);
  expect(doctor.stdout).toContain('FAIL  producer');
});

test('a key that would cross a network in the clear is warned about', async () => {
  const { stderr } = await millrace(['agents'], {
    env: { MILLRACE_URL: 'http://producer.invalid', MILLRACE_API_KEY: key },
  });
  expect(stderr).toContain('MILLRACE_API_KEY crosses the network in the clear');
  expect(stderr).not.toContain(key);
});

test('doctor asks the producer, and shows a key without all rights what it may see', async () => {
  const { env, url } = await guarded();
  const all = await millrace(['doctor'], { env });
  expect(all.stdout).toContain(`${url} answers; tenant acme, with all rights`);
  expect(all.stdout).toMatch(/persistence/);
  const some = await millrace(['doctor'], { env: { ...env, MILLRACE_API_KEY: reader } });
  expect(some.stdout).toContain('only queues and providers are shown');
  expect(some.stdout).toMatch(/queue runs/);
  expect(some.stdout).not.toMatch(/persistence/);
});

test('with a key it is the key that decides, and a name beside it is refused', async () => {
  const world = await guarded();
  const acme = { ...world, mill: world.mill.forTenant('acme') };
  const call = { kind: 'approval', id: 'call_1', toolName: 'transfer' } as const;
  const run = await suspendedRun(acme, [call]);
  const named = await millrace(['approve', run.runId, '--by', 'kim'], { env: world.env });
  expect(named.code).toBe(2);
  expect(named.stderr).toContain('who decides is the key');
  const { code } = await millrace(['approve', run.runId], { env: world.env });
  expect(code).toBe(0);
  const { decisions } = await acme.mill.get(run.runId);
  expect(decisions).toMatchObject([{ granted: true, by: [`key:${digest(key).slice(0, 8)}`] }]);
});

test('a chat outlives that its producer is away, and says so', async () => {
  const world = await serverWorld();
  const chat = new CliCommand(['chat', 'support', '--json'], { env: { MILLRACE_URL: world.url }, keepsInput: true });
  await chat.says('/help lists the commands');
  await world.server.close();
  chat.type('Where is order 7?');
  await chat.says('The producer is away, and this goes on when it is back: ');
  const { port } = new URL(world.url);
  await listenAgain(world.mill, Number(port));
  await chat.says('The producer is back.');
  const [run] = await until('the message arrives', async () => {
    const { runs } = await world.mill.list();
    return runs.length > 0 ? runs : undefined;
  });
  expect(run).toMatchObject({ agent: 'support' });
  chat.signal('SIGTERM');
});
