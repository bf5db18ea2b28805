import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { until } from '../../support/redis.ts';
import type { ProducerServer } from '../../../src/producer/http/server.ts';
import { serverWorld } from './server-world.ts';

test('a server that leaves ends streams and waits so that they can go on elsewhere', async () => {
  const { url, start, redis, keys, server } = await serverWorld();
  const run = await start();
  const stream = await fetch(`${url}/v1/runs/${run.runId}/events`);
  const waiting = fetch(`${url}/v1/runs/${run.runId}/result?wait=60`);
  const listeners = async () => Number((await redis.pubsub('NUMSUB', keys.live(run.runId)))[1]);
  await until('the server listens to the run', async () => (await listeners()) === 1);
  const idle = connect(Number(new URL(url).port), '127.0.0.1');
  await new Promise((resolve) => idle.once('connect', resolve));

  await server.close();
  const text = await stream.text();
  expect(text).toMatch(/^id: 1\n/);
  expect(text).not.toContain('event: error');
  const answer = await waiting;
  expect(answer.headers.get('connection')).toBe('close');
  expect([answer.status, ((await answer.json()) as { status: string }).status]).toEqual([202, 'queued']);
  await expect(fetch(`${url}/healthz`)).rejects.toThrow('fetch failed');
});

test('while it leaves, new work is turned away on connections that are still open', async () => {
  const { url, server } = await serverWorld();
  const { port } = new URL(url);
  const arrived = new Promise((resolve) => server.app.server.once('request', resolve));
  const busy = connect(Number(port), '127.0.0.1');
  // The rest of the body never comes, so that the server has something to wait for.
  const head = 'Host: localhost\r\nContent-Type: application/json\r\n';
  busy.write(`POST /v1/runs HTTP/1.1\r\n${head}Content-Length: 10\r\n\r\n{`);
  await arrived;
  const late = ['/readyz', '/v1/runs'].map((path) => {
    const socket = connect(Number(port), '127.0.0.1');
    // Half a request makes a connection a busy one, which is not cut at once.
    socket.write(`GET ${path} HTTP/1.1\r\n`);
    return {
      socket,
      answer: Array.fromAsync(socket as AsyncIterable<Buffer>).then((all) => Buffer.concat(all).toString()),
    };
  });
  await until('the server has all connections', async () => (await connections(server)) === 3);
  const closed = server.close();
  for (const { socket } of late) socket.write('Host: localhost\r\n\r\n');
  const [probe = '', work = ''] = await Promise.all(late.map(({ answer }) => answer));
  expect(probe).toMatch(/^HTTP\/1\.1 503 [^]*"draining"/);
  expect(work).toMatch(/^HTTP\/1\.1 503 [^]*"queue_unavailable"/);
  for (const answer of [probe, work]) expect(answer.toLowerCase()).toContain('connection: close');
  busy.destroy();
  await closed;
});

function connections({ app }: ProducerServer): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  app.server.getConnections((_, count) => resolve(count));
  return promise;
}
