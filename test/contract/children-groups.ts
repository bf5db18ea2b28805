import { expect, test } from 'vitest';
import type { JournalEntryOf } from '../../src/shared/contract/journal/journal.ts';
import { childOf, end, suspendOn, type ChildrenWorld } from './children-world.ts';
import { claimed, seeded } from './store-world.ts';

/** A run that waits for a group of four, two of which have begun. */
async function waitingForGroup(world: ChildrenWorld, first = false) {
  const runId = await seeded(world);
  const all = ['a', 'b', 'c', 'd'].map((space) => childOf(runId, space, space === 'd' ? 'another thing' : 'do it'));
  const [a, b, c, d] = all.map((child) => child.runId) as [string, string, string, string];
  await suspendOn(world, runId, [a, b]);
  const start = async () => await world.children.start(all.slice(0, 2), { segment: 0, first, later: all.slice(2) });
  await start();
  return { runId, a, b, c, d, start };
}

async function ended(...[world, runId, ...how]: Parameters<typeof end>): Promise<void> {
  await end(world, runId, ...how);
  await world.children.ended(runId);
}

export function childrenInGroups(makeWorld: () => Promise<ChildrenWorld>): void {
  test('each run of a group has the label of its own input, and its end the label of its answer', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const of = (name: string) => ({ sources: [{ name, trust: 'external' as const }], parts: [name] });
    const [a, b, c] = ['a', 'b', 'c'].map((space) => childOf(runId, space, 'do it', of(space)));
    if (!a || !b || !c) throw new Error('there are three');
    await suspendOn(world, runId, [a.runId]);
    await world.children.start([a], { segment: 0, first: false, later: [b, c] });
    for (const { runId: id } of [a, b, c]) await ended(world, id, { flow: of(`read by ${id}`) });
    const loaded = await Promise.all([a, b, c].map(async (child) => await world.runs.load(child.runId)));
    expect(loaded.map((record) => record?.parent?.flow)).toEqual([of('a'), of('b'), of('c')]);
    const { entries } = await claimed(world, runId, { segment: 1 });
    const decisions = (entries.at(-1) as JournalEntryOf<'decided'>).decisions;
    expect(decisions).toMatchObject([a, b, c].map(({ runId: id }) => ({ id, flow: of(`read by ${id}`) })));
  });

  test('a run that waits for a group goes on once, when all have ended, those included that began later', async () => {
    const world = await makeWorld();
    const { runId, a, b, c, d } = await waitingForGroup(world);
    await ended(world, b, { costMicrocents: 7 });
    expect(await world.runs.load(runId), 'the next one begins instead').toMatchObject({
      status: 'suspended',
      pending: [{ id: a }, { id: c }],
      costMicrocents: 7,
    });
    await world.children.ended(b);
    expect(await world.runs.load(d), 'notified twice, one begins').toBeUndefined();
    await ended(world, a, { costMicrocents: 4 });
    expect(await world.runs.load(d)).toMatchObject({ status: 'queued', request: { input: 'another thing' } });
    await ended(world, d, { costMicrocents: 2 });
    expect(await world.runs.load(runId)).toMatchObject({ status: 'suspended', segment: 0, pending: [{ id: c }] });
    await ended(world, c, { costMicrocents: 1 });
    const whole = { costMicrocents: 14, childCostMicrocents: 14 };
    expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', segment: 1, pending: [], ...whole });
    const { entries } = await claimed(world, runId, { segment: 1 });
    const decisions = (entries.at(-1) as JournalEntryOf<'decided'>).decisions;
    expect(decisions).toMatchObject([{ id: b, next: c }, { id: a, next: d }, { id: d }, { id: c }]);
  });

  test('a group that is started again after a lost reply begins no run twice', async () => {
    const world = await makeWorld();
    const { runId, a, b, c, d, start } = await waitingForGroup(world);
    await ended(world, b);
    await ended(world, c);
    await start();
    expect(await world.runs.load(runId)).toMatchObject({ status: 'suspended', pending: [{ id: a }, { id: d }] });
    await ended(world, a);
    expect(await world.runs.load(runId)).toMatchObject({ status: 'suspended', pending: [{ id: d }] });
    await ended(world, d);
    expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', segment: 1, pending: [] });
  });

  test('where the first answer ends the wait a failure does not, and no run begins after it', async () => {
    const world = await makeWorld();
    const { runId, a, b, c, d } = await waitingForGroup(world, true);
    await ended(world, a, { status: 'failed', costMicrocents: 3 });
    expect(await world.runs.load(runId)).toMatchObject({ status: 'suspended', pending: [{ id: b }, { id: c }] });
    await ended(world, c, { result: { text: 'done' }, costMicrocents: 5 });
    const costs = { costMicrocents: 8, childCostMicrocents: 8 };
    expect(await world.runs.load(runId)).toMatchObject({
      status: 'queued',
      segment: 1,
      pending: [{ id: b }],
      ...costs,
    });
    expect(await world.runs.load(d)).toBeUndefined();
  });

  test('after a cancel no child begins, and the run ends when its running children have', async () => {
    const world = await makeWorld();
    const { runId, a, b, c } = await waitingForGroup(world);
    const workers = [await claimed(world, a), await claimed(world, b)];
    await world.children.stop([runId], { drain: false, onPendingApprovals: 'deny' });
    await ended(world, a, {}, workers[0]);
    expect(await world.runs.load(runId)).toMatchObject({ status: 'suspended', pending: [{ id: b }] });
    await ended(world, b, {}, workers[1]);
    expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', segment: 1 });
    expect(await world.runs.load(c)).toBeUndefined();
  });

  test('a group is of one wait: when that has ended another way, each end ends the next one', async () => {
    const world = await makeWorld();
    const { runId, a, b, c } = await waitingForGroup(world);
    await world.waits.resume(runId, { summary: 'something else' });
    await suspendOn(world, runId, [a, b], 1);
    await ended(world, a);
    expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', segment: 2, pending: [{ id: b }] });
    expect(await world.runs.load(c)).toBeUndefined();
  });
}
