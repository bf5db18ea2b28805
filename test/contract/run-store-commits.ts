import { expect, test } from 'vitest';
import type { CancelRequest } from '../../src/shared/contract/control.ts';
import { aCommit, aTerminalCommit, complete, delta, agentStarted } from './run-fixtures.ts';
import { claimed, seeded, types, type MakeWorld } from './store-world.ts';

export function commits(makeWorld: MakeWorld): void {
  test('entries, events and fields arrive together', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    const attempts = [
      {
        attemptNumber: 1,
        step: 1,
        provider: 'p',
        model: 'm',
        outcome: 'succeeded',
        requestId: 'r',
        costMicrocents: 5,
        priced: true,
        latencyMs: 9,
      },
    ] as const;
    const patch = { steps: 2, costMicrocents: 17, attempts: [...attempts] };
    const commit = aCommit(3, {
      entries: [agentStarted('a')],
      events: [complete(runId, 'ä'), complete(runId, '"\\')],
      patch,
    });
    expect(await world.runs.commit({ runId, owner }, commit)).toEqual({ kind: 'ok', seq: 5 });
    expect(await world.runs.load(runId)).toMatchObject({ ...patch, lastSequence: 5, status: 'running' });
    expect((await world.events(runId)).slice(3)).toEqual([
      { v: 1, sequenceNumber: 4, ...complete(runId, 'ä') },
      { v: 1, sequenceNumber: 5, ...complete(runId, '"\\') },
    ]);
    expect((await claimed(world, runId, { jobTry: 2 })).entries).toEqual([agentStarted('a')]);
  });

  test('an empty commit only answers', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    expect(await world.runs.commit({ runId, owner }, aCommit(3))).toEqual({ kind: 'ok', seq: 3 });
  });

  test('the same commit again answers the same and changes nothing', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    const commit = aCommit(3, { entries: [agentStarted('a')], events: [complete(runId, 'x')] });
    const answer = await world.runs.commit({ runId, owner }, commit);
    const log = await world.events(runId);
    expect(await world.runs.commit({ runId, owner }, commit)).toEqual(answer);
    expect(await world.events(runId)).toEqual(log);
    expect((await claimed(world, runId, { jobTry: 2 })).entries).toHaveLength(1);
  });

  test('a cancel with `hold` is removed when the run waits on for people', async () => {
    const world = await makeWorld();
    const hold: CancelRequest = { drain: true, onPendingApprovals: 'hold', reason: '"onPendingApprovals":"deny"' };
    const deny: CancelRequest = { drain: true, onPendingApprovals: 'deny', reason: '"onPendingApprovals":"hold"' };
    for (const [cancel, left] of [
      [hold, undefined],
      [deny, deny],
    ] as const) {
      const runId = await seeded(world);
      const { owner } = await claimed(world, runId);
      await world.cancel(runId, cancel);
      const commit = aCommit(3, { patch: { status: 'suspended', cancel: '' }, release: 'suspended' });
      const answer = await world.runs.commit({ runId, owner }, commit);
      expect(answer).toEqual({ kind: 'ok', seq: 3, ...(left && { cancel: left }) });
      expect(await world.runs.commit({ runId, owner }, commit)).toEqual(answer);
      const record = await world.runs.load(runId);
      expect(record?.cancel).toEqual(left && JSON.stringify(left));
      expect(record?.status).toBe('suspended');
      await expect.poll(async () => (await world.runs.pendingCancels()).has(runId)).toBe(left !== undefined);
    }
  });

  test('a commit that released the run can be repeated as well', async () => {
    const world = await makeWorld();
    for (const release of ['handed_over', 'suspended', 'terminal'] as const) {
      const runId = await seeded(world);
      const { owner } = await claimed(world, runId);
      const commit =
        release === 'terminal' ? aTerminalCommit(runId, 3) : aCommit(3, { events: [complete(runId, 'x')], release });
      expect(await world.runs.commit({ runId, owner }, commit)).toEqual({ kind: 'ok', seq: 4 });
      expect(await world.runs.commit({ runId, owner }, commit)).toEqual({ kind: 'ok', seq: 4 });
      expect(await types(world, runId)).toHaveLength(4);
    }
  });

  test('a commit that released the run is the owner’s last', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    await world.runs.commit({ runId, owner }, aCommit(3, { release: 'suspended', patch: { status: 'suspended' } }));
    expect(await world.runs.commit({ runId, owner }, aCommit(3, { events: [complete(runId, 'x')] }))).toEqual({
      kind: 'fenced',
    });
    expect(await types(world, runId)).toHaveLength(3);
    expect(await world.runs.load(runId)).toMatchObject({ status: 'suspended' });
  });

  test('a commit answers with the cancel request, once there is one', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    expect(await world.runs.commit({ runId, owner }, aCommit(3))).toEqual({ kind: 'ok', seq: 3 });
    const cancel: CancelRequest = { drain: false, onPendingApprovals: 'deny' };
    await world.cancel(runId, cancel);
    expect(await world.runs.commit({ runId, owner }, aCommit(3))).toEqual({ kind: 'ok', seq: 3, cancel });
  });

  test('pending cancels name the runs that were asked, until they end', async () => {
    const world = await makeWorld();
    const [runId, other] = [await seeded(world), await seeded(world)];
    const { owner } = await claimed(world, runId);
    const cancel: CancelRequest = { drain: true, onPendingApprovals: 'fail' };
    await world.cancel(runId, cancel);
    const pending = await world.runs.pendingCancels();
    expect(pending.get(runId)).toEqual(cancel);
    expect(pending.has(other)).toBe(false);
    await world.runs.commit({ runId, owner }, aTerminalCommit(runId, 3));
    await expect.poll(async () => (await world.runs.pendingCancels()).has(runId)).toBe(false);
  });

  test('a run ends once, and nothing is written to it afterwards', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    expect(await world.runs.commit({ runId, owner }, aTerminalCommit(runId, 3))).toEqual({ kind: 'ok', seq: 4 });
    const [log, record] = [await world.events(runId), await world.runs.load(runId)];
    expect(record).toMatchObject({ status: 'completed', endedAt: expect.any(String) });
    expect(await world.runs.commit({ runId, owner }, aTerminalCommit(runId, 4))).toEqual({ kind: 'fenced' });
    expect(await world.runs.commit({ runId, owner }, aCommit(4, { entries: [agentStarted('late')] }))).toEqual({
      kind: 'fenced',
    });
    expect(await world.runs.flush({ runId, owner }, 3, [delta(runId, 'late')])).toEqual({ kind: 'fenced' });
    expect([await world.events(runId), await world.runs.load(runId)]).toEqual([log, record]);
  });

  test('the end of a run may take its journal with it', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner, seq } = await claimed(world, runId);
    const commit = aTerminalCommit(runId, seq, { entries: [agentStarted('m')], dropsJournal: true });
    expect(await world.runs.commit({ runId, owner }, commit)).toMatchObject({ kind: 'ok' });
    expect(await world.journal(runId)).toEqual([]);
    const kept = await seeded(world);
    const other = await claimed(world, kept);
    const ends = aTerminalCommit(kept, other.seq, { entries: [agentStarted('m')] });
    await world.runs.commit({ runId: kept, owner: other.owner }, ends);
    expect(await world.journal(kept)).toHaveLength(1);
  });

  test('a terminal status, the time of the end and the terminal release come together or not at all', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    const halves = [
      aCommit(3, { release: 'terminal' }),
      aCommit(3, { patch: { status: 'failed' } }),
      aCommit(3, { patch: { status: 'failed' }, release: 'terminal' }),
      aCommit(3, { patch: { endedAt: '2026-01-02T03:04:06.000Z' } }),
    ];
    for (const half of halves)
      await expect(world.runs.commit({ runId, owner }, half)).rejects.toMatchObject({ code: 'internal' });
    expect(await world.runs.load(runId)).toMatchObject({ status: 'running' });
  });

  test('a number that is taken fails the commit before anything is written', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    const [log, record] = [await world.events(runId), await world.runs.load(runId)];
    const commit = aCommit(2, { entries: [agentStarted('a')], events: [complete(runId, 'x')], patch: { steps: 7 } });
    await expect(world.runs.commit({ runId, owner }, commit)).rejects.toMatchObject({ code: 'internal' });
    expect([await world.events(runId), await world.runs.load(runId)]).toEqual([log, record]);
    expect((await claimed(world, runId, { jobTry: 2 })).entries).toEqual([]);
  });

  test('a commit of thousands of entries and events is whole', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    const entries = Array.from({ length: 9_000 }, (_, index) => agentStarted(`m${index}`));
    const events = entries.map((_, index) => complete(runId, `${index}`));
    expect(await world.runs.commit({ runId, owner }, aCommit(3, { entries, events }))).toEqual({
      kind: 'ok',
      seq: 9_003,
    });
    const again = await claimed(world, runId, { jobTry: 2 });
    expect(again.entries).toEqual(entries);
    expect(again.seq).toBe(9_004);
  });
}
