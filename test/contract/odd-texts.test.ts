import { expect, test } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import { notifyParent } from '../../src/shared/state/run/children/children.ts';
import type { PendingItem } from '../../src/shared/contract/event.ts';
import { RunError } from '../../src/shared/base/errors.ts';
import type { JournalEntry } from '../../src/shared/contract/journal/journal.ts';
import { storedJson } from '../../src/shared/base/json.ts';
import { silentLog } from '../../src/shared/base/log.ts';
import { isTerminalStatus, lineage } from '../../src/shared/contract/run.ts';
import { redisRuns } from '../../src/shared/state/run/run-store.ts';
import { redisWaits } from '../../src/shared/state/run/waits/waits.ts';
import { clientWorld } from '../producer/cli/options/client.ts';
import { rounds } from '../support/lane.ts';
import { deep, oddRecord, oddText, oddValue } from '../support/odd.ts';
import { seeded } from '../support/seeded.ts';
import { aCommit, aRecord, aTerminalCommit } from './run-fixtures.ts';
import { claim, claimed } from './store-world.ts';
import { runKeySpace } from '../support/run-key-space.ts';

type Random = ReturnType<typeof seeded>;
type Odd = Awaited<ReturnType<typeof oddWorld>>;

const reason = (random: Random) => oddText(random).slice(0, 500);

const far = '2099-01-01T00:00:00.000Z';
const past = '2026-01-01T00:00:00.000Z';

/** The client of a producer, and the stores of a worker, in one Redis. */
async function oddWorld() {
  const world = await clientWorld();
  const { redis, keys } = world;
  const space = runKeySpace(redis, keys);
  const options = { ...space, clock: systemClock, log: silentLog };
  return { ...world, space, runs: redisRuns(options), waits: redisWaits(options) };
}

function pick<T>(random: Random, ...choices: readonly T[]): T {
  return choices[random.below(choices.length)] as T;
}

/** What a run asks people, in whatever words a model and its tools have found. */
function anItem(random: Random, expiresAt: string): PendingItem {
  const id = oddText(random) || 'call_1';
  const base = { id, toolName: oddText(random), args: oddRecord(random), requestedAt: past, reason: oddText(random) };
  const kind = pick(random, 'approval', 'user_input', 'unknown_outcome', 'child', 'budget', 'retry' as const);
  if (kind === 'child') return { ...base, kind, id: 'r'.repeat(26) };
  const approvers = random.below(5) === 0 ? { approvers: 2 } : {};
  return { ...base, kind, expiresAt, ...approvers };
}

async function suspend(world: Odd, runId: string, pending: PendingItem[], random: Random): Promise<void> {
  const { owner, seq } = await claimed(world, runId);
  const text = oddText(random);
  const entries: JournalEntry[] = [
    { v: 1, t: 'agent_started', model: text, at: past, prompt: text },
    { v: 1, t: 'suspended', seq: 1, reason: pending[0]?.kind ?? 'retry', at: past },
  ];
  const event = { runId, timestamp: past, type: 'text.complete', text } as const;
  const patch = { status: 'suspended', pending } as const;
  await world.runs.commit({ runId, owner }, aCommit(seq, { entries, events: [event], patch, release: 'suspended' }));
}

/** Only errors that a caller may see: never one of Redis, and never an unexpected one of ours. */
async function refused(call: Promise<unknown>): Promise<void> {
  await call.catch((error: unknown) => {
    if (!(error instanceof RunError) || error.code === 'internal' || error.code === 'queue_unavailable') throw error;
  });
}

/** One person says something about everything that waits. */
async function speak({ mill }: Odd, runId: string, random: Random): Promise<void> {
  const { pending } = await mill.get(runId);
  const by = pick(random, { by: oddText(random) }, {});
  for (const { toolCallId = '', kind } of pending) {
    const granted = random.below(2) === 0;
    const edited = granted && random.below(2) === 0 ? { updatedArgs: oddRecord(random) } : {};
    const decision =
      kind === 'user_input'
        ? { answers: [{ toolCallId, answer: oddText(random) }] }
        : { approvals: [{ toolCallId, granted, reason: oddText(random), ...edited }] };
    await refused(mill.decide(runId, { ...decision, reason: oddText(random) }, by));
  }
}

