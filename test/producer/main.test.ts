import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, inject, onTestFinished, test } from 'vitest';
import { childEnv } from '../support/child-env.ts';
import { Child } from '../support/child.ts';
import { call } from '../support/http.ts';
import { testPrefix, until } from '../support/redis.ts';
import { request } from './cli/options/client.ts';

const entry = join(import.meta.dirname, '../../src/producer/main.ts');

function environment(env: Record<string, string> = {}): Record<string, string> {
  return {
    REDIS_URL: inject('redisUrl'),
    MILLRACE_PREFIX: testPrefix(),
    PORT: '0',
    MILLRACE_AGENTS: '/nonexistent',
    ...env,
  };
}

function spawnProducer(env: Record<string, string>): Child {
  const child = Child.spawn('producer', entry, environment(env));
  onTestFinished(() => child.kill());
  return child;
}

async function startProducer(): Promise<{ readonly child: Child; readonly url: string }> {
  const { child, ready } = await Child.start('producer', entry, environment());
  onTestFinished(() => child.kill());
  return { child, url: String(ready['url']) };
}

test('every problem of the environment is named, and the exit code is 2', async () => {
  const child = spawnProducer({ PORT: 'eighty', LOG_LEVEL: 'loud' });
  expect(await child.exited).toEqual({ code: 2, signal: null });
  expect(child.output).toMatch(/PORT[^]*LOG_LEVEL/);
});

test('the exit code is 2 when it would be open to every client, and 3 when Redis must be asked and is away', async () => {
  const open = spawnProducer({ HOST: '0.0.0.0' });
  const away = spawnProducer({ REDIS_URL: 'redis://127.0.0.1:1', MILLRACE_DURABILITY: 'process' });
  expect(await open.exited).toEqual({ code: 2, signal: null });
  expect(await away.exited).toEqual({ code: 3, signal: null });
});

test('SIGTERM ends open streams without an error, and the exit code is 0', async () => {
  const { child, url } = await startProducer();
  expect(child.logLines(({ msg }) => msg === 'producer is ready')).toMatchObject([{ level: 'info', url }]);
  const { runId } = (await call('POST', `${url}/v1/runs`, request)).body;
  const stream = await fetch(`${url}/v1/runs/${runId}/events`);
  child.signal('SIGTERM');
  expect(await stream.text()).toMatch(/^id: 1\nevent: run\.queued\ndata: [^\n]+\n\n$/);
  expect(await child.exited).toEqual({ code: 0, signal: null });
});

test('a second signal does not wait', async () => {
  const { child, url } = await startProducer();
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  // The second request never ends, which keeps the first signal waiting; once the first is answered, both have arrived.
  const head = 'Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n';
  socket.write(`GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nPOST /v1/runs HTTP/1.1\r\n${head}{`);
  await once(socket, 'data');
  child.signal('SIGTERM');
  await until('the first signal has arrived', () => child.output.includes('producer is draining'));
  child.signal('SIGTERM');
  expect(await child.exited).toEqual({ code: 1, signal: null });
});

test('a parent that is gone takes the producer along', async () => {
  const child = fork(entry, { silent: true, env: childEnv(environment()) });
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child, 'message');
  child.disconnect();
  expect(await once(child, 'exit')).toEqual([0, null]);
});
