import { array, assert, asyncProperty, boolean, constantFrom, integer, record, type Arbitrary } from 'fast-check';
import { expect, test } from 'vitest';
import { isTerminal } from '../../src/shared/contract/event.ts';
import { newNonce } from '../../src/shared/base/ids.ts';
import type { Commit, CommitReply } from '../../src/shared/state/run/commit.ts';
import {
  aClaim,
  aCommit,
  aTerminalCommit,
  complete,
  delta,
  agentStarted,
  opening,
  recovering,
} from './run-fixtures.ts';
import { seeded, type MakeWorld, type StoreWorld } from './store-world.ts';
import { rounds } from '../support/lane.ts';

/** One thing a worker does, sent once or twice. A crash is a worker that forgets what it claimed. */
const step = record({
  worker: integer({ min: 0, max: 2 }),
  does: constantFrom('claim', 'commit', 'commit', 'flush', 'flush', 'hand over', 'end', 'crash'),
  count: integer({ min: 0, max: 3 }),
  twice: boolean(),
});
type Step = typeof step extends Arbitrary<infer T> ? T : never;

/**
 * Three workers do anything in any order, each relying on its last claim until it is refused. The model
 * is one line: only the last claim that was not released may write.
 */
export function interleavings(makeWorld: MakeWorld): void {
  test('of three owners keeps the log whole, the end last and the journal the owner’s', async () => {
    const world = await makeWorld();
    const property = asyncProperty(array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
      const play = new Play(world, await seeded(world));
      for (const one of steps) await play.take(one);
      expect(play.seen).toEqual(play.expected);
      const events = await world.events(play.runId);
      expect(events.map((event) => event.sequenceNumber)).toEqual(events.map((_, index) => index + 1));
      expect(events.slice(0, -1).some(isTerminal)).toBe(false);
    });
    await assert(property, { numRuns: rounds({ fast: 20, all: 60 }) });
  });
}

interface Claimed {
  readonly owner: string;
  readonly seq: number;
}

/** What happened, beside what the model says should have. */
class Play {
  readonly seen: unknown[] = [];
  readonly expected: unknown[] = [];
  readonly runId: string;
  readonly #world: StoreWorld;
  readonly #workers: (Claimed | undefined)[] = [];
  readonly #journal: string[] = [];
  #mayWrite: string | undefined;
  #ended = false;
  #jobTry = 0;

  constructor(world: StoreWorld, runId: string) {
    this.#world = world;
    this.runId = runId;
  }

  async take({ worker, does, count, twice }: Step): Promise<void> {
    const claimed = this.#workers[worker];
    if (does === 'claim') this.#workers[worker] = await this.#claim(worker, twice);
    else if (does === 'crash') this.#workers[worker] = undefined;
    else if (claimed) this.#workers[worker] = await this.#write(claimed, does, count, twice);
  }

  async #claim(worker: number, twice: boolean): Promise<Claimed | undefined> {
    const request = aClaim(this.runId, { jobTry: ++this.#jobTry, crashLimit: 1_000, worker: `w${worker}` });
    const answer = await this.#send(twice, () =>
      this.#world.runs.claim(request, opening(this.runId), recovering(this.runId)),
    );
    this.#check(answer.kind, this.#ended ? 'terminal' : 'claimed');
    if (answer.kind !== 'claimed') return undefined;
    this.#check(answer.entries, this.#journal.map(agentStarted));
    this.#mayWrite = request.owner;
    return { owner: request.owner, seq: answer.seq };
  }

  async #write(claimed: Claimed, does: Exclude<Step['does'], 'claim' | 'crash'>, count: number, twice: boolean) {
    const { runId } = this;
    const mine = claimed.owner === this.#mayWrite;
    const marks = Array.from({ length: count }, () => newNonce());
    const ownership = { runId, owner: claimed.owner };
    let reply: CommitReply;
    if (does === 'flush') {
      const events = [...marks, 'at least one'].map((mark) => delta(runId, mark));
      reply = await this.#send(twice, () => this.#world.runs.flush(ownership, claimed.seq, events));
    } else {
      const commit = commitOf(runId, claimed.seq, does, marks);
      reply = await this.#send(twice, () => this.#world.runs.commit(ownership, commit));
      if (mine) this.#journal.push(...marks);
      if (mine && does !== 'commit') this.#mayWrite = undefined;
      if (mine && does === 'end') this.#ended = true;
    }
    this.#check(reply.kind, mine ? 'ok' : 'fenced');
    if (reply.kind === 'fenced' || does === 'hand over' || does === 'end') return undefined;
    return { owner: claimed.owner, seq: reply.seq };
  }

  async #send<T>(twice: boolean, ask: () => Promise<T>): Promise<T> {
    const answer = await ask();
    if (twice) this.#check(await ask(), answer);
    return answer;
  }

  #check(seen: unknown, expected: unknown): void {
    this.seen.push(seen);
    this.expected.push(expected);
  }
}

function commitOf(runId: string, seq: number, does: 'commit' | 'hand over' | 'end', marks: readonly string[]): Commit {
  const entries = marks.map(agentStarted);
  if (does === 'end') return aTerminalCommit(runId, seq, { entries });
  const events = marks.slice(1).map((mark) => complete(runId, mark));
  if (does === 'commit') return aCommit(seq, { entries, events });
  return aCommit(seq, { entries, events, release: 'handed_over', patch: { status: 'queued' } });
}