/** What an older version, or a disk, may have left in the record and beside it. */
async function damage({ redis, keys }: Odd, runId: string, random: Random): Promise<void> {
  const raw = () =>
    pick(
      random,
      JSON.stringify(oddValue(random)) ?? 'null',
      JSON.stringify([{ kind: 'approval', id: oddText(random), toolName: '\ud83d', args: {}, requestedAt: past }]),
      `[{"kind":"approval","id":"deep","args":{"a":${deep(1_500)}},"requestedAt":"${past}"}]`,
      `[{"kind":"user_input","id":"x","expiresAt":null,"approvers":"2"},null,7,"\\ud83d"]`,
      '[{"kind":"approval","id":"cut","toolName":"\\ud8',
      deep(2_000),
      oddText(random),
    );
  const run = keys.run(runId);
  const faults = [
    () => redis.hset(run, 'pending', raw()),
    () => redis.hset(run, 'request', raw()),
    () => redis.hset(run, 'cancel', raw()),
    () => redis.hset(run, 'attempts', raw()),
    () => redis.rpush(keys.decided(runId), raw()),
    () => redis.hset(keys.decisions(runId), { [oddText(random)]: raw(), call_1: raw(), deep: raw() }),
    () => redis.hset(keys.later(runId), { segment: '0', first: '0', next: '0', '0': raw(), template: raw() }),
    () => redis.rpush(keys.journal(runId), raw()),
  ];
  for (let n = 1 + random.below(3); n > 0; n--) await pick(random, ...faults)();
}

const statusOf = async ({ redis, keys }: Odd, runId: string) => await redis.hget(keys.run(runId), 'status');

/** The parent is notified of its child. */
async function childEnds({ space }: Pick<Odd, 'space'>, runId: string, text: string): Promise<void> {
  const parent = lineage.parse({ runId, depth: 1, ancestors: [] });
  const child = aRecord({ runId: 'r'.repeat(26), parent, status: 'completed', costMicrocents: 3, result: { text } });
  await notifyParent(child, {
    space,
    threads: { ...space, clock: systemClock },
    onAccepted: () => {},
    onEnded: () => {},
    addJob: async () => {},
  });
}

/** A run that waits is queued again, or ends: which is up to what happens. */
async function endWait(world: Odd, runId: string, random: Random): Promise<string> {
  const { mill, waits } = world;
  const ways = {
    cancel: () => mill.cancel(runId, { reason: reason(random), onPendingApprovals: pick(random, 'deny', 'fail') }),
    drain: () => mill.cancel(runId, { drain: true, reason: reason(random) }),
    expiry: () => waits.resume(runId, { summary: oddText(random) }),
    child: async () => {
      await childEnds(world, runId, oddText(random));
      await waits.resume(runId, { summary: 'its time has come' });
    },
  };
  const way = pick(random, ...(Object.keys(ways) as (keyof typeof ways)[]));
  await ways[way]();
  return way;
}

/** A worker takes what is queued, and the run comes to its end; one that failed is redriven, and cancelled. */
async function finish(world: Odd, runId: string, random: Random): Promise<void> {
  const { mill, redis, keys, runs } = world;
  const segment = Number(await redis.hget(keys.run(runId), 'segment'));
  const found = await claim(world, runId, { segment }).catch((error: unknown) => {
    if (error instanceof RunError && error.code === 'run_state_malformed') return error;
    throw error;
  });
  const taken = {
    owner: await redis.hget(keys.run(runId), 'owner'),
    seq: Number(await redis.hget(keys.run(runId), 'lastSequence')),
  };
  if (!(found instanceof RunError) && found.kind !== 'claimed') throw new Error(`run ${runId} is ${found.kind}`);
  const error = { code: 'internal', message: oddText(random), retryable: false } as const;
  const entry = { v: 1, t: 'closed', status: 'failed', error } as const;
  const failed = aTerminalCommit(runId, taken.seq, {
    entries: [entry],
    patch: { status: 'failed', endedAt: past, error },
  });
  const written = await runs.commit({ runId, owner: taken.owner ?? '' }, failed);
  expect(written.kind).toBe('ok');
  await mill.redrive({ runId });
  expect(await statusOf(world, runId)).toBe('queued');
  await mill.cancel(runId, { reason: reason(random) });
}

async function readable({ redis, keys }: Odd, runId: string): Promise<void> {
  for (const [id, [, json = '']] of await redis.xrange(keys.events(runId), '-', '+'))
    expect(storedJson(json), id).toMatchObject({ sequenceNumber: Number.parseInt(id, 10) });
}

