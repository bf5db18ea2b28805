import { expect, test } from 'vitest';
import type { NewRun } from '../../src/shared/state/run/create-runs.ts';
import { newNonce, newRunId } from '../../src/shared/base/ids.ts';
import { jsonText } from '../../src/shared/base/json.ts';
import { steerRun } from '../../src/shared/state/run/control/inbox.ts';
import { costRowsOf } from '../../src/shared/state/money/costs.ts';
import { rounds } from '../support/lane.ts';
import { oddText, oddValue } from '../support/odd.ts';
import { seeded } from '../support/seeded.ts';
import { redisArtifactsWorld } from './artifacts-redis-world.ts';
import { redisBreakersWorld } from './breakers-redis-world.ts';
import { redisChildrenWorld } from './children-redis-world.ts';
import { childOf, suspendOn } from './children-world.ts';
import { aRequest, granted } from './rate-limiter.ts';
import { redisRateLimiterWorld } from './rate-limiter-redis-world.ts';
import { redisLedgerWorld } from './ledger-redis-world.ts';
import { ask, capped, paid } from './ledger-world.ts';
import { draft } from './progress-notes.ts';
import { redisProgressWorld } from './progress-redis-world.ts';
import { delta } from './run-fixtures.ts';
import { claim, seeded as seededRun } from './store-world.ts';
import { answers, aRun, asks, calls, ends, gets, acquire, summary, tenant } from './threads-world.ts';
import { redisThreadsWorld } from './threads-redis-world.ts';

const never = new AbortController().signal;
const times = rounds({ fast: 20, all: 1_500 });
const timeout = rounds({ fast: 40_000, all: 200_000 });

/** A value as it comes back out of JSON. */
const kept = <T>(value: T): T => JSON.parse(jsonText(value)) as T;

test('a thread keeps odd words of any author, and goes to the next run', { timeout }, async () => {
  const random = seeded();
  const world = await redisThreadsWorld();
  const { threads } = world;
  for (let round = 0; round < times; round++) {
    const [id, run, next] = [`t${round}`, `a${round}`, `b${round}`];
    const lock = await acquire(world, run, id);
    await threads.enter(aRun(next, id));
    const text = () => oddText(random);
    const entries = [
      asks(run, text(), text() || 'k'),
      calls(run, text()),
      gets(run, text()),
      answers(run, text()),
      summary(run, text(), 1),
      ends(run, 'completed'),
    ];
    const patch = { title: text() || 'T', session: { provider: text(), model: text(), sessionToken: text() } };
    expect(await threads.append(lock, newNonce(), entries, patch)).toMatchObject({ kind: 'ok' });
    const title = { type: 'thread.title_generated', title: text() } as const;
    await threads.emit({ tenant, threadId: id }, { runId: run, agentId: 'support' }, newNonce(), title);
    const page = await threads.read(tenant, id, { limit: 100 });
    expect(page.entries.map(({ entry }) => entry)).toEqual(entries.map(kept));
    expect(await threads.leave(tenant, id, run)).toEqual({ next });
  }
});

test('steering messages and events of children reach a run in odd words', { timeout }, async () => {
  const random = seeded();
  const world = await redisChildrenWorld();
  const { children } = world;
  for (let round = 0; round < times; round++) {
    const parentId = await seededRun(world);
    const later = ['one', 'two', 'three'].map((step) => childOf(parentId, step, oddText(random)));
    const { runId } = later[0] as NewRun;
    await suspendOn(
      world,
      parentId,
      later.slice(0, 1).map(({ runId }) => runId),
    );
    await children.start(later.slice(0, 1), { segment: 0, first: false, later: later.slice(1) });
    const progress = { type: 'tool.execute.progress', toolCallId: oddText(random), data: oddValue(random) } as const;
    const event = { type: 'subagent.event', childRunId: newRunId(Date.now()), childDepth: 1, event: progress } as const;
    expect(await children.relay({ runId: parentId, agentId: oddText(random) }, [{ ...event, timestamp: 'now' }])).toBe(
      true,
    );
    await children.stop([runId], { drain: false, onPendingApprovals: 'deny', reason: oddText(random) });
    await children.ended(runId);
    const waiting = await world.space.redis.hget(world.space.keys.run(parentId), 'pending');
    expect(waiting, 'the next one has begun').toContain(later[1]?.runId);
    const message = { id: oddText(random) || 'm', text: oddText(random), at: 'now' };
    const busy = await seededRun(world);
    await claim(world, busy);
    await world.runs.flush({ runId: busy, owner: '' }, 3, [delta(busy, oddText(random))]);
    expect(await steerRun(world.space, busy, message)).toBe('delivered');
  }
});

test('money is reserved and paid for models, providers and agents of any name', { timeout }, async () => {
  const random = seeded();
  const { ledger, redis, keys, view } = await redisLedgerWorld();
  for (let round = 0; round < times; round++) {
    const names = { provider: oddText(random), model: oddText(random) };
    const accounts = capped(1_000, 'pause_for_approval', { agentId: oddText(random), batch: `b${round}` });
    const id = `${accounts.runId}:step:${round}`;
    expect(await ledger.reserve(ask(accounts, id, 600, names))).toMatchObject({ kind: 'reserved' });
    expect(await ledger.await(accounts, { scope: 'run', id: accounts.runId }, 600)).toBe(false);
    expect(await ledger.settle(paid(accounts, id, 100, names))).toContain(accounts.runId);
    expect(await view({ scope: 'run', id: accounts.runId })).toMatchObject({
      spentMicrocents: 100,
      reservedMicrocents: 0,
    });
    await ledger.reserve(ask(accounts, `${id}:again`, 300, names));
    await ledger.writeOff(accounts);
  }
  for (const key of await redis.keys(keys.costs('acme', '*'))) {
    const rows = costRowsOf('2026-11-21', await redis.hgetall(key));
    expect(rows.length).toBeGreaterThan(0);
  }
});

test('turns, breakers, notes and kept results have names of any kind', { timeout }, async () => {
  const random = seeded();
  const rateLimiter = await (await redisRateLimiterWorld()).rateLimiter();
  const breakers = await redisBreakersWorld().breakers();
  const notes = await (await redisProgressWorld()).worker();
  const results = await (await redisArtifactsWorld()).worker();
  const info = { toolName: 'report', trust: 'web-search', sensitivity: 'public' } as const;
  for (let round = 0; round < times; round++) {
    const runId = newRunId(Date.now());
    const limiter = `${round % 7}${oddText(random)}`;
    const request = aRequest(runId, { requestsPerMinute: 100_000 }, { limiter, tenant: `t${oddText(random)}` });
    await rateLimiter.settle(await granted(rateLimiter, request), { usedTokens: 2e9, outputTokens: 0 });
    const target = `tool:${oddText(random)}`;
    const admission = await breakers.admit(target, 0, never);
    await breakers.report(target, 'failure', admission, { failureThreshold: 1_000, cooldownMs: 1_000 });
    const text = oddText(random);
    const note = await notes.write(draft(text, { runId, key: oddText(random) || 'k' }));
    expect(note.seq).toBe(1);
    const name = `n${round}`;
    const body = Buffer.from(oddText(random) || 'b');
    for (const toolName of [oddText(random), oddText(random)])
      await results.put(runId, name, body, { ...info, toolName });
    expect((await results.read(runId, name, 0, 1e6))?.bytes.length).toBe(body.length);
  }
});
