import { pino } from 'pino';
import { expect, test } from 'vitest';
import { RunError } from '../../../src/shared/base/errors.ts';
import { newRunId } from '../../../src/shared/base/ids.ts';
import { Redactor } from '../../../src/shared/base/redact.ts';
import type { JournalEntry } from '../../../src/shared/contract/journal/journal.ts';
import { zeroUsage } from '../../../src/shared/contract/money.ts';
import { agentViewOf } from '../../../src/shared/contract/agent/agent.ts';
import { tenantsOf } from '../../../src/shared/contract/tenants.ts';
import type { Blobs } from '../../../src/shared/state/files/blobs.ts';
import { settleTaken, takeDue } from '../../../src/shared/state/archive/due-runs.ts';
import { LogTails } from '../../../src/shared/state/archive/log-tails.ts';
import { redriveFailed } from '../../../src/shared/state/run/open-runs.ts';
import { redisSupervision } from '../../../src/shared/state/run/supervision.ts';
import type { OutgoingEvent } from '../../../src/shared/state/script.ts';
import { archiveEnded } from '../../../src/worker/jobs/archive/archive-run.ts';
import { OwnRedis } from '../../support/own-redis.ts';
import { until } from '../../support/redis.ts';
import { archiverWorld, eventLogTtlS, resultTtlS } from './archiver-world.ts';

const day = 86_400;

function answer(args: string, step = 1): JournalEntry {
  const parts = [{ type: 'tool_call' as const, id: 'c1', name: 'lookup', args }];
  const usage = { ...zeroUsage, input: 1, output: 1, cached: 0 };
  const served = { provider: 'p', model: 'm', attempts: [] };
  return {
    v: 1,
    t: 'model_response',
    step,
    message: { role: 'assistant', parts },
    finishReason: 'stop',
    usage,
    ...served,
  };
}

function result(content: string, sensitivity?: 'internal' | 'secret'): JournalEntry {
  return { v: 1, t: 'tool_result', step: 1, index: 0, toolCallId: 'c1', toolName: 'lookup', content, sensitivity };
}

const at = (second: number) => `2026-01-02T03:04:0${second}.000Z`;
const event = (runId: string, second: number, body: object) =>
  ({ runId, timestamp: at(second), ...body }) as OutgoingEvent;

test('what an ended run did is archived, and only then goes from Redis at its time', async () => {
  const world = await archiverWorld();
  const { redis, keys } = world;
  const runId = newRunId(Date.now());
  const events = [
    event(runId, 1, { type: 'step.start', stepNumber: 1, model: 'm', modelSource: 'agent' }),
    event(runId, 2, { type: 'text.delta', delta: 'a', model: 'm' }),
    event(runId, 3, { type: 'text.delta', delta: 'b', model: 'm' }),
    event(runId, 4, { type: 'text.complete', text: 'ab' }),
  ];
  const entries = [answer('{"order":7}'), result('shipped')];
  const run = await world.endedRun(entries, { record: { runId }, events, end: { dropsJournal: true } });
  for (const key of [keys.run, keys.journal, keys.events]) {
    expect(await redis.ttl(key(runId))).toBeGreaterThan(day - 60);
  }

  world.start();
  const archived = await world.archived(run);
  expect(archived).toMatchObject({ runId, tenant: 'default', record: { status: 'completed', endedAt: run.endedAt } });
  expect(archived.journal).toEqual(entries.map((entry) => expect.objectContaining({ t: entry.t })));
  expect(archived.events.map(({ type }) => type)).toEqual([
    'run.queued',
    'execution.started',
    'run.started',
    'step.start',
    'text.complete',
    'run.completed',
  ]);
  expect(archived.firstTokens).toEqual({ 1: at(2) });
  expect(archived.truncated).toBeUndefined();
  expect(await redis.exists(keys.journal(runId))).toBe(0);
  expect(await redis.ttl(keys.events(runId))).toBeLessThanOrEqual(eventLogTtlS);
  expect(await redis.ttl(keys.run(runId))).toBeLessThanOrEqual(resultTtlS);
  expect(world.outcomes).toEqual([{ kind: 'written', bytes: expect.any(Number) }]);
});

