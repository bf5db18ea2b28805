import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { RunHandle } from '../../src/producer/index.ts';
import type { RunEvent } from '../../src/shared/contract/event.ts';
import { passage } from '../support/page.ts';
import { planInput, type PlannedStep } from '../support/plan.ts';
import { makeWorld, shareWorld, type World } from '../support/world.ts';

const env = { MILLRACE_AGENTS: join(import.meta.dirname, '../fixtures/flow-agents') };
const shared = shareWorld({ env });

/** What the models copy is not in the input of a run. `later` is for the plan of a child, in the words of its parent. */
function teach(world: World): World {
  world.provider.words.set('passage', passage).set('later', '%passage');
  return world;
}

const read: PlannedStep = { text: 'I read it.', calls: [{ name: 'fetch_page' }] };
const send = (body = 'News: %passage!'): PlannedStep => ({ calls: [{ name: 'send_mail', args: { body } }] });
const ask = (agent: string, ...plan: PlannedStep[]): PlannedStep => ({
  calls: [{ name: 'ask_agent', args: { agent, message: planInput(...plan) } }],
});
const done: PlannedStep = { text: 'Done.' };

/** What guards found in a run and its children, and what was sent. */
async function ending(world: World, run: RunHandle) {
  const result = await run.result();
  const events: RunEvent[] = [];
  for await (const event of world.mill.events(run.runId))
    events.push(event.type === 'subagent.event' ? (event.event as RunEvent) : event);
  const found = events.filter(({ type }) => type.startsWith('dataflow.'));
  return { status: result.status, found, sent: world.fleet.executions.map(({ id }) => id) };
}

const blocked = (source: string) => [
  { type: 'dataflow.blocked', toolName: 'send_mail', findings: [{ argument: 'body', source: { name: source } }] },
];

/** The turns of a thread, each on a worker that has seen none before. */
async function turnsOn(
  world: World,
  agent: string,
  turns: readonly { plan: readonly PlannedStep[]; compact?: true }[],
) {
  let run: RunHandle | undefined;
  for (const { plan, compact } of turns) {
    if (run) {
      await run.result();
      const last = world.workers.at(-1);
      last?.signal('SIGTERM');
      await last?.exited;
      await world.addWorker();
    }
    run = await world.submit(agent, plan, { thread: 't', ...(compact && { compact }) });
  }
  if (!run) throw new Error('there are no turns');
  return await ending(world, run);
}

test('what a child has read is not sent by its parent', async () => {
  const world = teach(shared.world);
  const run = await world.submit('asking', [ask('absent', read, { text: 'It says: %later' }), send(), done]);
  const { status, found, sent } = await ending(world, run);
  expect({ status, sent }).toEqual({ status: 'completed', sent: [] });
  expect(found).toMatchObject(blocked('fetch_page'));
});

test('what a parent has read is not sent by its child', async () => {
  const world = teach(shared.world);
  const run = await world.submit('asking', [read, ask('enforce', send(), done), done]);
  const { status, found, sent } = await ending(world, run);
  expect({ status, sent }).toEqual({ status: 'completed', sent: [] });
  expect(found).toMatchObject(blocked('fetch_page'));
});

test('what a judge is given of several answers is not sent by it', async () => {
  const world = teach(shared.world);
  let first: number | undefined;
  world.provider.unplanned = (said) => {
    if (!said.includes('agents were asked the same')) return undefined;
    const { length } = world.provider.calls;
    return (first ??= length) === length ? send() : done;
  };
  const children = [
    { agent: 'absent', id: 'a', input: planInput(read, { text: 'It says: %passage' }) },
    { agent: 'absent', id: 'b', input: planInput({ text: 'Nothing new.' }) },
  ];
  const run = await world.mill.fanOut({ children, mergeStrategy: { kind: 'judge-merge', judge: 'enforce' } });
  const { status, found, sent } = await ending(world, run);
  expect({ status, sent }).toEqual({ status: 'completed', sent: [] });
  expect(found).toMatchObject(blocked('fetch_page'));
});

test('what was read before a handoff is not sent after it, though no result crossed', async () => {
  const world = teach(shared.world);
  const to = { text: 'It says: %passage', calls: [{ name: 'transfer_to_enforce', args: {} }] };
  const run = await world.submit('handing', [read, to, send(), done]);
  const { status, found, sent } = await ending(world, run);
  expect({ status, sent }).toEqual({ status: 'completed', sent: [] });
  expect(found).toMatchObject(blocked('fetch_page'));
});

test('what one turn of a thread has read is not sent by the next one on another worker', async () => {
  const world = teach(await makeWorld({ env }));
  const { found, sent } = await turnsOn(world, 'enforce', [{ plan: [read, done] }, { plan: [send(), done] }]);
  expect(sent).toEqual([]);
  expect(found).toMatchObject(blocked('fetch_page'));
});

test('what a summary has replaced and an answer repeats is not sent by a later turn on another worker', async () => {
  const world = teach(await makeWorld({ env }));
  const { found, sent } = await turnsOn(world, 'summing', [
    { plan: [read, { text: `Read. ${'And so on. '.repeat(400)}`, pieces: 4 }] },
    { plan: [{ text: 'It says: %passage' }], compact: true },
    { plan: [send(), done] },
  ]);
  expect(world.provider.summaries).toBe(1);
  expect(sent).toEqual([]);
  expect(found).toMatchObject(blocked('fetch_page'));
});
