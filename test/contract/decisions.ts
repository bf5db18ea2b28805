import { describe, expect, test } from 'vitest';
import { type CallDecision, type DecisionInput, decisionRequest } from '../../src/shared/contract/control.ts';
import type { Decide, DecideOutcome } from '../../src/shared/state/run/control/decide.ts';
import {
  callVerdicts,
  decisionViews,
  refusalError,
  verdictsSummary,
  type DecisionRecord,
} from '../../src/shared/contract/decisions.ts';
import type { PendingItem } from '../../src/shared/contract/event.ts';
import type { JournalEntry } from '../../src/shared/contract/journal/journal.ts';
import { aCommit, aTerminalCommit } from './run-fixtures.ts';
import { claimed, seeded, types } from './store-world.ts';
import type { WaitsWorld } from './waits.ts';

export interface DecisionsWorld extends WaitsWorld {
  decide(runId: string, decide: Decide): Promise<DecideOutcome>;
  /** All that is known about decisions of the run. */
  decisions(runId: string): Promise<readonly DecisionRecord[]>;
}

const at = '2026-01-02T03:04:05.000Z';
const hour = 3_600_000;

export function ask(id: string, changes: Partial<PendingItem> = {}): PendingItem {
  return { kind: 'approval', id, toolName: 'transfer', requestedAt: at, args: { to: [], empty: {} }, ...changes };
}

/** A run that waits for people at segment 0, with event 3 as its last. */
async function asking(world: DecisionsWorld, ...pending: PendingItem[]): Promise<string> {
  const runId = await seeded(world);
  await suspend(world, runId, 0, pending);
  return runId;
}

async function suspend(world: DecisionsWorld, runId: string, segment: number, pending: PendingItem[]): Promise<void> {
  const { owner, seq } = await claimed(world, runId, { segment });
  const entries: JournalEntry[] = [{ v: 1, t: 'suspended', seq: segment + 1, reason: 'approval', at }];
  const patch = { status: 'suspended', pending } as const;
  await world.runs.commit({ runId, owner }, aCommit(seq, { entries, patch, release: 'suspended' }));
}

/** One person's decision, as the producer hands it on. */
export function decisionBy(by: string | undefined, input: DecisionInput, atMs = Date.now()): Decide {
  const request = decisionRequest.parse(input);
  const time = new Date(atMs).toISOString();
  const verdicts = callVerdicts(request, by, time);
  const budget = typeof request.budget === 'string' ? request.budget : undefined;
  const entry = { v: 1, t: 'decided', at: time, ...(budget && { budget }) } as const;
  return { verdicts, by, summary: verdictsSummary(verdicts), entry, atMs };
}

const grant = (toolCallId: string, updatedArgs?: Record<string, unknown>) => ({
  approvals: [{ toolCallId, granted: true, ...(updatedArgs && { updatedArgs }) }],
});
const deny = (toolCallId: string) => ({ approvals: [{ toolCallId, granted: false, reason: 'no' }] });
const answer = (toolCallId: string, text: string) => ({ answers: [{ toolCallId, answer: text }] });

/** What the journal has about decisions, entry by entry. */
async function journalled(world: DecisionsWorld, runId: string, segment: number) {
  const { entries, owner, seq, record } = await claimed(world, runId, { segment });
  const decided = entries.filter((entry) => entry.t === 'decided');
  return { owner, seq, record, entries, decisions: decided.map(({ decisions = [] }) => decisions) };
}

const ids = (decisions: readonly CallDecision[]) => decisions.map(({ id }) => id);
const kinds = (outcomes: readonly DecideOutcome[]) => outcomes.map(({ kind }) => kind);