test.each([
  ['that this process wrote', new LogTails()],
  ['that is read', undefined],
])('a long log %s is archived as a whole, and has the time of the first token of each step', async (_, logTails) => {
  const world = await archiverWorld(undefined, { logTails });
  const runId = newRunId(Date.now());
  const step = (number: number) =>
    event(runId, 1, { type: 'step.start', stepNumber: number, model: 'm', modelSource: 'agent' });
  const notes = Array.from({ length: 600 }, (_, i) => event(runId, 2, { type: 'text.complete', text: `${i}` }));
  const delta = (second: number) => event(runId, second, { type: 'text.delta', delta: 'a', model: 'm' });
  const events = [step(1), delta(3), delta(4), ...notes, delta(5), step(2), ...notes, delta(6), delta(7)];
  const run = await world.endedRun([result('shipped')], { record: { runId }, events });
  world.start();
  const archived = await world.archived(run);
  expect(archived.events.filter(({ type }) => type === 'text.complete')).toHaveLength(1_200);
  expect(archived.events.some(({ type }) => type === 'text.delta')).toBe(false);
  expect(archived.firstTokens).toEqual({ 1: at(3), 2: at(6) });
});

test('results of secret tools, known credentials and what looks like one are in no archive', async () => {
  const world = await archiverWorld();
  const run = await world.endedRun([
    answer('{"order":7,"apiKey":"hunter2hunter2"}'),
    result('the secret is pomegranate', 'secret'),
    { ...result('see https://user:passphrase@example.org and CANARY-123456'), index: 1 } as JournalEntry,
    { v: 1, t: 'inner_tool_result', step: 1, index: 1, number: 1, outcome: '"pomegranate"', sensitivity: 'secret' },
    { ...result('internal is kept', 'internal'), index: 2 } as JournalEntry,
  ]);
  world.start({ redactor: new Redactor(['CANARY-123456']) });
  const text = JSON.stringify(await world.archived(run));
  for (const canary of ['hunter2hunter2', 'pomegranate', 'passphrase@', 'CANARY-123456'])
    expect(text).not.toContain(canary);
  expect(text).toContain('internal is kept');
  expect(text).toContain('\\"order\\":7');
});

test('a run whose worker died before it was written is written by another one', async () => {
  const world = await archiverWorld();
  const run = await world.endedRun([result('shipped')]);
  // What a worker does that is killed then.
  const taken = await takeDue(world.space, 10);
  expect(taken.runIds).toEqual([run.runId]);
  expect((await takeDue(world.space, 10)).runIds).toEqual([]);
  await world.leasesEnd();
  world.start();
  expect((await world.archived(run)).journal).toHaveLength(1);
  // Should it have been slow only, what it does then changes nothing.
  await settleTaken(world.space, taken);
  expect(await world.archive.read('default', run.runId)).toBeDefined();
});

test('a run that was erased while a worker wrote it, which died then, is gone once another one looks at it', async () => {
  const world = await archiverWorld();
  const { redis, keys, archive, inRedis } = world;
  const run = await world.endedRun([result('private')]);
  const written = Promise.withResolvers<void>();
  const dying: Blobs = {
    ...inRedis,
    async putAll(...args) {
      await redis.del(keys.run(run.runId), keys.journal(run.runId), keys.events(run.runId));
      expect(await archive.drop('default', run)).toBe(false);
      await inRedis.putAll(...args);
      written.resolve();
      return await new Promise(() => {});
    },
  };
  // One that is killed never ends.
  void archiveEnded([run.runId], { ...world.deps, archive: world.open(dying) });
  await written.promise;
  expect(await redis.exists(keys.blobs(`run-${run.runId}`))).toBe(1);
  await world.leasesEnd();
  world.start();
  await until('it was looked at', async () => !(await world.isDue(run.runId)));
  expect(await redis.exists(keys.blobs(`run-${run.runId}`), keys.archived)).toBe(0);
});

