import { expect, test } from 'vitest';
import { createInMemoryChatTurns, handleChatTurn } from '../../../src/producer/index.ts';
import { hooks, identity, readAll } from './support.ts';

const turn = (turnIndex: number) => ({ ...identity, turnIndex });

test('the turn that was used longest ago goes first', async () => {
  const turns = createInMemoryChatTurns({ maxTurns: 2 });
  await turns.put(turn(0), { text: 'zero' });
  await turns.put(turn(1), { text: 'one' });
  await turns.get(turn(0));
  await turns.put(turn(2), { text: 'two' });
  expect(await Promise.all([0, 1, 2].map((n) => turns.get(turn(n))))).toEqual([
    { text: 'zero' },
    undefined,
    { text: 'two' },
  ]);
});

test('together they take no more than the limit', async () => {
  const turns = createInMemoryChatTurns({ maxBytes: 4_000 });
  for (let n = 0; n < 50; n++) await turns.put(turn(n % 10), { text: 'x'.repeat(100 + n) });
  const kept = (await Promise.all(Array.from({ length: 10 }, (_, n) => turns.get(turn(n))))).filter(Boolean);
  expect(kept.length).toBeGreaterThan(5);
  expect(kept.reduce((sum, one) => sum + (one?.text.length ?? 0) * 2, 0)).toBeLessThanOrEqual(4_000);
});

test('of a turn that is too large its text is kept, and nothing of one whose text is too large', async () => {
  const turns = createInMemoryChatTurns({ maxBytes: 1_000 });
  await turns.put(turn(0), { text: 'short', lines: ['x'.repeat(1_000)] });
  expect(await turns.get(turn(0))).toEqual({ text: 'short' });
  await turns.put(turn(1), { text: 'x'.repeat(1_000) });
  expect([await turns.get(turn(0)), await turns.get(turn(1))]).toEqual([{ text: 'short' }, undefined]);
});

test('a turn of which only the text is left is replayed as one message', async () => {
  const turns = createInMemoryChatTurns();
  await turns.put(identity, { text: 'It was sent.' });
  const { hooks: all, calls } = hooks();
  const lines = await readAll(handleChatTurn({ identity, hooks: all, turns }).body);
  expect(lines.map(({ type, data }) => [type, data.delta ?? data.finalText ?? data.replayed])).toEqual([
    ['session.run.started', true],
    ['message.part.updated', 'It was sent.'],
    ['result', 'It was sent.'],
    ['session.run.completed', true],
  ]);
  expect(calls).toEqual([]);
});
