import { expect, test } from 'vitest';
import { makeCompaction, noLimits, pages, reads, turnsOf } from './compaction-world.ts';
import { makeTurn } from '../world.ts';

test('hooks are asked after the compaction, their texts end the next request and no other, and a failing one is left out', async () => {
  const seen: object[] = [];
  const { compaction, outcomes } = makeCompaction({
    hooks: [
      (compaction) => {
        seen.push({ ...compaction, messages: compaction.messages.length });
        return 'Never delete anything.';
      },
      () => {
        throw new Error('no');
      },
      () => 7 as never,
      async () => undefined,
    ],
  });
  const world = makeTurn({
    initial: turnsOf(9, 800),
    script: reads(1),
    tools: [pages],
    limits: noLimits,
    deps: { compaction },
  });
  await world.run();
  const [event] = world.eventsOf('context.compacted');
  expect(event).toMatchObject({ hooksFiredCount: 2 });
  expect(seen).toMatchObject([
    { stepNumber: 1, source: 'auto-trigger', messages: 12, beforeTokens: event?.beforeTokens },
  ]);
  const [first, second] = world.requests;
  expect(first?.messages.at(-1)).toEqual({ role: 'system', content: 'Never delete anything.' });
  expect(first?.messages.filter(({ role }) => role === 'system')).toHaveLength(2);
  expect(JSON.stringify(second?.messages)).not.toContain('Never delete');
  expect(outcomes).toEqual(expect.arrayContaining(['hook_failed', 'hook_failed', 'compacted']));
});

test('a hook that does not answer holds nothing up for longer than ten seconds', async () => {
  const { compaction } = makeCompaction({ hooks: [() => new Promise<string>(() => {}), () => 'Here.'] });
  const world = makeTurn({ initial: turnsOf(9, 800), deps: { compaction } });
  const running = world.run();
  await world.clock.pass(10_000);
  await world.clock.pass(50);
  expect(await running).toMatchObject({ status: 'completed' });
  expect(world.requests[0]?.messages.at(-1)).toEqual({ role: 'system', content: 'Here.' });
  expect(world.eventsOf('context.compacted')).toMatchObject([{ hooksFiredCount: 1 }]);
});

test('what hooks said survives a crash, and a crash before they were asked loses no event', async () => {
  const initial = turnsOf(9, 800);
  const { compaction } = makeCompaction({ hooks: [() => 'Keep this.'] });
  const whole = makeTurn({ initial, deps: { compaction } });
  await whole.run();
  expect(whole.journal.map(({ t }) => t)).toEqual(['compacted', 'context_pinned', 'model_response']);
  const asked = makeTurn({ initial, deps: { compaction: makeCompaction().compaction } }, whole.journal.slice(0, 2));
  await asked.run();
  expect(asked.requests[0]?.messages).toEqual(whole.requests[0]?.messages);
  expect(asked.eventsOf('context.compacted')).toEqual([]);
  const before = makeTurn({ initial, deps: { compaction } }, whole.journal.slice(0, 1));
  await before.run();
  expect(before.eventsOf('context.compacted')).toEqual(whole.eventsOf('context.compacted'));
  expect(before.requests[0]?.messages).toEqual(whole.requests[0]?.messages);
});

test('each part of a long conversation is emitted, and hooks are asked after the last one', async () => {
  let fired = 0;
  const { compaction, requests } = makeCompaction({
    summarizer: { contextWindow: 6_000 },
    hooks: [() => `${++fired}`],
  });
  const world = makeTurn({ initial: turnsOf(20, 800), deps: { compaction } });
  await world.run();
  const counts = world.eventsOf('context.compacted').map(({ hooksFiredCount }) => hooksFiredCount);
  expect(counts).toEqual([...Array.from({ length: requests.length - 1 }, () => 0), 1]);
  expect(fired).toBe(1);
});