/** What every store of decisions promises. */
export function decisionsContract(name: string, makeWorld: () => Promise<DecisionsWorld>): void {
  const refusal = async (world: DecisionsWorld, runId: string, decide: Decide) => {
    const outcome = await world.decide(runId, decide);
    if (outcome.kind !== 'refused') return outcome.kind;
    const { code, message } = refusalError(runId, outcome.refusal);
    return `${code}: ${message}`;
  };

  describe(`${name} as a store of decisions`, () => {
    test('a granted call ends the wait, and the journal has the decision with who made it', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1'));
      const outcome = await world.decide(
        runId,
        decisionBy('kim', grant('c1', { amount: 5, to: [], nested: { none: [] } })),
      );
      expect(outcome).toEqual({ kind: 'resumed', resumed: { queue: 'runs', segment: 1, kind: 'agent.turn' } });
      expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', segment: 1, pending: [], resumes: 1 });
      expect((await types(world, runId)).at(-1)).toBe('run.resumed');
      const { decisions, record } = await journalled(world, runId, 1);
      const updatedArgs = { amount: 5, to: [], nested: { none: [] } };
      const decision = { kind: 'approval', id: 'c1', granted: true, updatedArgs, by: ['kim'], at: expect.any(String) };
      expect(decisions).toEqual([[decision]]);
      expect(record).toMatchObject({ status: 'running', epoch: 2 });
      expect(await world.waits.hasDecisions(runId)).toBe(false);
    });

    test('a denial and an answer end the wait as well', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1'), ask('q1', { kind: 'user_input', reason: 'Which one?' }));
      await world.decide(runId, decisionBy(undefined, { ...deny('c1'), ...answer('q1', 'the blue "one" \\ [1]') }));
      expect((await journalled(world, runId, 1)).decisions).toEqual([
        [
          { kind: 'approval', id: 'c1', granted: false, reason: 'no', by: [], at: expect.any(String) },
          { kind: 'answer', id: 'q1', answer: 'the blue "one" \\ [1]', by: [], at: expect.any(String) },
        ],
      ]);
    });

    test('what is decided of several calls ends the wait, and the others stay pending as they were', async () => {
      const world = await makeWorld();
      const odd = ask('a,]"}\\', { args: { text: 'tricky: ]}],"\\', list: [[], {}], deep: { a: [1, { b: [] }] } } });
      const rest = [odd, ask('c3', { kind: 'unknown_outcome', reason: 'quote " and \\ and ] end' })];
      const runId = await asking(world, ask('c1'), ...rest, ask('c4'));
      await world.decide(runId, decisionBy('kim', { approvals: [...grant('c1').approvals, ...deny('c4').approvals] }));
      expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', pending: rest });
      expect((await journalled(world, runId, 1)).decisions.map(ids)).toEqual([['c1', 'c4']]);
    });

    test('of twenty people who agree one ends the wait, and all are accepted', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1'));
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, i) => world.decide(runId, decisionBy(`p${i}`, grant('c1')))),
      );
      expect(kinds(outcomes).sort()).toEqual([...Array<string>(19).fill('recorded'), 'resumed']);
      expect((await types(world, runId)).filter((type) => type === 'run.resumed')).toHaveLength(1);
      expect((await journalled(world, runId, 1)).decisions.map(ids)).toEqual([['c1']]);
      expect(await world.waits.hasDecisions(runId)).toBe(false);
    });

    test('of two people who disagree one wins, and the other learns who it was', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1'));
      const refusals = await Promise.all([
        refusal(world, runId, decisionBy('kim', grant('c1'))),
        refusal(world, runId, decisionBy('ada', deny('c1'))),
      ]);
      expect(refusals).toContain('resumed');
      const vote = refusals.find((each) => each !== 'resumed');
      expect(vote).toMatch(/^approval_not_pending: call c1 of run \w+ was (approved by kim|denied by ada) at /);
      expect((await journalled(world, runId, 1)).decisions.flat()).toHaveLength(1);
    });

    test('other arguments are another decision', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1'));
      await world.decide(runId, decisionBy('kim', grant('c1', { amount: 1, to: 'x' })));
      expect(await refusal(world, runId, decisionBy('kim', grant('c1', { to: 'x', amount: 1 })))).toBe('recorded');
      const other = await refusal(world, runId, decisionBy('kim', grant('c1', { amount: 2, to: 'x' })));
      expect(other).toMatch(/was approved with other arguments by kim/);
      expect(await refusal(world, runId, decisionBy('kim', grant('c1')))).toMatch(/^approval_not_pending/);
    });

    test('a call that no person was asked about is refused, with the whole request', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1'));
      const both = decisionBy('kim', { approvals: [...grant('c1').approvals, ...grant('c9').approvals] });
      expect(await refusal(world, runId, both)).toMatch(/^approval_not_pending: .*call c9/);
      expect(await world.runs.load(runId)).toMatchObject({ status: 'suspended', pending: [{ id: 'c1' }] });
      expect(await world.decisions(runId)).toEqual([]);
      expect(await world.waits.hasDecisions(runId)).toBe(false);
    });

    test('a decision comes too late when its time has passed, and that counts', async () => {
      const world = await makeWorld();
      const expiresAt = new Date(Date.now() - 1).toISOString();
      const runId = await asking(world, ask('c1', { expiresAt }), ask('c2'));
      const late = await refusal(world, runId, decisionBy('kim', grant('c1')));
      expect(late).toMatch(/^approval_expired: .*c1.* was over at /);
      await world.decide(runId, decisionBy('kim', grant('c2')));
      expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', pending: [] });
      expect(await refusal(world, runId, decisionBy('kim', grant('c1')))).toMatch(/^approval_expired/);
      const views = decisionViews(await world.decisions(runId));
      expect(views).toContainEqual(
        expect.objectContaining({ toolCallId: 'c1', granted: false, reason: 'expired', by: [] }),
      );
    });

    test('a run that is resumed by its timer keeps the calls without a decision', async () => {
      const world = await makeWorld();
      const soon = new Date(Date.now() - 1).toISOString();
      const later = ask('c2', { expiresAt: new Date(Date.now() + hour).toISOString() });
      const runId = await asking(world, ask('c1', { expiresAt: soon }), later);
      await world.waits.resume(runId, { summary: 'its time has come' });
      expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', pending: [later] });
      expect(kinds([await world.decide(runId, decisionBy('kim', grant('c2')))])).toEqual(['recorded']);
      expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', segment: 1, pending: [] });
      expect(await world.waits.hasDecisions(runId)).toBe(true);
    });

    test('a decision that comes while the run is running is found when it is released, and its next resumption has it', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1'), ask('c2'));
      await world.decide(runId, decisionBy('kim', grant('c1')));
      const { owner, seq } = await journalled(world, runId, 1);
      expect(await world.waits.hasDecisions(runId)).toBe(false);
      expect(kinds([await world.decide(runId, decisionBy('ada', deny('c2')))])).toEqual(['recorded']);
      expect(await world.waits.hasDecisions(runId)).toBe(true);
      expect(await world.runs.load(runId)).toMatchObject({ status: 'running', pending: [] });

      // The worker does not know of it yet.
      const patch = { status: 'suspended', pending: [ask('c2')] } as const;
      await world.runs.commit({ runId, owner }, aCommit(seq, { patch, release: 'suspended' }));
      expect(await refusal(world, runId, decisionBy('eve', grant('c2')))).toMatch(/was denied by ada/);
      expect(await world.waits.resume(runId, { summary: 'a person decided' })).toMatchObject({ segment: 2 });
      const next = await journalled(world, runId, 2);
      expect(next.decisions.map(ids)).toEqual([['c1'], ['c2']]);
      expect(next.record.pending).toEqual([]);
      expect(await world.waits.hasDecisions(runId)).toBe(false);
    });

    test('partial decisions of two people at once leave nothing pending and nothing twice', async () => {
      const world = await makeWorld();
      const calls = Array.from({ length: 6 }, (_, i) => `c${i}`);
      const runId = await asking(world, ...calls.map((id) => ask(id)));
      const outcomes = await Promise.all(calls.map((id, i) => world.decide(runId, decisionBy(`p${i}`, grant(id)))));
      expect(kinds(outcomes).filter((kind) => kind === 'resumed')).toHaveLength(1);
      expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', pending: [] });
      const first = await journalled(world, runId, 1);
      const patch = { status: 'suspended', pending: calls.map((id) => ask(id)) } as const;
      await world.runs.commit({ runId, owner: first.owner }, aCommit(first.seq, { patch, release: 'suspended' }));
      await world.waits.resume(runId, { summary: 'a person decided' });
      const { decisions } = await journalled(world, runId, 2);
      expect(ids(decisions.flat()).sort()).toEqual(calls);
    });

    test('a call that needs two people goes on when two different ones grant the same', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1', { approvers: 2 }));
      expect(await refusal(world, runId, decisionBy(undefined, grant('c1')))).toMatch(
        /^validation: .*2 different people.*by/,
      );
      expect(await refusal(world, runId, decisionBy('kim', grant('c1')))).toBe('recorded');
      expect(await refusal(world, runId, decisionBy('kim', grant('c1')))).toBe('recorded');
      expect(await world.runs.load(runId)).toMatchObject({ status: 'suspended', pending: [{ id: 'c1' }] });
      expect(await refusal(world, runId, decisionBy('ada', grant('c1', { amount: 1 })))).toBe('recorded');
      expect(await world.runs.load(runId)).toMatchObject({ status: 'suspended' });
      expect(await refusal(world, runId, decisionBy('kim', grant('c1', { amount: 1 })))).toBe('resumed');
      const { decisions } = await journalled(world, runId, 1);
      expect(decisions.flat()).toMatchObject([{ id: 'c1', updatedArgs: { amount: 1 }, by: ['ada', 'kim'] }]);
      const [record] = await world.decisions(runId);
      expect(record?.votes.map(({ by }) => by)).toEqual(['kim', 'ada', 'kim']);
      expect(JSON.parse(record?.votes[1]?.decision ?? '')).toMatchObject({ updatedArgs: { amount: 1 } });
      expect(decisionViews([record as DecisionRecord])).toEqual([
        {
          toolCallId: 'c1',
          toolName: 'transfer',
          kind: 'approval',
          granted: true,
          edited: true,
          by: ['ada', 'kim'],
          at: expect.any(String),
          votes: [
            { by: 'kim', granted: true, at: expect.any(String) },
            { by: 'ada', granted: true, edited: true, at: expect.any(String) },
            { by: 'kim', granted: true, edited: true, at: expect.any(String) },
          ],
        },
      ]);
    });

    test('a person who returns to their first vote is named once', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1', { approvers: 2 }));
      for (const vote of [grant('c1'), grant('c1', { amount: 1 }), grant('c1')])
        await world.decide(runId, decisionBy('kim', vote));
      expect(await refusal(world, runId, decisionBy('ada', grant('c1')))).toBe('resumed');
      expect((await journalled(world, runId, 1)).decisions.flat()).toMatchObject([{ by: ['kim', 'ada'] }]);
    });

    test('one denial decides where several people are asked', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1', { approvers: 3 }));
      await world.decide(runId, decisionBy('kim', grant('c1')));
      expect(await refusal(world, runId, decisionBy('ada', deny('c1')))).toBe('resumed');
      expect((await journalled(world, runId, 1)).decisions.flat()).toMatchObject([{ granted: false, by: ['ada'] }]);
      expect(await refusal(world, runId, decisionBy('eve', grant('c1')))).toMatch(/was denied by ada/);
    });

    test('people who change their minds for ever are stopped, and may still deny', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1', { approvers: 2 }));
      for (let i = 0; i < 50; i++) await world.decide(runId, decisionBy('kim', grant('c1', { i })));
      expect(await refusal(world, runId, decisionBy('kim', grant('c1', { i: 50 })))).toMatch(/^validation: .*50 votes/);
      expect(await refusal(world, runId, decisionBy('kim', deny('c1')))).toBe('resumed');
    });

    test.each([
      ['a question', { kind: 'user_input' }, grant('c1'), /^validation: .*is a question: answer it/],
      ['a question', { kind: 'user_input' }, deny('c1'), /^resumed$/],
      ['a question', { kind: 'user_input' }, answer('c1', ''), /^resumed$/],
      ['a call', {}, answer('c1', 'done'), /^validation: .*only deferred calls take an answer/],
      ['a deferred call', { mode: 'deferred' }, answer('c1', 'done'), /^resumed$/],
      ['a deferred call', { mode: 'deferred' }, grant('c1'), /^resumed$/],
      ['a call of unknown outcome', { kind: 'unknown_outcome' }, answer('c1', 'it happened'), /^resumed$/],
      ['a call of unknown outcome', { kind: 'unknown_outcome' }, grant('c1'), /^resumed$/],
      ['money', { kind: 'budget' }, grant('c1'), /^approval_not_pending/],
      ['its turn', { kind: 'provider_limit' }, grant('c1'), /^approval_not_pending/],
    ] as const)('a run that waits for %s (%o) takes what suits it', async (_, changes, vote, expected) => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1', changes));
      expect(await refusal(world, runId, decisionBy('kim', vote))).toMatch(expected);
    });

    test('an answer needs as many people as a grant', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1', { approvers: 2, mode: 'deferred' }));
      expect(await refusal(world, runId, decisionBy('kim', answer('c1', 'done')))).toBe('recorded');
      expect(await refusal(world, runId, decisionBy('ada', answer('c1', 'not done')))).toBe('recorded');
      expect(await refusal(world, runId, decisionBy('ada', answer('c1', 'done')))).toBe('resumed');
    });

    test('a call that has the id of an earlier one is another call', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1'));
      await world.decide(runId, decisionBy('kim', grant('c1')));
      await suspend(world, runId, 1, [ask('c1', { toolName: 'delete' })]);
      expect(await refusal(world, runId, decisionBy('kim', deny('c1')))).toBe('resumed');
      expect(
        (await journalled(world, runId, 2)).decisions.flat().map((d) => d.kind === 'approval' && d.granted),
      ).toEqual([true, false]);
      const views = decisionViews(await world.decisions(runId));
      expect(views.map(({ toolName = '' }) => toolName)).toEqual(expect.arrayContaining(['delete', 'transfer']));
      expect(views).toHaveLength(2);
    });

    test('a vote about an earlier call does not count for a later one of the same id', async () => {
      const world = await makeWorld();
      const until = (ms: number) => new Date(Date.now() + ms).toISOString();
      const runId = await asking(world, ask('c1', { approvers: 2, expiresAt: until(hour) }), ask('c2'));
      await world.decide(runId, decisionBy('kim', grant('c1')));
      await world.decide(runId, decisionBy('kim', grant('c2')));
      await suspend(world, runId, 1, [ask('c1', { approvers: 2, expiresAt: until(2 * hour) })]);
      expect(await refusal(world, runId, decisionBy('ada', grant('c1')))).toBe('recorded');
      expect(await refusal(world, runId, decisionBy('eve', grant('c1')))).toBe('resumed');
      expect((await journalled(world, runId, 2)).decisions.flat().at(-1)).toMatchObject({ by: ['ada', 'eve'] });
    });

    test('votes outlast the segment that runs on what was decided meanwhile', async () => {
      const world = await makeWorld();
      const expiresAt = new Date(Date.now() + hour).toISOString();
      const double = ask('c1', { approvers: 2, expiresAt });
      const runId = await asking(world, double, ask('c2'));
      await world.decide(runId, decisionBy('kim', grant('c1')));
      await world.decide(runId, decisionBy('kim', grant('c2')));
      await suspend(world, runId, 1, [{ ...double, requestedAt: new Date().toISOString() }]);
      expect(await refusal(world, runId, decisionBy('ada', grant('c1')))).toBe('resumed');
    });

    test('a verdict about money and decisions about calls end a wait together', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1'), { kind: 'budget', id: 'run:x', requestedAt: at }, ask('c2'));
      await world.decide(runId, decisionBy('kim', { ...grant('c1'), budget: 'approve' }));
      expect(await world.runs.load(runId)).toMatchObject({ status: 'queued', pending: [{ id: 'c2' }] });
      const { entries } = await journalled(world, runId, 1);
      const last = entries.at(-1);
      expect(last).toMatchObject({ t: 'decided', budget: 'approve', decisions: [{ id: 'c1' }] });
    });

    test('a verdict about money is refused where no run waits for it, with all that came along', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1'));
      const both = decisionBy('kim', { ...grant('c1'), budget: 'approve' });
      expect(await refusal(world, runId, both)).toMatch(/^approval_not_pending: .*about money/);
      expect(await world.runs.load(runId)).toMatchObject({ status: 'suspended', pending: [{ id: 'c1' }] });
    });

    test('a verdict about money meets only the wait that it is about', async () => {
      const world = await makeWorld();
      const money: PendingItem = { kind: 'budget', id: 'run:x', requestedAt: at };
      const runId = await asking(world, money);
      const approve = decisionBy('kim', { budget: 'approve' });
      expect(await refusal(world, runId, { ...approve, segment: 1 })).toMatch(/^approval_not_pending: .*about money/);
      expect(await refusal(world, runId, { ...approve, segment: 0 })).toBe('resumed');
      const queued = await seeded(world, { pending: [money] });
      expect(await refusal(world, queued, approve)).toMatch(/^approval_not_pending: .*about money/);
    });

    test('nothing is decided about a run that has ended, or that is not there', async () => {
      const world = await makeWorld();
      const runId = await asking(world, ask('c1'), ask('c2'));
      await world.decide(runId, decisionBy('kim', grant('c1')));
      const { owner, seq } = await journalled(world, runId, 1);
      await world.runs.commit({ runId, owner }, aTerminalCommit(runId, seq));
      const log = await world.events(runId);
      expect(await refusal(world, runId, decisionBy('kim', grant('c2')))).toBe('terminal');
      expect(await world.events(runId)).toEqual(log);
      expect(await refusal(world, '01K9Z5N3T8R6V2X4B7C1D0E9FG', decisionBy('kim', grant('c2')))).toBe('gone');
    });

    test('whatever the order of decisions, work and time, each call is decided once and none is lost', async () => {
      for (let seed = 1; seed <= 15; seed++) {
        const decided = await anyOrder(await makeWorld(), random(seed));
        expect([seed, decided.toSorted()]).toEqual([seed, ['a', 'b', 'c', 'd']]);
      }
    });
  });
}