/** Draws from numbers of its own, so that it is the same whatever goes on beside it. */
async function goThrough(world: Odd, round: number): Promise<void> {
  const random = seeded(round);
  const { mill, redis, keys } = world;
  const label = reason(random) || 'k';
  const value = reason(random);
  // The one key that no record can hold is refused.
  const metadata = label === '__proto__' ? {} : { [label]: value };
  const { runId } = await mill.enqueue({ agent: 'support', input: oddText(random), metadata });
  const expiresAt = pick(random, far, past);
  const pending = Array.from({ length: 1 + random.below(3) }, () => anItem(random, expiresAt));
  await suspend(world, runId, pending, random);
  const isDamaged = random.below(3) === 0;
  if (random.below(2) === 0) await speak(world, runId, random);
  if (isDamaged) await damage(world, runId, random);
  const before = await redis.hgetall(keys.run(runId));
  const way = before['status'] === 'suspended' ? await endWait(world, runId, random) : 'a word';
  const what = `round ${round} after ${way}, the record before: ${JSON.stringify(before)}`;
  if ((await statusOf(world, runId)) === 'suspended') {
    // A cancel leaves a run that waits for others to them; these will never end.
    const asked = await redis.hget(keys.run(runId), 'cancel');
    if (!asked || (way !== 'cancel' && way !== 'drain')) throw new Error(`it still waits, ${what}`);
    await world.waits.resume(runId, { summary: 'its time has come' });
  }
  const status = await statusOf(world, runId);
  expect(status, what).not.toBe('suspended');
  if (!isTerminalStatus(status as 'queued')) await finish(world, runId, random);
  const end = await redis.hmget(keys.run(runId), 'status', 'endedAt', 'cancel');
  expect(isTerminalStatus(end[0] as 'queued') || Boolean(end[2]), what).toBe(true);
  await readable(world, runId);
  const ofRun = [keys.run, keys.journal, keys.events, keys.decisions, keys.decided, keys.later];
  await redis.unlink(ofRun.map((key) => key(runId)));
}

const sideBySide = 16;

test(
  'whatever text is sent to a run, written by it, or stored about it: its wait ends, and so does the run',
  { timeout: rounds({ fast: 40_000, all: 900_000 }) },
  async () => {
    const world = await oddWorld();
    const left = Array.from({ length: rounds({ fast: 100, all: 10_000 }) }, (_, round) => round).values();
    const goOn = async () => {
      for (const round of left) await goThrough(world, round);
    };
    await Promise.all(Array.from({ length: sideBySide }, goOn));
    expect(left.next().done).toBe(true);
  },
);

test('what a caller sends is stored in whole characters, without NUL', async () => {
  const { mill, runs } = await oddWorld();
  const { runId } = await mill.enqueue({ agent: 'support', input: 'half \ud83d \0', metadata: { 'k\0': '\ude00' } });
  const record = await runs.load(runId);
  expect(record?.request).toMatchObject({ input: 'half \ufffd \ufffd', metadata: { 'k\ufffd': '\ufffd' } });
});

/** A run that waits, with this list in its record instead of what was asked. */
async function waitingFor(pending: string) {
  const world = await oddWorld();
  const { runId } = await world.mill.enqueue({ agent: 'support', input: 'go' });
  const item = { kind: 'approval', id: 'call_1', requestedAt: past } as const;
  await suspend(world, runId, [item], { below: () => 8 });
  await world.redis.hset(world.keys.run(runId), 'pending', pending);
  return { ...world, runId };
}

const half = JSON.stringify([
  { kind: 'approval', id: 'call_\ud83d', toolName: '\ude00', args: { a: '\\ud83d' }, requestedAt: past },
  { kind: 'user_input', id: 'call_2', reason: '\ud83d', requestedAt: past },
]);

test('half characters that an older version stored do not prevent a decision about the call, and the others stay', async () => {
  const { mill, runId } = await waitingFor(half);
  const { run } = await mill.decide(runId, {
    approvals: [{ toolCallId: 'call_\ud83d', granted: true, reason: '\ud83d' }],
  });
  expect(run).toMatchObject({ status: 'queued', pending: [{ toolCallId: 'call_2', reason: '\ufffd' }] });
  expect(run.decisions).toMatchObject([
    { toolCallId: 'call_\ufffd', granted: true, reason: '\ufffd', toolName: '\ufffd' },
  ]);
});

