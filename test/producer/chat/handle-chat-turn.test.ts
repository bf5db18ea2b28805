import { expect, test } from 'vitest';
import {
  createInMemoryChatTurns,
  handleChatTurn,
  type ChatEvent,
  type ChatTurnHooks,
} from '../../../src/producer/index.ts';
import { until } from '../../support/redis.ts';
import { hooks, identity, linesOf, readAll, streamOf, typesOf, words } from './support.ts';

const turns = () => createInMemoryChatTurns();
const started = { type: 'session.run.started', data: { sessionId: 's-1', tenantId: 'shop', turnIndex: 3 } };
const completed = { type: 'session.run.completed', data: { sessionId: 's-1' } };

test('a turn is its envelope around the events of the producer as they are, one JSON a line', async () => {
  const odd: ChatEvent[] = [
    { type: 'a\nb', data: 'no\nobject' },
    { type: 'bare' },
    { ...words[0], type: 'x', more: 1 } as ChatEvent,
  ];
  const { hooks: all } = hooks({ produce: () => ({ stream: streamOf(odd), finalText: () => 'x' }) });
  const { body, contentType } = handleChatTurn({ identity, hooks: all, turns: turns() });
  expect(contentType).toBe('application/x-ndjson');
  expect(await readAll(body)).toEqual([started, ...odd, completed]);
});

test('what is stored is stored once, before the turn is completed, and then the product is notified', async () => {
  const { hooks: all, calls, stored } = hooks({ onEvent: ({ type }) => void calls.push(type) });
  await readAll(handleChatTurn({ identity, hooks: all, turns: turns() }).body);
  expect(calls).toEqual([
    'session.run.started',
    'produce',
    'word',
    'word',
    'word',
    'persist',
    'complete',
    'session.run.completed',
  ]);
  expect(stored).toEqual(['It was sent.']);
});

test('a text that the producer does not know is gathered from its events', async () => {
  const { hooks: all, stored } = hooks({
    produce: () => ({ stream: streamOf(words), finalText: () => '' }),
    accumulate: ({ data }, text) => {
      const { text: more } = data as { text: string };
      return more === 'was ' ? undefined : text + more;
    },
  });
  await readAll(handleChatTurn({ identity, hooks: all, turns: turns() }).body);
  expect(stored).toEqual(['It sent.']);
});

test('the stored text may be changed, and the stream is not', async () => {
  const { hooks: all, stored } = hooks({ transformFinalText: async (text) => text.replace('sent', '[hidden]') });
  const lines = await readAll(handleChatTurn({ identity, hooks: all, turns: turns() }).body);
  expect(stored).toEqual(['It was [hidden].']);
  expect(JSON.stringify(lines)).not.toContain('hidden');
});

function boom(): never {
  throw new Error('boom');
}

test.each<[keyof ChatTurnHooks, readonly string[]]>([
  ['accumulate', ['produce', 'persist', 'complete']],
  ['transformFinalText', ['produce']],
  ['persistAssistantMessage', ['produce', 'complete']],
  ['onTurnComplete', ['produce', 'persist']],
  ['onEvent', ['produce', 'persist', 'complete']],
  ['traceFlush', ['produce', 'persist', 'complete']],
])('a throwing %s is logged and leaves the stream as it is', async (hook, expected) => {
  for (const failing of [boom, () => Promise.reject(new Error('boom'))]) {
    const { hooks: all, calls } = hooks({ [hook]: failing });
    const logged: unknown[] = [];
    const log = (message: string, facts: object) => void logged.push([message, facts]);
    const { body } = handleChatTurn({ identity, hooks: all, log, turns: turns() });
    expect(await readAll(body)).toEqual([started, ...words, completed]);
    expect(calls).toEqual(expected);
    expect(logged[0]).toEqual(['a hook of a chat turn failed', { hook, error: 'boom' }]);
  }
});

test('a hook that never answers is abandoned', async () => {
  const { hooks: all, calls } = hooks({ persistAssistantMessage: () => new Promise<void>(() => {}) });
  const { body } = handleChatTurn({ identity, hooks: all, hookTimeoutMs: 20, turns: turns() });
  expect((await readAll(body)).at(-1)).toEqual(completed);
  expect(calls).toEqual(['produce', 'complete']);
});

test('a log that throws harms no turn', async () => {
  const { hooks: all } = hooks({ onEvent: boom });
  const { body } = handleChatTurn({ identity, hooks: all, log: boom, turns: turns() });
  expect(await readAll(body)).toEqual([started, ...words, completed]);
});

async function* breaking(): AsyncGenerator<ChatEvent, void, void> {
  yield words[0] as ChatEvent;
  throw new Error('the model is gone; key sk-abcdefghijkl');
}

const circular: Record<string, unknown> = {};
circular['self'] = circular;

