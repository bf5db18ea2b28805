import { expect, test } from 'vitest';
import type { JournalEntry } from '../../src/shared/contract/journal/journal.ts';
import type { Activity, RunRecord } from '../../src/shared/contract/run.ts';
import { aCommit, agentStarted } from './run-fixtures.ts';
import { claim, claimed, seeded, type MakeWorld, type StoreWorld } from './store-world.ts';

const limits = { crashLimit: 99, blameLimit: 99 } as const;

const call = {
  v: 1,
  t: 'tool_result',
  step: 1,
  index: 0,
  toolCallId: 'c',
  toolName: 'charge',
  content: 'done',
} as const;
const unknown: JournalEntry = { ...call, errorKind: 'outcome_unknown' };
const orchestrationStep: JournalEntry = {
  v: 1,
  t: 'orchestration_step',
  key: 'k',
  value: 1,
  at: '2026-01-02T03:04:05.000Z',
  emitted: 0,
};

/** Claims the run as the next worker and has it write what it does. Answers the record as that worker found it. */
async function lose(world: StoreWorld, runId: string, jobTry: number, activity?: Activity): Promise<RunRecord> {
  const { record, owner, seq } = await claimed(world, runId, { jobTry, ...limits });
  if (activity) await world.runs.commit({ runId, owner }, aCommit(seq, { patch: { activity } }));
  return record;
}

export function blame(makeWorld: MakeWorld): void {
  test('a run is blamed for a lost worker by what it did there', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    await lose(world, runId, 1);
    expect(await lose(world, runId, 2, 'calls')).toMatchObject({ crashes: 1, blame: 0 });
    expect(await lose(world, runId, 3, 'waiting')).toMatchObject({ crashes: 2, blame: 1 });
    expect(await lose(world, runId, 4, 'watched')).toMatchObject({ crashes: 2, blame: 1 });
    expect(await lose(world, runId, 5)).toMatchObject({ crashes: 3, blame: 3, activity: 'idle' });
  });

  test('a run that a living worker lost with its lock is not blamed', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    await lose(world, runId, 1, 'watched');
    const { record, unclean } = await claimed(world, runId, { jobTry: 2, excusedWorker: 'w1', ...limits });
    expect({ record, unclean }).toMatchObject({ unclean: true, record: { crashes: 0, blame: 0 } });
  });

  test('a loss that is excused counts where it came in the calls of a run', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    const excused = { excusedWorker: 'w1', ...limits };
    await lose(world, runId, 1, 'waiting');
    expect((await claimed(world, runId, { jobTry: 2, ...excused })).record).toMatchObject({ blame: 0, excuses: 0 });
    await lose(world, runId, 3, 'calls');
    expect((await claimed(world, runId, { jobTry: 4, ...excused })).record).toMatchObject({ blame: 0, excuses: 1 });
  });

  test.each<[string, readonly JournalEntry[], number]>([
    ['a call that finished', [call], 0],
    ['a step of an orchestration that finished', [orchestrationStep], 0],
    ['what an earlier call came to', [unknown], 1],
    ['how the run begins', [agentStarted('a')], 1],
  ])('%s in the journal decides whether a crash before it counts in a row', async (_, entries, left) => {
    const world = await makeWorld();
    const runId = await seeded(world);
    await lose(world, runId, 1, 'calls');
    const { owner, seq } = await claimed(world, runId, { jobTry: 2, ...limits });
    await world.runs.commit({ runId, owner }, aCommit(seq, { entries }));
    expect(await world.runs.load(runId)).toMatchObject({ crashes: left, blame: 1 });
  });

  test('a release ends the row of crashes, and blame outlives it', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    await lose(world, runId, 1, 'watched');
    const { owner, seq } = await claimed(world, runId, { jobTry: 2, ...limits });
    const patch = { status: 'queued', activity: 'calls' } as const;
    await world.runs.commit({ runId, owner }, aCommit(seq, { release: 'handed_over', patch }));
    expect(await lose(world, runId, 3)).toMatchObject({ crashes: 0, blame: 2 });
  });

  test('a run with too much blame is refused, counted once, and claimed where the limit is higher', async () => {
    const world = await makeWorld();
    const runId = await seeded(world);
    await lose(world, runId, 1, 'watched');
    for (const jobTry of [2, 2, 3])
      expect(await claim(world, runId, { jobTry, crashLimit: 9, blameLimit: 2 })).toEqual({
        kind: 'crashed_too_often',
        crashes: 1,
      });
    const { record } = await claimed(world, runId, { jobTry: 4, crashLimit: 9, blameLimit: 3, activity: 'watched' });
    expect(record).toMatchObject({ crashes: 1, blame: 2, activity: 'watched' });
  });
}
