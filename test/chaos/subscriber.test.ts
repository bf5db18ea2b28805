import { expect, test } from 'vitest';
import { OwnRedis } from '../support/own-redis.ts';
import { testRedis, until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';

test('a subscriber that was stopped until Redis dropped it sees every event once it goes on', async () => {
  const redis = await OwnRedis.start();
  const world = await makeWorld({ redisUrl: redis.url, env: { STREAM_FLUSH_MS: '0' } });
  const gate = 'first-words';
  const words = Array.from({ length: 600 }, (_, i) => `word${i} `).join('');
  const run = await world.submit('plain', [{ text: words, hold: { gate, afterPieces: 3 } }]);
  const subscriber = world.fleet.spawn('subscriber', 'test/fixtures/subscriber.ts', {}, [run.runId]);
  let seen: unknown;
  let begun = false;
  subscriber.onMessage((message) => {
    if (message['type'] === 'begun') begun = true;
    else seen = message['numbers'];
  });
  await until('the subscriber reads', () => begun);
  subscriber.signal('SIGSTOP');
  const admin = await testRedis('work', redis.url);
  // What Redis does by itself to a reader that stays behind; the workers' own subscriptions go with it.
  expect(Number(await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub'))).toBeGreaterThan(0);
  world.provider.gates.open(gate);
  const { events } = await world.ended(run);
  subscriber.signal('SIGCONT');
  await until('the subscriber has the end', () => seen);
  expect(seen).toEqual(events.map((event) => event.sequenceNumber));
  expect(events.length).toBeGreaterThan(600);
});

test('subscribers whose connections keep breaking miss nothing and see nothing twice', async () => {
  const redis = await OwnRedis.start();
  const world = await makeWorld({ redisUrl: redis.url, env: { STREAM_FLUSH_MS: '0' } });
  const words = Array.from({ length: 150 }, (_, i) => `word${i} `).join('');
  const run = await world.submit('plain', [{ text: words, paceMs: 10 }]);
  const clients = Array.from({ length: 3 }, () => world.fleet.client());
  const readers = clients.map(async (client) => {
    const numbers: number[] = [];
    for await (const event of client.events(run.runId)) numbers.push(event.sequenceNumber);
    return numbers;
  });
  const admin = await testRedis('work', redis.url);
  const done = Promise.all(readers).then(() => true);
  for (
    let cuts = 0;
    !(await Promise.race([done, new Promise<false>((resolve) => setTimeout(resolve, 200, false))]));
    cuts++
  ) {
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
  }
  const { events } = await world.ended(run);
  for (const numbers of await Promise.all(readers))
    expect(numbers).toEqual(events.map((event) => event.sequenceNumber));
});