test.each<[string, ChatTurnHooks['produce'], string]>([
  ['throws at once', boom, 'boom'],
  ['rejects', () => Promise.reject(new Error('boom')), 'boom'],
  ['breaks off', () => ({ stream: breaking(), finalText: () => 'It' }), 'the model is gone; key [redacted]'],
  [
    'emits what is no JSON',
    () => ({ stream: streamOf([{ type: 'x', data: circular }]), finalText: () => '' }),
    'emitted a x that is not JSON',
  ],
  [
    'emits what is no event',
    () => ({ stream: streamOf(['text' as never]), finalText: () => '' }),
    'something that is no event',
  ],
  ['has no text', () => ({ stream: streamOf(words), finalText: boom }), 'boom'],
])('a producer that %s fails the turn: two lines say so, and nothing is stored', async (_, produce, message) => {
  const { hooks: all, calls } = hooks({ produce });
  const lines = await readAll(handleChatTurn({ identity, hooks: all, turns: turns() }).body);
  expect(lines[0]).toEqual(started);
  expect(typesOf(lines.slice(-2))).toEqual(['error', 'session.run.failed']);
  const [error, failed] = lines.slice(-2);
  expect(error?.data.message).toContain(message);
  expect(failed?.data).toEqual({ sessionId: 's-1', message: error?.data.message });
  expect(calls).not.toContain('persist');
  expect(calls).not.toContain('complete');
});

test('traces are sent before the body ends, or handed over', async () => {
  const order: string[] = [];
  const flush = Promise.withResolvers<void>();
  const traceFlush = async () => {
    order.push('flush begins');
    await flush.promise;
    order.push('flushed');
  };
  const inline = readAll(handleChatTurn({ identity, hooks: hooks({ traceFlush }).hooks, turns: turns() }).body);
  const ended = inline.then(() => order.push('ended'));
  await until('the traces are on their way', () => order.includes('flush begins'));
  flush.resolve();
  await ended;
  expect(order).toEqual(['flush begins', 'flushed', 'ended']);

  const work: Promise<unknown>[] = [];
  const later = Promise.withResolvers<void>();
  let flushed = false;
  const { body } = handleChatTurn({
    identity,
    hooks: hooks({ traceFlush: () => later.promise.then(() => void (flushed = true)) }).hooks,
    turns: turns(),
    waitUntil: (promise) => void work.push(promise),
  });
  expect((await readAll(body)).at(-1)).toEqual(completed);
  expect([work.length, flushed]).toEqual([1, false]);
  later.resolve();
  await Promise.all(work);
  expect(flushed).toBe(true);
});

test('a host that refuses to wait is no problem of the turn', async () => {
  const { body } = handleChatTurn({ identity, hooks: hooks().hooks, turns: turns(), waitUntil: boom });
  expect((await readAll(body)).at(-1)).toEqual(completed);
});

test('the same turn again is replayed, and neither produced nor stored', async () => {
  const { hooks: all, calls } = hooks();
  const other = { ...identity, sessionId: 'not-remembered-elsewhere' };
  const first = await readAll(handleChatTurn({ identity: other, hooks: all }).body);
  const seen: string[] = [];
  const onEvent = ({ type }: ChatEvent) => void seen.push(type);
  const second = await readAll(handleChatTurn({ identity: { ...other }, hooks: { ...all, onEvent } }).body);
  const marked = first.map((line) =>
    line.type.startsWith('session.run.') ? { ...line, data: { ...line.data, replayed: true } } : line,
  );
  expect(second).toEqual(marked);
  expect(calls).toEqual(['produce', 'persist', 'complete']);
  expect(seen).toEqual([]);
});

test.each([
  ['tenant', { tenantId: 'other' }],
  ['session', { sessionId: 's-2' }],
  ['user', { userId: 'alex' }],
  ['turn', { turnIndex: 4 }],
])('another %s is another turn', async (_, other) => {
  const { hooks: all, calls } = hooks();
  const store = turns();
  for (const part of [{}, other]) {
    await readAll(handleChatTurn({ identity: { ...identity, ...part }, hooks: all, turns: store }).body);
  }
  expect(calls.filter((call) => call === 'produce')).toHaveLength(2);
});

test('a turn that failed, and one that could not be stored, is produced again', async () => {
  const store = turns();
  const { hooks: all, calls } = hooks();
  const failing = { ...all, produce: () => ({ stream: breaking(), finalText: () => '' }) };
  await readAll(handleChatTurn({ identity, hooks: failing, turns: store }).body);
  await readAll(handleChatTurn({ identity, hooks: { ...all, persistAssistantMessage: boom }, turns: store }).body);
  const last = await readAll(handleChatTurn({ identity, hooks: all, turns: store }).body);
  expect(last[0]).toEqual(started);
  expect(calls).toEqual(['produce', 'complete', 'produce', 'persist', 'complete']);
});

