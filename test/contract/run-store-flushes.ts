import { expect, test } from 'vitest';
import { aCommit, aTerminalCommit, complete, delta } from './run-fixtures.ts';
import { claimed, seeded, types, type MakeWorld } from './store-world.ts';

export function flushes(makeWorld: MakeWorld): void {
  test('flushes and commits in turn number the log without gaps', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner, seq } = await claimed(world, runId);
    let last = seq;
    for (let round = 1; round <= 5; round++) {
      const flushed = await world.runs.flush(
        { runId, owner },
        last,
        [delta(runId, 'a'), delta(runId, 'b')].slice(0, 1 + (round % 2)),
      );
      const done = await world.runs.commit(
        { runId, owner },
        aCommit('seq' in flushed ? flushed.seq : 0, { events: [complete(runId, `${round}`)] }),
      );
      last = 'seq' in done ? done.seq : 0;
    }
    expect(last).toBe(seq + 5 + 8);
    expect(await types(world, runId)).toHaveLength(last);
  });

  test('the same flush again answers the same and changes nothing, even after later ones', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    const send = () => world.runs.flush({ runId, owner }, 3, [delta(runId, 'a'), delta(runId, 'b')]);
    expect(await send()).toEqual({ kind: 'ok', seq: 5 });
    expect(await send()).toEqual({ kind: 'ok', seq: 5 });
    await world.runs.flush({ runId, owner }, 5, [delta(runId, 'c')]);
    expect(await send()).toEqual({ kind: 'ok', seq: 5 });
    expect(await types(world, runId)).toHaveLength(6);
  });

  test('an empty flush returns the last number of the log', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    expect(await world.runs.flush({ runId, owner }, 3, [])).toEqual({ kind: 'ok', seq: 3 });
  });

  test('many runs flushing at once each get their own events and their own answer', async () => {
    const world = await makeWorld();
    const runIds = await Promise.all(Array.from({ length: 150 }, () => seeded(world)));
    const owners = await Promise.all(runIds.map((runId) => claimed(world, runId)));
    const overtaken = new Set([runIds[0], runIds[70], runIds[149]]);
    await Promise.all(
      runIds.filter((runId) => overtaken.has(runId)).map((runId) => claimed(world, runId, { jobTry: 2 })),
    );
    const replies = await Promise.all(
      runIds.map((runId, index) =>
        world.runs.flush({ runId, owner: owners[index]?.owner ?? '' }, 3, [delta(runId, `of ${runId}`)]),
      ),
    );
    for (const [index, runId] of runIds.entries()) {
      const stale = overtaken.has(runId);
      expect(replies[index]).toEqual(stale ? { kind: 'fenced' } : { kind: 'ok', seq: 4 });
      expect((await world.events(runId))[3]).toMatchObject(
        stale ? { type: 'run.recovered' } : { delta: `of ${runId}` },
      );
    }
  });

  test('subscribers get everything that was added once, in groups as it was added', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const live = await world.live(runId);
    const { owner } = await claimed(world, runId);
    const flush = () => world.runs.flush({ runId, owner }, 3, [delta(runId, 'a'), delta(runId, 'b')]);
    await flush();
    await flush();
    const commit = aTerminalCommit(runId, 5);
    await world.runs.commit({ runId, owner }, commit);
    await world.runs.commit({ runId, owner }, commit);
    await expect.poll(() => live.at(-1)?.at(-1)?.type).toBe('run.completed');
    expect(live.map((group) => group.map((event) => event.sequenceNumber))).toEqual([[2, 3], [4, 5], [6]]);
    expect(live.flat()).toEqual((await world.events(runId)).slice(1));
  });
}
