import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, inject, onTestFinished, test } from 'vitest';
import { devState, type DevState } from '../../../src/producer/client/dev-state.ts';
import { freePort } from '../../support/scratch-redis.ts';
import { childEnv } from '../../support/child-env.ts';
import { testPrefix, testRedis, until } from '../../support/redis.ts';
import { bin, CliProcess, millrace, millraceProcess, root } from './support/cli-process.ts';

/** A folder with the sample agents, in which a stack can run. */
function project(): string {
  const cwd = mkdtempSync(join(tmpdir(), 'millrace-dev-'));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true, maxRetries: 5 }));
  cpSync(join(root, 'agents'), join(cwd, 'agents'), { recursive: true });
  return cwd;
}

async function startDev(cwd: string, env: Record<string, string> = {}): Promise<{ dev: CliProcess; state: DevState }> {
  const dev = new CliProcess(['dev'], {
    cwd,
    ownGroup: true,
    env: { PORT: String(await freePort()), WORKER_PORT: '0', ...env },
  });
  // The lines that were kept until then follow.
  await dev.says('"msg":"worker is ready"', 40_000);
  return { dev, state: devState.parse(JSON.parse(readFileSync(join(cwd, '.millrace/dev.json'), 'utf8'))) };
}

/** Process ids of the parts, from their logs. */
function pidOf(dev: CliProcess, message: string): number {
  const line = dev.stdout.split('\n').findLast((text) => text.includes(`"msg":"${message}"`));
  return (JSON.parse(line ?? '{}') as { pid: number }).pid;
}

