import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, inject, onTestFinished, test, vi } from 'vitest';
import { Millrace } from '../../../src/producer/client/millrace.ts';
import { fromSurroundings } from '../../../src/producer/client/own-environment.ts';
import { writeDevState } from '../../../src/producer/cli/stack/dev-notes.ts';
import { childEnv } from '../../support/child-env.ts';
import { testPrefix } from '../../support/redis.ts';
import { freePort, root } from '../../support/scratch-redis.ts';

/** A program of a user that lists the agents, in a folder for which a stack runs, or seems to. */
async function agentsOfProgram(stack: { redisUrl: string; prefix: string }, env: Record<string, string> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-program-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'app/list.mjs');
  mkdirSync(join(folder, 'app'));
  writeFileSync(
    file,
    `import { Millrace } from 'millrace';
await using mill = new Millrace();
const ids = await mill.agents().then((agents) => agents.map(({ id }) => id), ({ message }) => [message]);
console.log(ids.join('\\n'));
`,
  );
  writeDevState(folder, { ...stack, url: 'http://127.0.0.1:1', pid: process.pid });
  const args = ['--import', join(root, 'scripts/resolve-source.mjs'), file];
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    cwd: join(folder, 'app'),
    env: childEnv(env),
  });
  return stdout.trim();
}

/** A prefix under which an agent of this name is announced. */
async function announced(id: string): Promise<string> {
  const prefix = testPrefix();
  await using mill = new Millrace({ redis: inject('redisUrl'), prefix });
  await mill.registerAgents([{ id, model: 'm', tools: [] }]);
  return prefix;
}

test('a client without an address finds the stack that runs for its folder, and REDIS_URL wins over that', async () => {
  const redisUrl = inject('redisUrl');
  const prefix = await announced('of-the-stack');
  expect(await agentsOfProgram({ redisUrl, prefix })).toBe('of-the-stack');
  const other = await announced('of-the-environment');
  const env = { REDIS_URL: redisUrl, MILLRACE_PREFIX: other };
  expect(await agentsOfProgram({ redisUrl: 'redis://127.0.0.1:1', prefix }, env)).toBe('of-the-environment');
});

test('a stack that has ended, and production, count for nothing, and an own prefix wins', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-program-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  vi.spyOn(process, 'cwd').mockReturnValue(folder);
  for (const name of ['REDIS_URL', 'MILLRACE_PREFIX', 'NODE_ENV', 'ARTIFACT_STORE']) vi.stubEnv(name, undefined);
  const stack = { redisUrl: 'redis://127.0.0.1:1', prefix: 'of-the-stack', url: 'http://127.0.0.1:1' };
  writeDevState(folder, { ...stack, pid: process.pid });
  const artifactStore = { kind: 'redis' };
  expect(fromSurroundings({})).toEqual({ redis: stack.redisUrl, prefix: stack.prefix, artifactStore });
  expect(fromSurroundings({ prefix: 'own' })).toEqual({ redis: stack.redisUrl, prefix: 'own', artifactStore });
  writeDevState(folder, { ...stack, pid: process.pid, artifactStore: 'file:/of/the/stack' });
  expect(fromSurroundings({}).artifactStore).toBe('file:/of/the/stack');
  expect(fromSurroundings({ artifactStore: 'redis' }).artifactStore).toBe('redis');
  vi.stubEnv('ARTIFACT_STORE', 'file:/of/the/environment');
  expect(fromSurroundings({}).artifactStore).toEqual({ kind: 'folder', root: '/of/the/environment' });
  vi.stubEnv('ARTIFACT_STORE', undefined);
  vi.stubEnv('NODE_ENV', 'production');
  expect(() => fromSurroundings({})).toThrow('REDIS_URL: required');
  vi.stubEnv('NODE_ENV', undefined);
  // No system has so many.
  writeDevState(folder, { ...stack, pid: 2 ** 31 - 1 });
  expect(fromSurroundings({}).redis).not.toBe(stack.redisUrl);
});

test('a Redis that does not answer is named with its address, the reason, and what to do, and without a password', async () => {
  const port = await freePort();
  const redisUrl = `redis://user:hunter2@127.0.0.1:${port}`;
  const message = await agentsOfProgram({ redisUrl, prefix: 'mr' });
  expect(message).toContain(`Redis cannot be reached at 127.0.0.1:${port} (ECONNREFUSED)`);
  expect(message).toContain('`npx millrace dev` starts one; REDIS_URL, or the option `redis`, names another');
  expect(message).not.toContain('hunter2');
});

test('an API does not give the address of its Redis away', async () => {
  await using mill = new Millrace({ redis: `redis://127.0.0.1:${await freePort()}`, namesAddress: false });
  await expect(mill.agents()).rejects.toThrow(/^Redis cannot be reached$/);
});
