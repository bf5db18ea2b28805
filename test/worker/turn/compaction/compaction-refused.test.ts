import { expect, test } from 'vitest';
import type { Message } from '../../../../src/shared/contract/message.ts';
import { createScriptedProvider } from '../../../../src/worker/llm/backends/scripted.ts';
import { bodyOf, makeCompaction, turnsOf } from './compaction-world.ts';
import { makeTurn } from '../world.ts';

/** A model that takes so many tokens. */
function narrow(tokens: number, seen: number[]) {
  return createScriptedProvider(
    (request) => {
      const size = JSON.stringify(request.messages).length / 3;
      seen.push(size);
      if (size > tokens) return { error: { kind: 'context_length' as const, status: 400 } };
      return { text: 'fits' };
    },
    { id: 'narrow' },
  );
}

test('a request that is refused for its length is made shorter once and tried again on the same model', async () => {
  const seen: number[] = [];
  const { compaction, requests } = makeCompaction({ window: 200_000 });
  const other = createScriptedProvider(() => ({ text: 'other' }), { id: 'other' });
  const world = makeTurn({ initial: turnsOf(9, 800), providers: [narrow(4_000, seen), other], deps: { compaction } });
  const outcome = await world.run();
  expect(outcome).toMatchObject({ status: 'completed', text: 'fits' });
  expect(world.requests.map(({ model }) => model)).toEqual(['model-1', 'model-1']);
  expect(requests).toHaveLength(1);
  expect(world.eventsOf('context.compacted')).toMatchObject([{ source: 'pre-step' }]);
  expect(bodyOf(world.requests[1]).slice(1)).toEqual(turnsOf(9, 800).slice(-3));
  // Two different requests must not look like one that was sent twice.
  expect(new Set(world.requests.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(2);
  expect(outcome.state.attempts.map(({ attemptNumber, outcome: end }) => [attemptNumber, end])).toEqual([
    [1, 'failed'],
    [2, 'succeeded'],
    [3, 'succeeded'],
  ]);
  expect(world.eventsOf('llm.call').map(({ attemptNumber }) => attemptNumber)).toEqual([1, 2, 3]);
});

test('when the shorter request is refused as well, the next model gets it', async () => {
  const seen: number[] = [];
  const { compaction, requests } = makeCompaction({ window: 200_000 });
  const other = createScriptedProvider(() => ({ text: 'other' }), { id: 'other' });
  const world = makeTurn({ initial: turnsOf(9, 800), providers: [narrow(100, seen), other], deps: { compaction } });
  const outcome = await world.run();
  expect(outcome).toMatchObject({ status: 'completed', text: 'other' });
  expect(requests).toHaveLength(1);
  expect(world.requests.map(({ model }) => model)).toEqual(['model-1', 'model-1', 'model-2']);
  expect(world.requests[2]?.messages).toEqual(world.requests[1]?.messages);
  expect(world.eventsOf('agent.model.fellback')).toMatchObject([{ reason: 'context-length' }]);
  expect(outcome.state.attempts.map(({ attemptNumber }) => attemptNumber)).toEqual([1, 2, 3, 4]);
});

test('without compaction, and with nothing to make shorter, a refused length goes to the next model as ever', async () => {
  const other = createScriptedProvider(() => ({ text: 'other' }), { id: 'other' });
  for (const deps of [{}, { compaction: makeCompaction({ window: 200_000 }).compaction }]) {
    const world = makeTurn({ providers: [narrow(1, []), other], deps });
    expect(await world.run()).toMatchObject({ text: 'other' });
    expect(world.requests.map(({ model }) => model)).toEqual(['model-1', 'model-2']);
  }
});

test('a worker that goes on with the step does not make an emergency of it again', async () => {
  const { compaction, requests } = makeCompaction({ window: 200_000, emergencyKeepTurns: 3 });
  // More steps stay than would have to, so that there is something left to cut off.
  const asked: Message[] = [
    { role: 'user', content: 'Look.' },
    { role: 'assistant', parts: [{ type: 'tool_call', id: 'c', name: 'look', args: '{}' }] },
    { role: 'tool', toolCallId: 'c', toolName: 'look', content: 'Found.' },
    { role: 'assistant', parts: [{ type: 'text', text: 'There.' }] },
  ];
  const initial: Message[] = [...turnsOf(9, 800), ...asked, ...asked, { role: 'user', content: 'And?' }];
  const first = makeTurn({ initial, providers: [narrow(100, [])], deps: { compaction } });
  expect(await first.run()).toMatchObject({ status: 'failed', error: { code: 'context_length_exceeded' } });
  const journal = structuredClone(first.journal);
  const second = makeTurn({ initial, providers: [narrow(100, [])], deps: { compaction } }, journal);
  expect(await second.run()).toMatchObject({ status: 'failed' });
  expect(requests).toHaveLength(1);
});

test('what is known of a window that was refused is wrong: so much is cut off that half of the request goes', async () => {
  const steps = Array.from({ length: 8 }, (_, index): Message[] => [
    { role: 'assistant', parts: [{ type: 'tool_call', id: `c${index}`, name: 'look', args: '{}' }] },
    { role: 'tool', toolCallId: `c${index}`, toolName: 'look', content: 'x'.repeat(3_000) },
  ]).flat();
  const initial = [...turnsOf(3, 100), ...steps];
  const seen: number[] = [];
  const { compaction } = makeCompaction({ window: 200_000 });
  const world = makeTurn({ initial, providers: [narrow(5_000, seen)], deps: { compaction } });
  expect(await world.run()).toMatchObject({ status: 'completed', text: 'fits' });
  expect(bodyOf(world.requests[1]).slice(1)).toEqual(initial.slice(-4));
});