test('a cancel denies calls with half characters in their names', async () => {
  const { mill, runId, redis, keys } = await waitingFor(half);
  expect(await mill.cancel(runId, { reason: 'half \ud83d' })).toMatchObject({ status: 'cancelled', pending: [] });
  const log = await redis.xrange(keys.events(runId), '-', '+');
  const events = log.map(([, [, json = '']]) => JSON.parse(json) as { readonly type: string });
  expect(events.filter(({ type }) => type === 'tool.approval.denied')).toMatchObject([
    { toolCallId: 'call_\ufffd', toolName: '\ufffd' },
    { toolCallId: 'call_2' },
  ]);
  expect(events.at(-1)).toMatchObject({ type: 'run.cancelled', reason: 'half \ufffd' });
});

test('an item that cannot be read any more is known by its beginning, and can be denied', async () => {
  const args = `{"a":${deep(1_500)}}`;
  const { mill, runId, redis, keys } = await waitingFor(
    `[{"kind":"approval","id":"deep","args":${args},"requestedAt":"${past}"}]`,
  );
  await mill.decide(runId, { approvals: [{ toolCallId: 'deep', granted: false }] });
  expect(await redis.hmget(keys.run(runId), 'status', 'pending')).toEqual(['queued', '[]']);
});

const withoutRequest: readonly {
  what: string;
  end: (world: Awaited<ReturnType<typeof waitingFor>>) => Promise<unknown>;
  status: string;
}[] = [
  { what: 'is cancelled', end: async ({ mill, runId }) => await mill.cancel(runId), status: 'cancelled' },
  {
    what: 'goes on when its time has come',
    end: async ({ waits, runId }) => await waits.resume(runId, { summary: 'now' }),
    status: 'queued',
  },
  {
    what: 'goes on when a child has ended',
    end: async (world) => await childEnds(world, world.runId, 'done'),
    status: 'queued',
  },
  {
    what: 'goes on after a decision',
    end: async ({ mill, redis, keys, runId }) => {
      await redis.hset(keys.run(runId), 'pending', half);
      await mill.decide(runId, { approvals: [{ toolCallId: 'call_\ud83d', granted: true }] });
    },
    status: 'queued',
  },
];
const unreadable = ['{"agent":7', '', undefined].flatMap((request) =>
  withoutRequest.map((ending) => ({ request, ...ending })),
);

test.each(unreadable)('a record whose request cannot be read ($request) $what', async ({ request, end, status }) => {
  const world = await waitingFor('{"not":"a list"');
  const { runId, redis, keys } = world;
  await redis.hset(keys.run(runId), { request: request ?? '', attempts: '\ud83d' });
  if (request === undefined) await redis.hdel(keys.run(runId), 'request');
  await end(world);
  expect(await statusOf(world, runId)).toBe(status);
  const [last] = await redis.xrevrange(keys.events(runId), '+', '-', 'COUNT', 1);
  expect(JSON.parse(last?.[1][1] ?? '')).toMatchObject({ runId, agentId: 'support' });
});

test('a record that is damaged hides no other from the lists, and is shown as far as it can be read', async () => {
  const world = await waitingFor(half);
  const { mill, redis, keys, runId } = world;
  await redis.hset(keys.run(runId), { request: '7', usage: '{', metadata: '' });
  await redis.hset(keys.decisions(runId), 'call_9', '{"votes":');
  const other = await mill.enqueue({ agent: 'support', input: 'go' });
  await suspend(world, other.runId, [{ kind: 'approval', id: 'call_1', requestedAt: past }], { below: () => 8 });
  expect((await mill.list({})).runs.map((run) => run.runId).toSorted()).toEqual([runId, other.runId].toSorted());
  const asked = (await mill.approvals()).approvals.map(({ toolCallId = '' }) => toolCallId);
  expect(asked.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(['call_1', 'call_2', 'call_\ufffd']);
  expect(await mill.get(runId)).toMatchObject({
    agent: 'support',
    status: 'suspended',
    pending: [{}, { toolCallId: 'call_2' }],
  });
});

test('a stored cancel request that cannot be read counts all the same', async () => {
  const { runId, redis, keys, runs } = await waitingFor('[]');
  await redis.hset(keys.run(runId), 'cancel', '{"drain":"\\ud83d');
  await redis.sadd(keys.cancels, runId);
  expect(await runs.pendingCancels()).toEqual(new Map([[runId, { drain: false, onPendingApprovals: 'deny' }]]));
});

test('the path of a problem names no more of a caller’s words than fit into a line', async () => {
  const { mill } = await oddWorld();
  const problem = await mill
    .enqueue({ agent: 'support', input: '', metadata: { ['x'.repeat(100_000)]: '' } })
    .catch(String);
  expect(problem).toContain('Invalid key');
  expect((problem as string).length).toBeLessThan(600);
});
