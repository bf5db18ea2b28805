import { expect, test } from 'vitest';
import { eventsOf } from '../support/check-run.ts';
import { shareWorld } from '../support/world.ts';

const shared = shareWorld();

/** The result that the model gets of its only call. */
async function resultAfter(name: string, args: Record<string, unknown>) {
  const { world } = shared;
  const run = await world.submit('hands', [{ calls: [{ name, args }] }, { text: 'I go on.' }]);
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'I go on.' } });
  const result = world.provider.callsOf(run.runId, 2)[0]?.messages.at(-1);
  expect(result?.role).toBe('tool');
  return { observed, content: String(result?.content) };
}

test('a megabyte from a tool reaches the model cut to its bound, with a note', async () => {
  const { content, observed } = await resultAfter('big', {});
  expect(content.length).toBeLessThan(70_000);
  expect(content).toMatch(/cut|truncated|omitted/i);
  for (const event of observed.events) expect(JSON.stringify(event).length).toBeLessThan(16 * 1024);
});

test.each(['nothing', 'bigint', 'cyclic', 'buffer', 'getter'])(
  'a run goes on after a tool that returns a %s',
  async (returns) => {
    const { content } = await resultAfter('odd', { returns });
    expect(content.length).toBeLessThan(2_000);
  },
);

test.each(['string', 'null', 'undefined', 'control', 'huge', 'named'])(
  'a run goes on after a tool that throws %s',
  async (throws) => {
    const { observed, content } = await resultAfter('odd', { throws });
    expect(eventsOf(observed, 'tool.execute.error')).toMatchObject([
      { toolName: 'odd', error: { kind: 'execution_failed' } },
    ]);
    expect(content.length).toBeLessThan(8 * 1024);
    // A tool's words must not be read as the queue's own control messages.
    expect(eventsOf(observed, 'run.recovered')).toEqual([]);
  },
);

test('a tool that takes longer than its time and does not listen is abandoned', async () => {
  const { observed } = await resultAfter('hasty', { id: 'h' });
  expect(eventsOf(observed, 'tool.execute.error')).toMatchObject([{ toolName: 'hasty', error: { kind: 'timeout' } }]);
});

test.each([
  ['a tool that does not exist', 'nonesuch', {}, 'unknown_tool'],
  ['arguments of the wrong shape', 'look', { wrong: 1 }, 'invalid_input'],
])('the model may correct %s', async (_, name, args, kind) => {
  const { observed } = await resultAfter(name, args);
  expect(eventsOf(observed, 'tool.execute.error')).toMatchObject([{ error: { kind } }]);
});
