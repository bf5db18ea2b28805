import { expect, test } from 'vitest';
import type { CancelRequest } from '../../src/shared/contract/control.ts';
import {
  aClaim,
  aCommit,
  aRecord,
  aTerminalCommit,
  complete,
  delta,
  agentStarted,
  opening,
  recovering,
} from './run-fixtures.ts';
import { claim, claimed, seeded, types, type MakeWorld } from './store-world.ts';

export function claims(makeWorld: MakeWorld): void {
  test('the first claim runs the run, keeps its worker and adds the opening events', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const answer = await claimed(world, runId, { worker: 'w7', queue: 'bulk' });
    expect(answer).toMatchObject({ first: true, unclean: false, seq: 3, entries: [] });
    expect(answer.previousWorker).toBeUndefined();
    expect(answer.record).toMatchObject({
      runId,
      status: 'running',
      epoch: 1,
      crashes: 0,
      worker: 'w7',
      queue: 'bulk',
      lastSequence: 3,
    });
    expect(answer.record.startedAt).toEqual(expect.any(String));
    expect(await world.runs.load(runId)).toEqual(answer.record);
    expect(await types(world, runId)).toEqual(['run.queued', 'execution.started', 'run.started']);
  });

  test('a later claim gets the journal, counts the crash, names the worker before and adds the recovering events', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const first = await claimed(world, runId, { worker: 'w1' });
    await world.runs.commit(
      { runId, owner: first.owner },
      aCommit(3, { entries: [agentStarted('a'), agentStarted('b')] }),
    );
    const second = await claimed(world, runId, { worker: 'w2', jobTry: 2 });
    expect(second).toMatchObject({
      first: false,
      unclean: true,
      previousWorker: 'w1',
      seq: 4,
      entries: [agentStarted('a'), agentStarted('b')],
    });
    expect(second.record).toMatchObject({ epoch: 2, crashes: 1, startedAt: first.record.startedAt });
    expect(await types(world, runId)).toEqual(['run.queued', 'execution.started', 'run.started', 'run.recovered']);
  });

  test('a run that was released counts no crash', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    await world.runs.commit({ runId, owner }, aCommit(3, { release: 'handed_over', patch: { status: 'queued' } }));
    expect(await claimed(world, runId, { jobTry: 2, crashLimit: 1 })).toMatchObject({
      first: false,
      unclean: false,
      record: { crashes: 0 },
    });
  });

  test('the same owner asking again gets the same answer and changes nothing', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    await claimed(world, runId, { worker: 'w1' });
    const request = aClaim(runId, { jobTry: 2, worker: 'w2' });
    const ask = () => world.runs.claim(request, opening(runId), recovering(runId));
    const answer = await ask();
    const log = await world.events(runId);
    expect(await ask()).toEqual(answer);
    expect(await world.events(runId)).toEqual(log);
  });

  test('numbering continues after flushes that are not in the record', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    await world.runs.flush({ runId, owner }, 3, [delta(runId, 'a'), delta(runId, 'b')]);
    expect(await claimed(world, runId, { jobTry: 2 })).toMatchObject({ seq: 6 });
    expect(await types(world, runId)).toHaveLength(6);
  });

  test('an unknown run is gone', async () => {
    const world = await makeWorld();
    expect(await claim(world, aRecord().runId)).toEqual({ kind: 'gone' });
  });

  test('a run that has ended answers its status', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    await world.runs.commit({ runId, owner }, aTerminalCommit(runId, 3));
    expect(await claim(world, runId, { jobTry: 2, segment: 1 })).toEqual({ kind: 'terminal', status: 'completed' });
  });

  test('a delivery of an earlier segment is stale', async () => {
    const world = await makeWorld();
    const runId = await seeded(world, { segment: 2 });
    expect(await claim(world, runId, { segment: 1, jobTry: 9 })).toEqual({ kind: 'stale' });
    expect((await claim(world, runId, { segment: 2, jobTry: 1 })).kind).toBe('claimed');
  });

  test('a delivery that a later one of the same segment overtook is stale', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId, { jobTry: 3 });
    expect(await claim(world, runId, { jobTry: 2 })).toEqual({ kind: 'stale' });
    expect(await world.runs.commit({ runId, owner }, aCommit(3))).toEqual({ kind: 'ok', seq: 3 });
  });

  test('tries count from 1 in a new segment', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    await claimed(world, runId, { jobTry: 3 });
    expect((await claim(world, runId, { segment: 1, jobTry: 1 })).kind).toBe('claimed');
    expect(await claim(world, runId, { segment: 0, jobTry: 4 })).toEqual({ kind: 'stale' });
  });

  test('the crash that reaches the limit is counted once, however often it is asked about', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    await claimed(world, runId, { jobTry: 1 });
    await claimed(world, runId, { jobTry: 2 });
    const log = await world.events(runId);
    for (const jobTry of [3, 3, 4]) {
      expect(await claim(world, runId, { jobTry })).toEqual({ kind: 'crashed_too_often', crashes: 2 });
    }
    expect(await world.events(runId)).toEqual(log);
    expect(await claimed(world, runId, { jobTry: 5, crashLimit: 4 })).toMatchObject({
      unclean: false,
      record: { crashes: 2 },
    });
  });

  test('a suspended run is not continued by a second delivery of the job that suspended it', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    await world.runs.commit({ runId, owner }, aCommit(3, { release: 'suspended', patch: { status: 'suspended' } }));
    const log = await world.events(runId);
    expect(await claim(world, runId, { jobTry: 2 })).toEqual({ kind: 'stale' });
    expect(await world.events(runId)).toEqual(log);
  });

  test('the last owner of a run that crashed too often can no longer write', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const { owner } = await claimed(world, runId);
    expect(await claim(world, runId, { jobTry: 2, crashLimit: 1 })).toEqual({ kind: 'crashed_too_often', crashes: 1 });
    expect(await world.runs.commit({ runId, owner }, aCommit(3))).toEqual({ kind: 'fenced' });
  });

  test('a claim returns a cancel request', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const cancel: CancelRequest = { drain: true, onPendingApprovals: 'hold', reason: 'too slow' };
    await world.cancel(runId, cancel);
    expect(await claimed(world, runId)).toMatchObject({ cancel });
  });

  test('a claim without events is refused, because it would not fence anybody', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    await expect(world.runs.claim(aClaim(runId), [], recovering(runId))).rejects.toMatchObject({ code: 'internal' });
    await expect(world.runs.claim(aClaim(runId), opening(runId), [])).rejects.toMatchObject({ code: 'internal' });
  });

  test('two workers that claim the same delivery at once get one owner who can write', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const both = await Promise.all([claimed(world, runId, { worker: 'w1' }), claimed(world, runId, { worker: 'w2' })]);
    const replies = await Promise.all(
      both.map(({ owner, seq }) =>
        world.runs.commit({ runId, owner }, aCommit(seq, { events: [complete(runId, owner)] })),
      ),
    );
    expect(replies.map((reply) => reply.kind).sort()).toEqual(['fenced', 'ok']);
    expect((await types(world, runId)).filter((type) => type === 'text.complete')).toHaveLength(1);
  });
}