/** Numbers below a bound, the same for the same seed. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
}

/**
 * People decide in any order while the worker claims the run, releases it, and looks for decisions that it does not know.
 * Answers what its journal has in the end.
 */
async function anyOrder(world: DecisionsWorld, pick: (below: number) => number): Promise<string[]> {
  const calls = ['a', 'b', 'c', 'd'];
  const item = (id: string) => ask(id, { approvers: id === 'a' ? 2 : 1 });
  const runId = await asking(world, ...calls.map(item));
  const wishes = ['kim', 'ada', 'eve'].flatMap((by) => calls.map((id) => [by, id] as const));
  const known = new Set<string>();
  const rounds: string[][] = [];
  for (let round = 0; round < 500 && known.size < calls.length; round++) {
    const burst = Array.from({ length: 1 + pick(3) }, () => wishes[pick(wishes.length)] ?? wishes[0]);
    await Promise.all(
      burst.map(async (wish) => wish && (await world.decide(runId, decisionBy(wish[0], grant(wish[1]))))),
    );
    const record = await world.runs.load(runId);
    if (record?.status !== 'queued') continue;
    const { owner, seq, decisions } = await journalled(world, runId, record.segment);
    rounds.splice(0, rounds.length, ...decisions.map(ids));
    for (const id of decisions.flat().map((decision) => decision.id)) known.add(id);
    if (pick(2) === 0) await Promise.all(calls.map((id) => world.decide(runId, decisionBy('eve', grant(id)))));
    const pending = calls.filter((id) => !known.has(id)).map(item);
    if (pending.length === 0) break;
    const patch = { status: 'suspended', pending } as const;
    await world.runs.commit({ runId, owner }, aCommit(seq, { patch, release: 'suspended' }));
    if (await world.waits.hasDecisions(runId)) await world.waits.resume(runId, { summary: 'a person decided' });
  }
  return rounds.flat();
}
