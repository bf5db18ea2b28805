import { describe, expect, test } from 'vitest';
import type { NewRun } from '../../src/shared/state/run/create-runs.ts';
import { runIdForChild } from '../../src/shared/base/ids.ts';
import type { JournalEntryOf } from '../../src/shared/contract/journal/journal.ts';
import { lineage } from '../../src/shared/contract/run.ts';
import { childrenInGroups } from './children-groups.ts';
import { childOf, end, suspendOn, type ChildrenWorld } from './children-world.ts';
import { aCommit, aTerminalCommit } from './run-fixtures.ts';
import { claim, claimed, seeded, types } from './store-world.ts';

const at = '2026-01-02T03:04:05.000Z';

/** A run that waits for others, which exist and have not begun. */
async function waiting(world: ChildrenWorld, count: number): Promise<{ runId: string; children: readonly NewRun[] }> {
  const runId = await seeded(world);
  const children = Array.from({ length: count }, (_, index) => childOf(runId, `t${index}`));
  await suspendOn(
    world,
    runId,
    children.map((run) => run.runId),
  );
  await world.children.start(children);
  return { runId, children };
}

const relayed = (runId: string, number: number) => ({
  type: 'subagent.event' as const,
  timestamp: at,
  childRunId: runId,
  childDepth: 1,
  event: { number },
});

