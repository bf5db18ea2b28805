import { expect, inject, onTestFinished, test } from 'vitest';
import {
  createInMemoryChatTurns,
  handleChatTurn,
  Millrace,
  type ChatLine,
  type ChatTurn,
} from '../../../../src/producer/index.ts';
import { fixtureFile } from '../../../support/input-files.ts';
import { startRedisProxy } from '../../../support/redis-proxy.ts';
import { until } from '../../../support/redis.ts';
import { clientWorld, codeOf, type ClientWorld } from '../../cli/options/client.ts';
import { RunWriter } from '../../support/run-writer.ts';
import { asked, hooks, identity, readAll, shownText, typesOf } from '../../chat/support.ts';

function writerOf({ redis, keys }: ClientWorld, { runId }: ChatTurn): RunWriter {
  return new RunWriter(redis, keys, runId, 2);
}

/** Collects in the background. */
function collect(lines: AsyncIterable<ChatLine>) {
  const seen: ChatLine[] = [];
  const ended = (async () => {
    for await (const line of lines) seen.push(line);
  })();
  return { seen, ended, reached: (seq: number) => until(`line ${seq}`, () => seen.at(-1)?.seq === seq) };
}

test('cutting the connections of a reader again and again loses nothing and repeats nothing', async () => {
  const world = await clientWorld();
  const proxy = await startRedisProxy(inject('redisUrl'));
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const mill = new Millrace({ redis: proxy.url, prefix: world.prefix });
  onTestFinished(() => mill.close());
  const turn = await mill.chat(asked);
  const writer = writerOf(world, turn);
  const reader = collect(turn.events());
  await until('it has begun', () => reader.seen.length === 1);
  for (let round = 0; round < 6; round++) {
    proxy.cut();
    await writer.text(30);
    await reader.reached(writer.sequence);
  }
  proxy.cut();
  await writer.end();
  await reader.ended;
  const deltas = reader.seen.filter(({ type }) => type === 'message.part.updated');
  expect(deltas.map(({ seq }) => seq)).toEqual(Array.from({ length: 180 }, (_, index) => index + 3));
  const round = Array.from({ length: 30 }, (_, index) => index).join('');
  expect(shownText(reader.seen)).toBe(round.repeat(6));
  expect(reader.seen.at(-1)?.type).toBe('session.run.completed');
});

test('the same turn is the same run, found again by its execution id alone', async () => {
  const world = await clientWorld();
  const turn = await world.mill.chat(asked);
  expect([turn.executionId, turn.attached, turn.replayed]).toEqual(['default:s-1:3', false, false]);
  const again = await world.mill.chat(asked);
  expect([again.runId, again.attached, again.replayed]).toEqual([turn.runId, true, false]);
  await writerOf(world, turn).end();
  const found = await world.mill.chatTurn(turn.executionId);
  expect([found.runId, found.attached, found.replayed]).toEqual([turn.runId, true, true]);
  expect(typesOf(await Array.fromAsync(found.events()))).toEqual([
    'session.run.started',
    'result',
    'session.run.completed',
  ]);
  const other = await world.mill.chat(asked, { executionId: 'another' });
  expect(other.runId).not.toBe(turn.runId);
});

test('bad turns are refused with their codes', async () => {
  const { mill } = await clientWorld();
  await mill.chat(asked);
  expect(await codeOf(mill.chat({ ...asked, message: 'Other' }))).toBe('idempotency_conflict');
  expect(await codeOf(mill.chat({ ...asked, turnIndex: 0.5 }))).toBe('validation');
  expect(await codeOf(mill.chat({ ...asked, sessionId: 'ä' }))).toBe('invalid_id');
  expect(await codeOf(mill.chat(asked, { executionId: 'ä' }))).toBe('invalid_id');
  expect(await codeOf(mill.chatTurn('ä'))).toBe('invalid_id');
  expect(await codeOf(mill.chatTurn('unknown'))).toBe('execution_not_found');
});

test('the text of a turn is there once it has ended, and its error is thrown', async () => {
  const world = await clientWorld();
  const [good, bad] = [await world.mill.chat(asked), await world.mill.chat({ ...asked, turnIndex: 4 })];
  const text = good.text();
  await writerOf(world, good).end();
  expect(await text).toBe('It is on its way.');
  await writerOf(world, bad).end('failed');
  await expect(bad.text()).rejects.toMatchObject({ code: 'provider_unavailable', message: 'the provider is away' });
  const cancelled = await world.mill.chat({ ...asked, turnIndex: 5 });
  await world.mill.cancel(cancelled.runId);
  expect(await codeOf(cancelled.text())).toBe('cancelled');
});

test('an iteration that is left, or whose signal aborts, ends also in the middle of a wait', async () => {
  const world = await clientWorld();
  const turn = await world.mill.chat(asked);
  const stop = new AbortController();
  const aborted = collect(turn.events({ signal: stop.signal }));
  const left = turn.events();
  expect((await left.next()).value).toMatchObject({ type: 'session.run.started' });
  const waiting = left.next();
  await left.return?.();
  expect((await waiting).done).toBe(true);
  await until('it has begun', () => aborted.seen.length === 1);
  stop.abort();
  await aborted.ended;
  const listeners = async () => Number((await world.redis.pubsub('NUMSUB', world.keys.live(turn.runId)))[1]);
  await until('no reader is subscribed', async () => (await listeners()) === 0);
});

test('a turn on a worker is a producer: one envelope, and the text that was streamed is stored', async () => {
  const world = await clientWorld();
  const turn = await world.mill.chat(asked);
  const { hooks: all, stored } = hooks({ produce: () => turn.producer() });
  const reading = readAll(handleChatTurn({ identity, hooks: all, turns: createInMemoryChatTurns() }).body);
  const writer = writerOf(world, turn);
  await writer.text(2);
  await writer.end();
  expect(typesOf(await reading)).toEqual([
    'session.run.started',
    'message.part.updated',
    'message.part.updated',
    'result',
    'session.run.completed',
  ]);
  expect(stored).toEqual(['It is on its way.']);
});

test('a run that fails is a producer that fails: the error comes once', async () => {
  const world = await clientWorld();
  const turn = await world.mill.chat(asked);
  await writerOf(world, turn).end('failed');
  const { hooks: all, calls } = hooks({ produce: () => turn.producer() });
  const lines = await readAll(handleChatTurn({ identity, hooks: all, turns: createInMemoryChatTurns() }).body);
  expect(typesOf(lines)).toEqual(['session.run.started', 'error', 'session.run.failed']);
  expect(lines.at(-1)?.data).toEqual({ sessionId: 's-1', message: 'the provider is away' });
  expect(calls).toEqual([]);
});

test('a turn may be asked with files beside its text', async () => {
  const { mill } = await clientWorld();
  const data = fixtureFile('mill.png').toString('base64');
  const message = [
    { type: 'text' as const, text: 'What is it?' },
    { type: 'image' as const, data, mediaType: 'image/png' },
  ];
  const turn = await mill.chat({ agent: 'support', sessionId: 's-files', turnIndex: 0, message });
  expect((await mill.get(turn.runId)).files).toMatchObject([{ kind: 'image', name: 'image-1', at: 11 }]);
});
