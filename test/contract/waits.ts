import { describe, expect, test } from 'vitest';
import type { PendingItem } from '../../src/shared/contract/event.ts';
import type { JournalEntry } from '../../src/shared/contract/journal/journal.ts';
import type { Waits } from '../../src/shared/state/run/waits/waits.ts';
import { aCommit, aRecord, aTerminalCommit, agentStarted } from './run-fixtures.ts';
import { claim, claimed, seeded, types, type StoreWorld } from './store-world.ts';

export interface WaitsWorld extends StoreWorld {
  readonly waits: Waits;
  /** The time by which timers are due, in milliseconds since the epoch. */
  now(): Promise<number>;
  /** Lets this much time pass for timers. */
  pass(ms: number): Promise<void>;
}

const at = '2026-01-02T03:04:05.000Z';
const resumption = { summary: 'approved', budget: 'approve', by: 'kim' } as const;
const pending: PendingItem[] = [{ kind: 'budget', id: 'batch:b1', requestedAt: at }];

async function suspended(world: WaitsWorld, changes: Parameters<typeof seeded>[1] = {}): Promise<string> {
  const runId = await seeded(world, changes);
  const segment = changes.segment ?? 0;
  const { owner, seq } = await claimed(world, runId, { segment, queue: changes.queue ?? 'runs' });
  const patch = { status: 'suspended', pending } as const;
  const entries: JournalEntry[] = [agentStarted('m'), { v: 1, t: 'suspended', seq: 1, reason: 'budget', at }];
  await world.runs.commit({ runId, owner }, aCommit(seq, { entries, patch, release: 'suspended' }));
  return runId;
}