/** A producer that emits an event on each `next`. */
function steps() {
  const gates = Array.from({ length: 4 }, () => Promise.withResolvers<void>());
  let emitted = 0;
  async function* stream(): AsyncGenerator<ChatEvent, void, void> {
    for (const [index, gate] of gates.entries()) {
      await gate.promise;
      emitted = index + 1;
      yield { type: 'word', data: { text: `${index}` } };
    }
  }
  return {
    produce: () => ({ stream: stream(), finalText: () => '0123' }),
    next: (count = 1) => gates.slice(emitted, emitted + count).forEach(({ resolve }) => resolve()),
  };
}

test('a second call while the turn goes on joins it from its beginning', async () => {
  const { produce, next } = steps();
  const { hooks: all, calls } = hooks({ produce: () => (calls.push('produce'), produce()) });
  const input = { identity, hooks: all, turns: turns() };
  const first = readAll(handleChatTurn(input).body);
  next(2);
  await until('it is on its way', () => calls.length === 1);
  const second = readAll(handleChatTurn(input).body);
  next(4);
  next(4);
  await until('all is emitted', () => (next(4), calls.includes('complete')));
  expect(typesOf(await second)).toEqual(typesOf(await first));
  expect((await second)[0]?.data).toEqual({ ...started.data, replayed: true });
  expect(calls).toEqual(['produce', 'persist', 'complete']);
});

test('a second call that comes when the beginning is gone waits for the end and gets the text', async () => {
  const end = Promise.withResolvers<void>();
  async function* large(): AsyncGenerator<ChatEvent, void, void> {
    for (let n = 0; n < 6; n++) yield { type: 'word', data: 'x'.repeat(1024 * 1024) };
    await end.promise;
  }
  const { hooks: all, calls } = hooks({ produce: () => ({ stream: large(), finalText: () => 'a lot of x' }) });
  const input = { identity, hooks: all, turns: turns() };
  const first = linesOf(handleChatTurn(input).body);
  for (let n = 0; n < 7; n++) await first.next();
  const second = readAll(handleChatTurn(input).body);
  end.resolve();
  expect((await Array.fromAsync(first)).at(-1)).toEqual(completed);
  expect(typesOf(await second)).toEqual([started.type, 'message.part.updated', 'result', completed.type]);
  expect(calls).toEqual(['persist', 'complete']);
});

test('a cancelled body does not stop the turn, and what it did is there for the next call', async () => {
  const { produce, next } = steps();
  const { hooks: all, calls } = hooks({ produce });
  const input = { identity, hooks: all, turns: turns() };
  next(1);
  for await (const { type } of linesOf(handleChatTurn(input).body)) if (type === 'word') break;
  await until('it was stored', () => (next(4), calls.includes('complete')));
  const again = await readAll(handleChatTurn(input).body);
  expect(again.filter(({ type }) => type === 'word').map(({ data }) => data.text)).toEqual(['0', '1', '2', '3']);
  expect(again.at(-1)?.data.replayed).toBe(true);
});

test('a slow reader slows the producer down', async () => {
  let emitted = 0;
  async function* many(): AsyncGenerator<ChatEvent, void, void> {
    for (; emitted < 1_000; emitted++) yield { type: 'word', data: emitted };
  }
  const { hooks: all } = hooks({ produce: () => ({ stream: many(), finalText: () => 'all' }) });
  const lines = linesOf(handleChatTurn({ identity, hooks: all, turns: turns() }).body);
  await lines.next();
  // The producer has nothing else to wait for: what it did not emit in this time it does not emit.
  for (let tick = 0; tick < 2_000; tick++) await new Promise(setImmediate);
  expect(emitted).toBeGreaterThan(30);
  expect(emitted).toBeLessThan(100);
  const rest = await Array.fromAsync(lines);
  expect([emitted, rest.length]).toEqual([1_000, 1_001]);
});

test('when it is unknown whether the turn was answered, it is not answered', async () => {
  const { hooks: all, calls } = hooks();
  const store = { get: boom, put: async () => {} };
  const lines = await readAll(handleChatTurn({ identity, hooks: all, turns: store }).body);
  expect(typesOf(lines)).toEqual(['error', 'session.run.failed']);
  expect(calls).toEqual([]);
});

test('a store that does not take a turn is logged', async () => {
  const { hooks: all, calls } = hooks();
  const logged: object[] = [];
  const store = { get: async () => undefined, put: boom };
  const log = (_: string, facts: object) => void logged.push(facts);
  expect((await readAll(handleChatTurn({ identity, hooks: all, turns: store, log }).body)).at(-1)).toEqual(completed);
  expect(logged).toEqual([{ hook: 'turns.put', error: 'boom' }]);
  expect(calls).toEqual(['produce', 'persist', 'complete']);
});

test('an identity of a wrong form is refused with everything that is wrong', async () => {
  const wrong = { tenantId: '', sessionId: 's', turnIndex: -1 } as never;
  const lines = await readAll(handleChatTurn({ identity: wrong, hooks: hooks().hooks }).body);
  expect(typesOf(lines)).toEqual(['error', 'session.run.failed']);
  for (const field of ['tenantId', 'userId', 'turnIndex']) expect(lines[0]?.data.message).toContain(field);
});