test('a run that ended again meanwhile stays listed when the worker that took it before is done', async () => {
  const world = await archiverWorld();
  const run = await world.endedRun([result('first')], { end: { patch: { status: 'failed' } } });
  const taken = await takeDue(world.space, 10);
  await redriveAndEnd(world, run.runId, [result('second')]);
  await settleTaken(world.space, taken);
  expect(await world.isDue(run.runId)).toBe(true);
});

async function redriveAndEnd(world: Awaited<ReturnType<typeof archiverWorld>>, runId: string, entries: JournalEntry[]) {
  const record = await world.runs.load(runId);
  if (!record) throw new Error('the run is gone');
  const redrive = { queue: 'runs', atMs: Date.now(), deadlineMs: undefined, startByMs: undefined };
  const answered = await redriveFailed(world.space, record, redrive);
  if (typeof answered === 'string') throw new Error(answered);
  return await world.endAgain(runId, entries, { segment: answered.segment });
}

test('a redriven run is not archived while it works, and replaces its record at its next end', async () => {
  const world = await archiverWorld();
  const run = await world.endedRun([result('first')], { end: { patch: { status: 'failed' } } });
  world.start();
  expect((await world.archived(run)).record.status).toBe('failed');
  await redriveAndEnd(world, run.runId, [result('second')]);
  const replaced = await until('the archive has its new end', async () => {
    const found = await world.archive.read('default', run.runId);
    return found?.record.status === 'completed' ? found : undefined;
  });
  expect(JSON.stringify(replaced.journal)).toContain('second');
});

test('while the store is away nothing goes, and afterwards everything is written', async () => {
  const world = await archiverWorld();
  let isAway = true;
  const blobs: Blobs = {
    ...world.inRedis,
    async putAll(...args) {
      if (isAway) throw new RunError('queue_unavailable', 'the bucket does not answer');
      return await world.inRedis.putAll(...args);
    },
  };
  const runs = await Promise.all([1, 2, 3].map(() => world.endedRun([result('shipped')])));
  const lines: { level: number; msg: string }[] = [];
  const sink = { write: (line: string) => void lines.push(JSON.parse(line)) };
  const hidden = world.agentOf({ id: 'hidden', archive: false });
  world.start({ blobs, agents: [hidden], log: pino({ level: 'trace' }, sink) });
  const failures = () => world.outcomes.filter(({ kind }) => kind === 'failed').length;
  await until('an archiver has tried', () => failures() === 3);
  for (const { runId } of runs) {
    expect(await world.isDue(runId)).toBe(true);
    expect(await world.redis.ttl(world.keys.journal(runId))).toBeGreaterThan(day - 60);
  }
  // A pass that writes nothing is no sign that the store is back.
  await world.endedRun([], { record: { request: { agent: 'hidden', input: '' } } });
  await until('a pass has written nothing', () => world.outcomes.some(({ kind }) => kind === 'skipped'));
  await world.leasesEnd();
  await until('an archiver has tried again', () => failures() === 6);
  isAway = false;
  await world.leasesEnd();
  for (const run of runs) expect(await world.archived(run)).toBeDefined();
  const warnings = lines.filter(({ level }) => level >= 40).map(({ msg }) => msg);
  expect(warnings).toEqual(['ended runs cannot be archived now, and wait']);
});

test('a full Redis loses no run: they are archived once it has room', async () => {
  const own = await OwnRedis.start();
  const world = await archiverWorld(own.url);
  const run = await world.endedRun([result('shipped')]);
  await world.redis.config('SET', 'maxmemory', '1');
  world.start();
  await expect(takeDue(world.space, 1)).rejects.toMatchObject({ code: 'queue_unavailable' });
  expect(await world.isDue(run.runId)).toBe(true);
  await world.redis.config('SET', 'maxmemory', '0');
  expect((await world.archived(run)).journal).toHaveLength(1);
});

