import { expect, inject, onTestFinished, test } from 'vitest';
import type { CancelRequest } from '../../../../../src/shared/contract/control.ts';
import { newRunId } from '../../../../../src/shared/base/ids.ts';
import { createLog } from '../../../../../src/shared/base/log.ts';
import { Redactor } from '../../../../../src/shared/base/redact.ts';
import { keysFor } from '../../../../../src/shared/state/keys.ts';
import { RedisControlChannel } from '../../../../../src/shared/state/run/control/control-channel.ts';
import { startRedisProxy } from '../../../../support/redis-proxy.ts';
import { testPrefix, testRedis, until } from '../../../../support/redis.ts';

const cancel: CancelRequest = { drain: true, onPendingApprovals: 'hold', reason: 'too slow' };

async function makeChannel(url?: string) {
  const channel = keysFor(testPrefix()).control;
  const lines: Record<string, unknown>[] = [];
  const log = createLog('test', 'info', new Redactor(), {
    write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>),
  });
  const subscriber = await testRedis('subscribe', url);
  const control = new RedisControlChannel({ subscriber, channel, log });
  onTestFinished(() => control[Symbol.asyncDispose]());
  await control.start();
  const publisher = await testRedis();
  const received: [string, CancelRequest][] = [];
  const publish = (message: unknown) =>
    publisher.publish(channel, typeof message === 'string' ? message : JSON.stringify(message));
  return {
    control,
    subscriber,
    publisher,
    channel,
    lines,
    received,
    publish,
    listener: (runId: string, asked: CancelRequest) => void received.push([runId, asked]),
  };
}

const message = (runId: string) => ({ v: 1, runId, op: 'cancel', cancel });

test('a cancel reaches every listener, until it is disposed', async () => {
  const { control, publish, received, listener } = await makeChannel();
  const [first, second] = [newRunId(1), newRunId(2)];
  const registration = control.onCancel(listener);
  control.onCancel(listener);
  await publish(message(first));
  await until('both listeners', () => received.length === 2);
  registration[Symbol.dispose]();
  await publish(message(second));
  await until('the second message', () => received.length === 3);
  expect(received).toEqual([
    [first, cancel],
    [first, cancel],
    [second, cancel],
  ]);
});

test('what is not a control message is ignored with a log line that does not repeat it', async () => {
  const { control, publish, received, listener, lines } = await makeChannel();
  control.onCancel(listener);
  const runId = newRunId(1);
  for (const junk of ['secret{', '[]', { ...message(runId), v: 2 }, { ...message(runId), op: 'steer' }])
    await publish(junk);
  await publish(message(runId));
  await until('the real message', () => received.length > 0);
  expect(received).toEqual([[runId, cancel]]);
  expect(lines.map((line) => [line['level'], line['msg']])).toEqual(
    Array.from({ length: 4 }, () => ['warn', 'control message ignored']),
  );
  expect(JSON.stringify(lines)).not.toContain('secret');
});

test('messages of other channels on the same connection are not for it', async () => {
  const { control, subscriber, publisher, channel, publish, received, listener, lines } = await makeChannel();
  control.onCancel(listener);
  await subscriber.subscribe(`${channel}:other`);
  await publisher.publish(`${channel}:other`, JSON.stringify(message(newRunId(1))));
  const own = newRunId(2);
  await publish(message(own));
  await until('its own message', () => received.length > 0);
  expect(received).toEqual([[own, cancel]]);
  expect(lines).toEqual([]);
});

test('a listener that throws is logged and the others are called', async () => {
  const { control, publish, received, listener, lines } = await makeChannel();
  control.onCancel(() => {
    throw new Error('broken');
  });
  control.onCancel(listener);
  await publish(message(newRunId(1)));
  await until('the good listener', () => received.length > 0);
  expect(lines.map((line) => line['msg'])).toEqual(['listener failed']);
});

test('after its end the channel receives nothing and leaves the connection to its owner', async () => {
  const { control, subscriber, publisher, channel, publish, received, listener } = await makeChannel();
  control.onCancel(listener);
  await control[Symbol.asyncDispose]();
  expect(await publisher.pubsub('NUMSUB', channel)).toEqual([channel, 0]);
  expect(await publish(message(newRunId(1)))).toBe(0);
  expect(subscriber.status).toBe('ready');
  expect(subscriber.listenerCount('message')).toBe(0);
  expect(received).toEqual([]);
});

test('the end of a channel does not wait for a Redis that is silent or gone', async () => {
  await using proxy = await startRedisProxy(inject('redisUrl'));
  const silent = await makeChannel(proxy.url);
  proxy.hold();
  await silent.control[Symbol.asyncDispose]();
  expect(silent.subscriber.listenerCount('message')).toBe(0);

  const gone = await makeChannel();
  gone.subscriber.disconnect();
  await gone.control[Symbol.asyncDispose]();
  expect(gone.subscriber.listenerCount('message')).toBe(0);
});
