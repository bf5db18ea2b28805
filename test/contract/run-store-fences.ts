import { expect, test } from 'vitest';
import { aCommit, aRecord, aTerminalCommit, complete, delta, agentStarted } from './run-fixtures.ts';
import { claim, claimed, seeded, types, type MakeWorld } from './store-world.ts';

export function fences(makeWorld: MakeWorld): void {
  test('an owner that was overtaken writes nothing, by commit or by flush', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const stale = await claimed(world, runId);
    const owner = await claimed(world, runId, { jobTry: 2 });
    const [log, record, live] = [await world.events(runId), await world.runs.load(runId), await world.live(runId)];
    for (const seq of [stale.seq, owner.seq]) {
      const commit = aCommit(seq, {
        entries: [agentStarted('stale')],
        events: [complete(runId, 'stale')],
        patch: { steps: 9 },
      });
      expect(await world.runs.commit({ runId, owner: stale.owner }, commit)).toEqual({ kind: 'fenced' });
      expect(await world.runs.commit({ runId, owner: stale.owner }, aTerminalCommit(runId, seq))).toEqual({
        kind: 'fenced',
      });
    }
    expect(await world.runs.flush({ runId, owner: stale.owner }, stale.seq, [delta(runId, 'stale')])).toEqual({
      kind: 'fenced',
    });
    expect([await world.events(runId), await world.runs.load(runId)]).toEqual([log, record]);
    expect(
      await world.runs.commit({ runId, owner: owner.owner }, aCommit(owner.seq, { events: [complete(runId, 'x')] })),
    ).toMatchObject({ kind: 'ok' });
    await expect.poll(() => live.length).toBe(1);
    expect((await claimed(world, runId, { jobTry: 3, crashLimit: 9 })).entries).toEqual([]);
  });

  test('a run that does not exist takes no writes', async () => {
    const world = await makeWorld();
    const { runId } = aRecord();
    expect(await world.runs.load(runId)).toBeUndefined();
    expect(
      await world.runs.commit({ runId, owner: 'unknown' }, aCommit(0, { events: [complete(runId, 'x')] })),
    ).toEqual({ kind: 'fenced' });
    expect(await world.runs.flush({ runId, owner: 'unknown' }, 0, [delta(runId, 'x')])).toEqual({ kind: 'fenced' });
    expect(await world.events(runId)).toEqual([]);
  });

  test('of two owners that race to end a run exactly one does', async () => {
    const world = await makeWorld();
    for (let round = 0; round < 10; round++) {
      const runId = await seeded(world);
      const first = await claimed(world, runId);
      const end = () => world.runs.commit({ runId, owner: first.owner }, aTerminalCommit(runId, first.seq));
      const takeOver = () => claim(world, runId, { jobTry: 2, owner: 'second' });
      const race = round % 2 === 0 ? [end(), takeOver()] : [takeOver(), end()];
      const kinds = (await Promise.all(race)).map((answer) => answer.kind).sort();
      const overtaken = kinds.includes('claimed');
      expect(kinds).toEqual(overtaken ? ['claimed', 'fenced'] : ['ok', 'terminal']);
      const second = await world.runs.commit({ runId, owner: 'second' }, aTerminalCommit(runId, 4));
      expect(second.kind).toBe(overtaken ? 'ok' : 'fenced');
      expect((await types(world, runId)).filter((type) => type === 'run.completed')).toHaveLength(1);
    }
  });
}