/** What every store of children promises. */
export function childrenContract(name: string, makeWorld: () => Promise<ChildrenWorld>): void {
  describe(`${name} as a store of children`, () => {
    test('a child is created once, queued, and knows its parent', async () => {
      const world = await makeWorld();
      const { runId, children } = await waiting(world, 1);
      await world.children.start(children);
      const [child] = children;
      const record = await world.runs.load(child?.runId ?? '');
      expect(record).toMatchObject({ status: 'queued', parent: { runId, depth: 1, expose: 'all', payers: [] } });
      expect(await types(world, child?.runId ?? '')).toEqual(['run.queued']);
      expect((await world.events(child?.runId ?? ''))[0]).toMatchObject({ parentRunId: runId, depth: 1 });
    });

    test('the end of a child ends the wait of its parent, which finds how it ended and what it cost', async () => {
      const world = await makeWorld();
      const { runId, children } = await waiting(world, 1);
      const id = children[0]?.runId ?? '';
      await end(world, id, { result: { text: 'done' }, costMicrocents: 7, steps: 3 });
      await world.children.ended(id);
      expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', segment: 1, pending: [] });
      expect((await types(world, runId)).at(-1)).toBe('run.resumed');
      const { entries } = await claimed(world, runId, { segment: 1 });
      const decided = entries.at(-1) as JournalEntryOf<'decided'>;
      expect(decided.decisions).toMatchObject([
        { kind: 'child', id, status: 'completed', text: 'done', costMicrocents: 7, steps: 3 },
      ]);
    });

    test('an end that is notified twice is recorded once', async () => {
      const world = await makeWorld();
      const { runId, children } = await waiting(world, 2);
      const [first, second] = children.map((run) => run.runId) as [string, string];
      await end(world, first, { costMicrocents: 7 });
      await world.children.ended(first);
      expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', pending: [{ id: second }] });
      await suspendOn(world, runId, [second], 1);
      await world.children.ended(first);
      await world.children.start(children);
      expect(await world.runs.load(runId)).toMatchObject({ status: 'suspended', segment: 1 });
    });

    test('a child that ended while its parent was running is found when the parent waits again', async () => {
      const world = await makeWorld();
      const { runId, children } = await waiting(world, 2);
      const [first, second] = children.map((run) => run.runId) as [string, string];
      await end(world, first);
      await world.children.ended(first);
      const { owner, seq } = await claimed(world, runId, { segment: 1 });
      await end(world, second);
      await world.children.ended(second);
      expect(await world.waits.hasDecisions(runId)).toBe(true);
      await world.runs.commit({ runId, owner }, aCommit(seq, { patch: { status: 'suspended' }, release: 'suspended' }));
      // Starting it again finds an end whose notice got lost.
      await world.children.start(children);
      expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', segment: 2 });
    });

    test('the record of a parent has the cost of a child as soon as the journal has its end', async () => {
      const world = await makeWorld();
      const { runId, children } = await waiting(world, 2);
      const [first, second] = children.map((run) => run.runId) as [string, string];
      await end(world, first, { costMicrocents: 7 });
      await world.children.ended(first);
      const knows = { status: 'queued', costMicrocents: 7, childCostMicrocents: 7 };
      expect(await world.runs.load(runId)).toMatchObject(knows);
      await end(world, second, { costMicrocents: 4 });
      await world.children.ended(second);
      expect(await world.runs.load(runId)).toMatchObject(knows);
    });

    test('a parent that is queued for the end of a child is not cancelled without a worker, which sums up what was used', async () => {
      const world = await makeWorld();
      const { runId, children } = await waiting(world, 1);
      const id = children[0]?.runId ?? '';
      await end(world, id, { costMicrocents: 7 });
      await world.children.ended(id);
      await world.children.stop([runId], { drain: false, onPendingApprovals: 'deny' });
      expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', segment: 1, pending: [] });
      expect((await claimed(world, runId, { segment: 1 })).cancel).toMatchObject({ drain: false });
    });

    test('a parent pays for a child that ended while it was running, even where it ends without a notice', async () => {
      const world = await makeWorld();
      const { runId, children } = await waiting(world, 2);
      const [first, second] = children.map((run) => run.runId) as [string, string];
      await end(world, first, { costMicrocents: 7 });
      await world.children.ended(first);
      const { owner, seq } = await claimed(world, runId, { segment: 1 });
      await end(world, second, { costMicrocents: 4 });
      await world.children.ended(second);
      const commit = aTerminalCommit(runId, seq);
      const patch = { ...commit.patch, costMicrocents: 12, childCostMicrocents: 7 };
      await world.runs.commit({ runId, owner }, { ...commit, patch });
      await world.runs.commit({ runId, owner }, { ...commit, patch });
      await world.children.ended(second);
      expect(await world.runs.load(runId)).toMatchObject({ costMicrocents: 16, childCostMicrocents: 11 });
    });

    test.each([
      ['failed', true],
      ['completed', false],
    ] as const)('a parent that has %s is notified of the end of a child later: %s', async (status, notified) => {
      const world = await makeWorld();
      const { runId, children } = await waiting(world, 1);
      const id = children[0]?.runId ?? '';
      await world.waits.resume(runId, { summary: 'out of time' });
      const { owner, seq } = await claimed(world, runId, { segment: 1 });
      const commit = aTerminalCommit(runId, seq);
      await world.runs.commit({ runId, owner }, { ...commit, patch: { ...commit.patch, status } });
      await end(world, id, { costMicrocents: 7 });
      await world.children.ended(id);
      expect(await world.waits.hasDecisions(runId)).toBe(notified);
      expect(await world.runs.load(runId)).toMatchObject({ costMicrocents: 7 });
    });

    test('a run that has ended itself only learns the cost', async () => {
      const world = await makeWorld();
      const { runId, children } = await waiting(world, 1);
      const id = children[0]?.runId ?? '';
      await world.waits.resume(runId, { summary: 'cancelled' });
      const { owner, seq } = await claimed(world, runId, { segment: 1 });
      const commit = aTerminalCommit(runId, seq);
      await world.runs.commit({ runId, owner }, { ...commit, patch: { ...commit.patch, costMicrocents: 5 } });
      await end(world, id, { costMicrocents: 7 });
      await world.children.ended(id);
      await world.children.ended(id);
      expect(await world.runs.load(runId)).toMatchObject({
        status: 'completed',
        costMicrocents: 12,
        childCostMicrocents: 7,
      });
    });

    test.each(['is to stop', 'has ended'])(
      'children that are started late, for a parent that %s, are stopped',
      async (how) => {
        const world = await makeWorld();
        const runId = await seeded(world);
        const late = childOf(runId, 'late');
        await suspendOn(world, runId, [late.runId]);
        if (how === 'is to stop') await world.children.stop([runId], { drain: false, onPendingApprovals: 'hold' });
        else {
          await world.waits.resume(runId, { summary: 'out of time' });
          const { owner, seq } = await claimed(world, runId, { segment: 1 });
          await world.runs.commit({ runId, owner }, aTerminalCommit(runId, seq));
        }
        await world.children.start([late]);
        const child = await world.runs.load(late.runId);
        expect(child?.status === 'cancelled' || child?.cancel !== undefined).toBe(true);
      },
    );

    test('children are stopped with their own children; what does not exist is named', async () => {
      const world = await makeWorld();
      const { runId, children } = await waiting(world, 1);
      const id = children[0]?.runId ?? '';
      const deeper = { ...childOf(id, 'x'), parent: lineage.parse({ runId: id, depth: 2, ancestors: [] }) };
      await suspendOn(world, id, [deeper.runId]);
      await world.children.start([deeper]);
      const request = { drain: false, onPendingApprovals: 'deny' } as const;
      const missing = runIdForChild(runId, 'never made');
      expect(await world.children.stop([id, missing], request)).toEqual([missing]);
      const stopped = await world.runs.load(deeper.runId);
      expect(stopped?.status === 'cancelled' || stopped?.cancel !== undefined).toBe(true);
      const middle = await world.runs.load(id);
      expect(middle?.cancel, 'it ends after its child').toBeDefined();
      expect(middle?.endedAt).toBeUndefined();
    });

    test('a suspended parent gets events at once, and those from before its wait', async () => {
      const world = await makeWorld();
      const { runId, children } = await waiting(world, 1);
      const id = children[0]?.runId ?? '';
      const stamp = { runId, agentId: 'support' };
      expect(await world.children.relay(stamp, [relayed(id, 1)])).toBe(true);
      const first = (await world.events(runId)).at(-1);
      expect(first).toMatchObject({ ...stamp, type: 'subagent.event', childRunId: id, event: { number: 1 } });
      await world.waits.resume(runId, { summary: 'x' });
      const { owner, seq } = await claimed(world, runId, { segment: 1 });
      await world.children.relay(stamp, [relayed(id, 2)]);
      expect((await types(world, runId)).filter((type) => type === 'subagent.event')).toHaveLength(1);
      await world.runs.commit({ runId, owner }, aCommit(seq, { patch: { status: 'suspended' }, release: 'suspended' }));
      await world.children.relay(stamp, [relayed(id, 3)]);
      const numbers = (await world.events(runId)).flatMap((event) =>
        event.type === 'subagent.event' ? [event.event] : [],
      );
      expect(numbers).toEqual([{ number: 1 }, { number: 2 }, { number: 3 }]);
      expect(await types(world, runId)).toHaveLength((await world.runs.load(runId))?.lastSequence ?? 0);
    });

    test('events for a running parent are in its log from the next claim on, once, whatever happens to that worker', async () => {
      const world = await makeWorld();
      const runId = await seeded(world);
      await claim(world, runId);
      await world.children.relay({ runId, agentId: 'support' }, [relayed('c', 1), relayed('c', 2)]);
      expect(await types(world, runId)).not.toContain('subagent.event');
      const { seq } = await claimed(world, runId, { jobTry: 2 });
      const events = await world.events(runId);
      expect(events.slice(-3)).toMatchObject([
        { type: 'subagent.event', agentId: 'support', event: { number: 1 } },
        { type: 'subagent.event', agentId: 'support', event: { number: 2 } },
        { type: 'run.recovered', sequenceNumber: seq },
      ]);
      await claimed(world, runId, { jobTry: 3, crashLimit: 9 });
      const copies = (await types(world, runId)).filter((type) => type === 'subagent.event');
      expect(copies).toHaveLength(2);
    });

    test('a run that has ended takes no more events', async () => {
      const world = await makeWorld();
      const runId = await seeded(world);
      await end(world, runId);
      expect(await world.children.relay({ runId }, [relayed('c', 1)])).toBe(false);
      expect((await types(world, runId)).at(-1)).toBe('run.completed');
    });

    childrenInGroups(makeWorld);
  });
}