/** What every store of waits promises. */
export function waitsContract(name: string, makeWorld: () => Promise<WaitsWorld>): void {
  describe(`${name} as a store of waits`, () => {
    test('a resumed run is queued at its next segment, in its queue, and waits for nothing', async () => {
      const world = await makeWorld();
      const runId = await suspended(world, { queue: 'bulk', segment: 3 });
      expect(await world.waits.resume(runId, resumption)).toEqual({ queue: 'bulk', segment: 4, kind: 'agent.turn' });
      const record = await world.runs.load(runId);
      expect(record).toMatchObject({ status: 'queued', segment: 4, queue: 'bulk', pending: [], lastSequence: 4 });
      expect(record?.updatedAt).not.toBe(at);
    });

    test('a resumption is in the log of its run, with the ids of the run', async () => {
      const world = await makeWorld();
      const request = { agent: 'support', input: 'hi', thread: 't1' };
      const runId = await suspended(world, { request });
      const live = await world.live(runId);
      await world.waits.resume(runId, resumption);
      expect(await types(world, runId)).toEqual(['run.queued', 'execution.started', 'run.started', 'run.resumed']);
      const event = (await world.events(runId)).at(-1);
      expect(event).toMatchObject({ v: 1, runId, agentId: 'support', threadId: 't1', directiveSummary: 'approved' });
      await expect.poll(() => live.flat()).toEqual([event]);
    });

    test('the next claim of a resumed run finds what ended the wait in the journal', async () => {
      const world = await makeWorld();
      const runId = await suspended(world);
      await world.waits.resume(runId, resumption);
      const answer = await claimed(world, runId, { segment: 1 });
      expect(answer.entries.map((entry) => entry.t)).toEqual(['agent_started', 'suspended', 'decided']);
      expect(answer.entries.at(-1)).toEqual({
        v: 1,
        t: 'decided',
        at: expect.any(String),
        by: 'kim',
        budget: 'approve',
      });
      expect(answer).toMatchObject({ unclean: false, seq: 5, record: { status: 'running', epoch: 2, crashes: 0 } });
    });

    test('the job of the segment that was suspended stays stale after the run is resumed', async () => {
      const world = await makeWorld();
      const runId = await suspended(world);
      await world.waits.resume(runId, resumption);
      expect(await claim(world, runId, { segment: 0, jobTry: 9 })).toEqual({ kind: 'stale' });
    });

    test('of many who end the same wait one succeeds', async () => {
      const world = await makeWorld();
      const runId = await suspended(world);
      const answers = await Promise.all(Array.from({ length: 20 }, () => world.waits.resume(runId, resumption)));
      expect(answers.filter((answer) => answer !== undefined)).toHaveLength(1);
      expect((await types(world, runId)).filter((type) => type === 'run.resumed')).toHaveLength(1);
      expect((await claimed(world, runId, { segment: 1 })).entries).toHaveLength(3);
    });

    test('a run that is not suspended is not resumed, and nothing changes', async () => {
      const world = await makeWorld();
      const runId = await seeded(world);
      expect(await world.waits.resume(runId, resumption)).toBeUndefined();
      const { owner } = await claimed(world, runId);
      expect(await world.waits.resume(runId, resumption)).toBeUndefined();
      await world.runs.commit({ runId, owner }, aTerminalCommit(runId, 3));
      const log = await world.events(runId);
      expect(await world.waits.resume(runId, resumption)).toBeUndefined();
      expect(await world.waits.resume(aRecord().runId, resumption)).toBeUndefined();
      expect(await world.events(runId)).toEqual(log);
    });

    test('a run that waits twice is resumed twice', async () => {
      const world = await makeWorld();
      const runId = await suspended(world);
      await world.waits.resume(runId, { summary: 'once' });
      const { owner, seq } = await claimed(world, runId, { segment: 1 });
      const patch = { status: 'suspended' } as const;
      await world.runs.commit({ runId, owner }, aCommit(seq, { patch, release: 'suspended' }));
      expect(await world.waits.resume(runId, { summary: 'twice' })).toMatchObject({ segment: 2 });
    });

    test('runs whose time has come are due once, soonest first and no more than asked for', async () => {
      const world = await makeWorld();
      const now = await world.now();
      await world.waits.at('c', now - 10);
      await world.waits.at('a', now - 1_000);
      await world.waits.at('b', now - 100);
      await world.waits.at('later', now + 3_600_000);
      expect(await world.waits.due(2)).toEqual(['a', 'b']);
      expect(await world.waits.due(10)).toEqual(['c']);
      expect(await world.waits.due(10)).toEqual([]);
    });

    test('a run that was due and was not resumed is due again, until it is', async () => {
      const world = await makeWorld();
      const runId = await seeded(world);
      const { owner, seq } = await claimed(world, runId);
      await world.waits.at(runId, (await world.now()) - 1);
      expect(await world.waits.due(10)).toEqual([runId]);
      expect(await world.waits.resume(runId, resumption)).toBeUndefined();
      const patch = { status: 'suspended', pending } as const;
      await world.runs.commit({ runId, owner }, aCommit(seq, { patch, release: 'suspended' }));
      expect(await world.waits.due(10)).toEqual([]);
      await world.pass(60_000);
      expect(await world.waits.due(10)).toEqual([runId]);
      await world.waits.resume(runId, resumption);
      await world.pass(60_000);
      expect(await world.waits.due(10)).toEqual([]);
    });

    test('each run that is due goes to one of those who ask', async () => {
      const world = await makeWorld();
      const now = await world.now();
      const runIds = Array.from({ length: 50 }, (_, i) => `r${i}`);
      for (const runId of runIds) await world.waits.at(runId, now - 1);
      const takes = await Promise.all(Array.from({ length: 10 }, () => world.waits.due(7)));
      expect(takes.flat().sort()).toEqual(runIds.sort());
    });

    test('a later time replaces an earlier one', async () => {
      const world = await makeWorld();
      const now = await world.now();
      await world.waits.at('a', now - 1_000);
      await world.waits.at('a', now + 3_600_000);
      expect(await world.waits.due(10)).toEqual([]);
    });

    test('a time that is cleared never comes', async () => {
      const world = await makeWorld();
      await world.waits.at('a', (await world.now()) - 1);
      await world.waits.clear('a');
      expect(await world.waits.due(10)).toEqual([]);
    });

    test('a run without a decision has an entry without one', async () => {
      const world = await makeWorld();
      const runId = await suspended(world);
      await world.waits.resume(runId, { summary: 'its time has come' });
      const { entries } = await claimed(world, runId, { segment: 1 });
      expect(entries.at(-1)).toEqual({ v: 1, t: 'decided', at: expect.any(String) as string });
    });

    test('a run that is resumed before its time is not due any more', async () => {
      const world = await makeWorld();
      const runId = await suspended(world);
      await world.waits.at(runId, (await world.now()) - 1);
      await world.waits.resume(runId, resumption);
      expect(await world.waits.due(10)).toEqual([]);
    });
  });
}