/** A killed process whose parent is gone may stay in the table until its new parent collects it. */
function isAlive(pid: number): boolean {
  const status = `/proc/${pid}/status`;
  if (existsSync('/proc/self/status'))
    return existsSync(status) && !/^State:\s+[ZX]/m.test(readFileSync(status, 'utf8'));
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

test('dev runs a private stack that answers, is found by other commands, and ends with Ctrl-C', async () => {
  const cwd = project();
  const { dev, state } = await startDev(cwd);
  expect(dev.stdout.trimStart().split('\n')[0]).toBe(`Millrace is running at ${state.url}`);
  expect(dev.stdout).toContain('"msg":"worker is ready"');
  expect(dev.stdout).toContain('No OPENAI_API_KEY: answers come from the built-in scripted model.');
  expect(dev.stdout).toContain(`curl -s ${state.url}/v1/runs`);
  expect(state.pid).toBe(dev.pid);

  const answer = await fetch(`${state.url}/v1/runs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ agent: 'support', input: 'Where is order 7?' }),
  });
  expect(answer.status).toBe(202);
  const run = await millrace(['run', 'support', 'Where is order 7?'], { cwd });
  expect(run.stderr).toContain('← lookup_order Order 7 waits for a part');
  expect(run.stdout).toContain('Order 7 waits for a part that comes in next week.');
  expect(run.code).toBe(0);

  const form = new FormData();
  form.append('purpose', 'user_data');
  form.append('file', new Blob([Buffer.alloc(17 * 1024 * 1024)]), 'large.bin');
  expect((await fetch(`${state.url}/v1/files`, { method: 'POST', body: form })).status).toBe(200);
  const kept = readdirSync(join(cwd, '.millrace/artifacts/files'));
  expect(kept.filter((name) => !/^(run|agent)-/.test(name))).toHaveLength(1);
  expect(state.artifactStore).toBe(`file:${cwd}/.millrace/artifacts`);

  const second = await millraceProcess(['dev'], { cwd });
  expect(second.stderr).toContain(`it runs already (pid ${dev.pid})`);
  expect(second.code).toBe(2);
  const below = await millrace(['dev'], { cwd: join(cwd, 'agents') });
  expect(below.stderr).toContain(`it runs already in ${cwd}, and for the folders below it (pid ${dev.pid})`);

  const parts = [pidOf(dev, 'producer is ready'), pidOf(dev, 'worker is ready'), await redisPid(state)];
  await millrace(['run', 'support', 'Where is order 8?', '--detach'], { cwd });
  // npm passes on what the terminal has sent already.
  dev.signalGroup('SIGINT');
  dev.signal('SIGINT');
  expect(await dev.exited).toBe(0);
  expect(parts.filter(isAlive)).toEqual([]);
  // The parts never saw the Ctrl-C: they were ended one after the other, the worker with its run before its Redis.
  const ended = dev.stdout.split('\n').filter((line) => line.includes('is draining'));
  expect(ended.map((line) => (JSON.parse(line) as { why: string }).why)).toEqual(['SIGTERM', 'SIGTERM']);
  expect(dev.stdout).not.toContain('ended:');
  expect(existsSync(join(cwd, '.millrace/dev.json'))).toBe(false);
});

test('a part that is killed comes back, Redis with its data', async () => {
  const cwd = project();
  const { dev, state } = await startDev(cwd);
  const worker = pidOf(dev, 'worker is ready');
  process.kill(worker, 'SIGKILL');
  await dev.says(`worker (pid ${worker}) ended: SIGKILL; starting another in 0.5 s`);
  await dev.says('worker is back');

  const kept = await millrace(['run', 'support', 'Where is order 7?', '--detach'], { cwd });
  await until('the run to end', async () =>
    (await millrace(['get', kept.stdout.trim()], { cwd })).stdout.includes('completed'),
  );
  const redis = await redisPid(state);
  process.kill(redis, 'SIGKILL');
  await dev.says('redis is back');
  // A disk that is slow to sync lets Redis lose its last second: then the run is there, and goes on to its end.
  await until('the run to be there again, and to be completed', async () => {
    const { code, stdout } = await millrace(['get', kept.stdout.trim()], { cwd });
    return code === 0 && stdout.includes('completed');
  });
  expect(await redisPid(state)).not.toBe(redis);
}, 60_000);

/** The private Redis of a stack. */
async function redisPid({ redisUrl }: DevState): Promise<number> {
  const redis = await testRedis('work', redisUrl);
  const info = await redis.info('server');
  redis.disconnect();
  return Number(/^process_id:(\d+)/m.exec(info)?.[1]);
}

test('nothing of a stack outlives a dev that is killed', async () => {
  const { dev, state } = await startDev(project());
  const parts = [pidOf(dev, 'producer is ready'), pidOf(dev, 'worker is ready'), await redisPid(state)];
  expect(parts.every(isAlive)).toBe(true);
  process.kill(dev.pid, 'SIGKILL');
  await until('every part to end', () => !parts.some(isAlive));
}, 60_000);

test('a stack under npm ends when npm and its shell do', async () => {
  const cwd = project();
  const shell = spawn('/bin/sh', ['-c', '"$0" "$1" dev; true', process.execPath, bin], {
    cwd,
    stdio: 'ignore',
    env: childEnv({ npm_lifecycle_event: 'start', PORT: String(await freePort()), WORKER_PORT: '0' }),
  });
  const note = join(cwd, '.millrace/dev.json');
  await until('the stack to run', () => existsSync(note));
  const { pid } = devState.parse(JSON.parse(readFileSync(note, 'utf8')));
  onTestFinished(() => void (isAlive(pid) && process.kill(pid, 'SIGKILL')));
  shell.kill('SIGKILL');
  await until('dev to end', () => !isAlive(pid));
  expect(existsSync(note)).toBe(false);
}, 60_000);

/** A port that another program listens on. */
async function takenPort(): Promise<number> {
  const port = await freePort();
  const blocker = createServer().listen(port, '127.0.0.1');
  onTestFinished(() => void blocker.close());
  return port;
}

test.each(['PORT', 'WORKER_PORT'])('a %s that is taken is an error that says what to do', async (setting) => {
  const port = await takenPort();
  const env = { PORT: String(await freePort()), WORKER_PORT: '0', [setting]: String(port) };
  const { code, stderr } = await millraceProcess(['dev'], { cwd: project(), env });
  expect(stderr).toContain(`${setting}: the port ${port} is taken on 127.0.0.1. Stop what listens there, or set`);
  expect(code).toBe(2);
});

test('without a PORT the next free one is used, and dev says so', async () => {
  // On a machine where another program has it already, that one is the reason.
  const blocker = createServer()
    .on('error', () => {})
    .listen(8_080, '127.0.0.1');
  onTestFinished(() => void blocker.close());
  const { dev, state } = await startDev(project(), { PORT: '' });
  const port = Number(new URL(state.url).port);
  expect(port).toBeGreaterThan(8_080);
  expect(dev.stdout).toContain(`8080 is taken, so it is ${port}`);
});

test('the private Redis has the same port after a restart, and another one when that is taken', async () => {
  const cwd = project();
  const ports: number[] = [];
  const restart = async () => {
    const { dev, state } = await startDev(cwd);
    ports.push(Number(new URL(state.redisUrl).port));
    dev.signal('SIGTERM');
    await dev.exited;
    return dev;
  };
  await restart();
  await restart();
  expect(ports[1]).toBe(ports[0]);
  const blocker = createServer().listen(ports[0], '127.0.0.1');
  const moved = await restart();
  blocker.close();
  expect(moved.stdout).toContain(
    `another program listens on the port ${ports[0]} of this folder's Redis: it is ${ports[2]} from now on`,
  );
  await restart();
  expect(ports[3]).toBe(ports[2]);
}, 120_000);

test('a given Redis is used and not ended', async () => {
  const cwd = project();
  const { dev, state } = await startDev(cwd, { REDIS_URL: inject('redisUrl'), MILLRACE_PREFIX: testPrefix() });
  expect(state.redisUrl).toBe(inject('redisUrl'));
  expect(existsSync(join(cwd, '.millrace/redis'))).toBe(false);
  dev.signal('SIGTERM');
  expect(await dev.exited).toBe(0);
});

test('agents with problems keep dev from starting, and all problems are shown', async () => {
  const cwd = project();
  writeFileSync(join(cwd, 'agents/broken.yaml'), 'modle: x\n');
  const { code, stderr } = await millraceProcess(['dev'], {
    cwd,
    env: { PORT: String(await freePort()), WORKER_PORT: '0' },
  });
  expect(stderr).toContain('broken.yaml');
  expect(stderr).toContain('modle');
  expect(code).toBe(2);
});

test('without a folder of agents dev says how to make one, and without an agent too, which is then loaded', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'millrace-dev-'));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true, maxRetries: 5 }));
  const none = await millraceProcess(['dev'], { cwd });
  expect(none.stderr).toContain('MILLRACE_AGENTS: there is no folder ./agents; `npx millrace init` makes one');
  expect(none.code).toBe(2);

  mkdirSync(join(cwd, 'agents'));
  const { dev } = await startDev(cwd);
  expect(dev.stdout).toContain('There is no agent yet: `npx millrace init` makes one, and it is loaded at once.');
  expect(dev.stdout).not.toContain('Try it');
  await millrace(['init'], { cwd });
  await dev.says(/new: support/, 60_000);
  const run = await millrace(['run', 'support', 'Where is order 7?'], { cwd });
  expect(run.stdout).toContain('Order 7 is with the carrier.');
}, 120_000);