test('a run whose end was noted by a process that died then is listed by the reconciler', async () => {
  const world = await archiverWorld();
  const run = await world.endedRun([result('shipped')]);
  await world.redis.del(world.keys.archiveDue);
  await redisSupervision(world.space).forget(run.runId);
  expect(await world.isDue(run.runId)).toBe(true);
});

test.each([
  ['an agent with `archive: false`', { archive: false }],
  ['an agent about secrets', { sensitivity: 'secret' as const }],
])('runs of %s are not archived, and go from Redis at their time', async (_, about) => {
  const world = await archiverWorld();
  const run = await world.endedRun([result('shipped')]);
  world.start({ agents: [world.agentOf(about)] });
  await until('it is settled', async () => !(await world.isDue(run.runId)));
  expect(world.outcomes).toEqual([{ kind: 'skipped' }]);
  expect(await world.archive.read('default', run.runId)).toBeUndefined();
  expect(await world.redis.ttl(world.keys.journal(run.runId))).toBeLessThanOrEqual(resultTtlS);
});

test.each([
  ['the agent', 600, { archive: { ttlS: 600 } }, {}],
  ['the tenant', 900, { archive: { ttlS: 1_000 } }, { default: { archiveTtlS: 900 } }],
  ['ARCHIVE_TTL_S', 3_600, { archive: { ttlS: 9_000 } }, { tenants: { default: { archiveTtlS: 9_000 } } }],
])('the shortest time wins, that of %s', async (_, seconds, about, tenants) => {
  const world = await archiverWorld();
  const run = await world.endedRun([result('shipped')]);
  world.start({ agents: [world.agentOf(about)], tenants: tenantsOf(tenants) });
  await world.archived(run);
  const leftS = await world.redis.ttl(world.keys.blobs(`run-${run.runId}`));
  expect(leftS).toBeLessThanOrEqual(seconds);
  expect(leftS).toBeGreaterThan(seconds - 60);
});

test('runs of a tenant that keeps nothing are not archived', async () => {
  const world = await archiverWorld();
  const run = await world.endedRun([result('shipped')]);
  world.start({ tenants: tenantsOf({ tenants: { default: { archiveTtlS: 0 } } }) });
  await until('it is settled', async () => !(await world.isDue(run.runId)));
  expect(world.outcomes).toEqual([{ kind: 'skipped' }]);
});

test('an agent about secrets is archived when it says so', async () => {
  const world = await archiverWorld();
  const run = await world.endedRun([result('shipped')]);
  world.start({ agents: [world.agentOf({ sensitivity: 'secret', archive: true })] });
  expect(await world.archived(run)).toBeDefined();
});

test('an agent that only other workers have is archived as they announce it', async () => {
  const world = await archiverWorld();
  const announce = async (id: string, about: Parameters<typeof world.agentOf>[0]) =>
    await world.redis.hset(world.keys.agents, id, JSON.stringify(agentViewOf(world.agentOf(about).definition)));
  await announce('support', { archive: false });
  await announce('sales', { id: 'sales', archive: { ttlS: 600 } });
  const run = await world.endedRun([result('shipped')]);
  const request = { agent: 'sales', input: 'How much?' };
  const other = await world.endedRun([result('shipped')], { record: { request } });
  world.start();
  await world.archived(other);
  expect(await world.redis.ttl(world.keys.blobs(`run-${other.runId}`))).toBeLessThanOrEqual(600);
  await until('it is settled', async () => !(await world.isDue(run.runId)));
  expect(await world.archive.read('default', run.runId)).toBeUndefined();
});

test.each([
  ['a request with `store: false`', {}, { store: false as const }],
  ['ARCHIVE_TTL_S=0', { archiveTtlS: 0 }, {}],
])('with %s nothing waits for the archive', async (_, settings, end) => {
  const world = await archiverWorld(undefined, settings);
  const run = await world.endedRun([result('shipped')], { end: { ...end, dropsJournal: true } });
  expect(await world.isDue(run.runId)).toBe(false);
  expect(await world.redis.ttl(world.keys.events(run.runId))).toBeLessThanOrEqual(eventLogTtlS);
  expect(await world.redis.exists(world.keys.journal(run.runId))).toBe(0);
});

test('a run that is too long loses the ends of its longest texts, and says so', async () => {
  const world = await archiverWorld();
  const noise = () => Array.from({ length: 30_000 }, () => Math.random().toString(36).slice(2)).join('');
  const entries = Array.from({ length: 12 }, (_, index) => ({ ...result(noise()), index }) as JournalEntry);
  const run = await world.endedRun([...entries, { ...result('short'), index: 12 } as JournalEntry]);
  world.start();
  const archived = await world.archived(run);
  expect(archived.truncated).toBe(true);
  expect(archived.journal).toHaveLength(13);
  expect(archived.journal.at(-1)).toMatchObject({ content: 'short' });
  expect(world.outcomes).toEqual([{ kind: 'written', bytes: expect.any(Number) }]);
});

test('the definitions of its agents are kept under the digest that their runs name', async () => {
  const world = await archiverWorld();
  const agent = world.agentOf({});
  world.start({ agents: [agent, world.agentOf({ id: 'hidden', archive: false })] });
  const owners = async () => await world.redis.keys(world.keys.blobs('agent-*'));
  const [key = ''] = await until('the definition is kept', async () =>
    (await owners()).length > 0 ? await owners() : undefined,
  );
  const digest = /agent-([0-9a-f]+)/.exec(key)?.[1] ?? '';
  expect(await world.archive.readDefinition(digest)).toMatchObject({ id: 'support', model: 'm', toolDefinitions: [] });
  expect(await owners()).toHaveLength(1);
});

test('short runs are read many at once, and few of them where one of those before was long', async () => {
  const world = await archiverWorld();
  const noise = Array.from({ length: 9_000 }, () => Math.random().toString(36).slice(2)).join('');
  const runIds: string[] = [];
  const add = async (count: number, content: string) => {
    for (let i = 0; i < count; i++) runIds.push((await world.endedRun([result(content)])).runId);
  };
  await add(24 + 95, 'short');
  await add(1, noise);
  await add(30, 'short');
  const groups: number[] = [];
  const putAll: Blobs['putAll'] = async (blobs) => {
    groups.push(blobs.length);
    return await world.inRedis.putAll(blobs);
  };
  world.start({ blobs: { ...world.inRedis, putAll } });
  await until('all are archived', async () => (await world.redis.zcard(world.keys.archiveDue)) === 0);
  const [first, second, third = 0] = groups;
  expect([first, second]).toEqual([24, 96]);
  expect(third).toBeLessThan(10);
  expect(groups.at(-1)).toBe(150 - 120 - third);
});

test('a store that fails is given half as much each time, and more once it is back', async () => {
  const world = await archiverWorld();
  for (let i = 0; i < 40; i++) await world.endedRun([result('short')]);
  const groups: number[] = [];
  const putAll: Blobs['putAll'] = async (blobs) => {
    groups.push(blobs.length);
    if (groups.length < 3) throw new RunError('queue_unavailable', 'it takes too long');
    return await world.inRedis.putAll(blobs);
  };
  world.start({ blobs: { ...world.inRedis, putAll } });
  await until('all are archived', async () => {
    await world.leasesEnd();
    return (await world.redis.zcard(world.keys.archiveDue)) === 0;
  });
  expect(groups.slice(0, 3)).toEqual([24, 12, 6]);
  expect(Math.max(...groups.slice(3))).toBeGreaterThan(24);
});
