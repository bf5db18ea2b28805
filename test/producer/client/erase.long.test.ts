import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, inject, onTestFinished, test } from 'vitest';
import { ClientCore } from '../../../src/producer/client/client-core.ts';
import { stillReferredTo } from '../../../src/producer/client/erase/references.ts';
import { type EraseRequest, verifyReceipt } from '../../../src/producer/index.ts';
import { jobIdFor, newRunId, sha256 } from '../../../src/shared/base/ids.ts';
import { archived, writeOne, written } from '../../contract/archive.ts';
import { batchIs, submitBatch } from '../../support/batches.ts';
import { playFleet } from '../batch/support.ts';
import { RunWriter } from '../support/run-writer.ts';
import { monitorRedis, until } from '../../support/redis.ts';
import { codeOf, clientWorld, request, type ClientWorld } from '../cli/options/client.ts';
import { endedRun, metadata, runInThread } from './ended-runs.ts';

const file = (text: string) => [
  { type: 'text' as const, text: 'Read it.' },
  { type: 'file' as const, data: Buffer.from(text).toString('base64'), mediaType: 'text/plain', name: 'a.txt' },
];

test('a file that another run refers to stays, and goes with the last one', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const [one, two, other] = [
    await endedRun(world, { input: file('shared') }),
    await endedRun(world, { input: file('shared'), metadata: { user: 'u2' } }),
    await endedRun(world, { input: file('own') }),
  ];
  const isThere = async (text: string) => (await redis.exists(keys.media('default', sha256(text)))) === 1;
  const { receipt } = await mill.erase({ metadata });
  expect(receipt).toMatchObject({ runs: [one, other].sort(), erased: { media: 1 }, kept: { media: 1 } });
  expect([await isThere('shared'), await isThere('own')]).toEqual([true, false]);
  expect((await mill.erase({ run: two })).receipt).toMatchObject({ erased: { media: 1 }, kept: { media: 0 } });
  expect(await isThere('shared')).toBe(false);
});

test('an uploaded file goes with the only run that it was an input of', async () => {
  const world = await clientWorld();
  const { mill } = world;
  const { id } = await mill.files.upload(Buffer.from('Notes.'), { filename: 'n.txt', purpose: 'user_data' });
  const { id: unused } = await mill.files.upload(Buffer.from('Others.'), { filename: 'o.txt', purpose: 'user_data' });
  await endedRun(world, {
    input: [
      { type: 'text', text: `Not ${unused}.` },
      { type: 'file', fileId: id },
    ],
  });
  expect((await mill.erase({ metadata })).receipt.erased.files).toBe(1);
  expect((await mill.files.list()).data.map((one) => one.id)).toEqual([unused]);
});

test('what a run has in the stream of all runs goes however far apart the clocks of the processes were', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const [early, late] = [await endedRun(world), await endedRun(world)];
  for (const [runId, skewMs] of [
    [early, 600_000],
    [late, -600_000],
  ] as const) {
    const at = new Date(Date.now() + skewMs).toISOString();
    await redis.hset(keys.run(runId), { createdAt: at, endedAt: at });
  }
  const kept = await endedRun(world, { metadata: {} });
  expect((await mill.erase({ run: early })).receipt.erased.lifecycleEvents).toBe(2);
  expect((await mill.erase({ run: late })).receipt.erased.lifecycleEvents).toBe(2);
  const left = await redis.xrange(keys.lifecycle, '-', '+');
  expect(left.map(([, [, json = '']]) => JSON.parse(json).runId)).toEqual([kept, kept]);
});

test('pages go on with the cursor until there is none', async () => {
  const world = await clientWorld();
  const runs = [await endedRun(world), await endedRun(world), await endedRun(world)].sort();
  const kept = await endedRun(world, { metadata: { user: 'u2' } });
  const first = await world.mill.erase({ metadata, limit: 2 });
  const second = await world.mill.erase({ metadata, limit: 2, cursor: first.cursor ?? '' });
  expect(second.cursor).toBeUndefined();
  expect([...first.receipt.runs, ...second.receipt.runs].sort()).toEqual(runs);
  expect((await world.mill.list()).runs.map(({ runId }) => runId)).toEqual([kept]);
});

test('runs are erased in groups, and one of a group that may not be keeps none of the others', async () => {
  const world = await clientWorld();
  const runs: string[] = [];
  for (let i = 0; i < 60; i++) runs.push(await endedRun(world));
  const open = await world.mill.enqueue({ ...request, metadata });
  const { receipt, kept } = await world.mill.erase({ metadata });
  expect(receipt.runs).toEqual(runs.sort());
  expect(receipt.erased.records).toBe(60);
  expect(kept).toEqual([{ runId: open.runId, reason: 'open' }]);
});

test('the files of a batch are read for a group of its lines, and not for each', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const advancing = await mill.batches.advance();
  onTestFinished(() => advancing[Symbol.asyncDispose]());
  playFleet(world, (writer) => writer.end());
  const lines = Array.from({ length: 40 }, (_, i) => ({ input: `question ${i}`, metadata }));
  const { id, input_file_id } = await submitBatch(mill, lines, { agent: 'support' });
  await batchIs(mill, id, ['completed']);
  const commandsOn = await monitorRedis(redis);
  const { receipt } = await mill.erase({ metadata });
  expect(receipt.erased.batchLines).toBe(80);
  const looks = (await commandsOn(keys.erasedLines(input_file_id))).filter((line) => line.includes('"hgetall"'));
  expect(looks.length).toBeGreaterThan(0);
  expect(looks.length).toBeLessThan(40);
});

/** Erases a run whose job a worker had at the first try. */
async function erasedInTwoGoes({ mill, redis, bull }: ClientWorld, run: string): Promise<void> {
  const lock = bull('runs', `${jobIdFor(run, 0)}:lock`);
  await redis.set(lock, 'token');
  expect(await codeOf(mill.erase({ run }))).toBe('concurrent_run');
  await redis.del(lock);
  await mill.erase({ run });
}

test.each<[string, (world: ClientWorld, run: string) => Promise<unknown>]>([
  ['in one go', async ({ mill }, run) => await mill.erase({ run })],
  ['in two goes', erasedInTwoGoes],
])('a line whose id an earlier line had stays refused when that one was erased %s', async (_, erased) => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const advancing = await mill.batches.advance();
  onTestFinished(() => advancing[Symbol.asyncDispose]());
  playFleet(world, (writer) => writer.end());
  const lines = [
    { id: 'a', input: 'the first' },
    { id: 'a', input: 'the second' },
    { id: 'b', input: 'another' },
  ];
  const { id, input_file_id } = await submitBatch(mill, lines, { agent: 'support' });
  expect((await batchIs(mill, id, ['completed'])).request_counts).toMatchObject({ completed: 2, failed: 1 });
  for (const { runId } of (await mill.list({ batch: id })).runs) await erased(world, runId);
  expect((await mill.batches.redrive(id)).lines).toBe(1);
  expect((await batchIs(mill, id, ['completed'])).request_counts).toMatchObject({ completed: 2, failed: 1 });
  const marks = Object.values(await redis.hgetall(keys.erasedLines(input_file_id)));
  // Nothing stays of an id that no other line has.
  expect([marks.length, marks.filter((mark) => mark.split(' ')[2] !== '').length]).toEqual([2, 1]);
});

test('a child goes with its parent only, and a parent with its child', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const [parent, child] = [await endedRun(world), await endedRun(world, { metadata: {} })];
  const lineage = { runId: parent, depth: 1, ancestors: [] };
  await redis.hset(keys.run(child), { parent: JSON.stringify(lineage), parentRunId: parent });
  expect(await codeOf(mill.erase({ run: child }))).toBe('validation');
  expect((await mill.erase({ run: parent })).receipt.runs).toEqual([parent, child].sort());
});

test('a line of a batch that has not ended is left, and said to be', async () => {
  const world = await clientWorld();
  const { mill } = world;
  const { id } = await submitBatch(mill, [{ id: 'a', input: 'x' }], { agent: 'support' });
  const runId = await endedRun(world, { batch: id });
  expect(await mill.erase({ metadata })).toMatchObject({ kept: [{ runId, reason: 'in_open_batch' }] });
  expect(await codeOf(mill.erase({ run: runId }))).toBe('concurrent_run');
});

test('a batch is found by its name however many others were made since', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const { id } = await submitBatch(mill, [{ id: 'a', input: 'x' }], { agent: 'support', name: 'nightly' });
  const newer = Array.from({ length: 1_200 }, (_, i) => `batch_${newRunId(Date.now() + i)}`);
  for (const other of newer) {
    await redis.copy(keys.batch(id), keys.batch(other));
    await redis.hset(keys.batch(other), { id: other, name: other });
  }
  await redis.zadd(keys.batches('default'), ...newer.flatMap((other, i) => [Date.now() + 1 + i, other]));
  const runId = await endedRun(world, { batch: 'nightly' });
  expect(await mill.erase({ metadata })).toMatchObject({ kept: [{ runId, reason: 'in_open_batch' }] });
});

test('a condition whose key is a name of the language is not left out: it is refused wherever runs are found', async () => {
  const world = await clientWorld();
  const { mill } = world;
  const runId = await endedRun(world);
  const labels = JSON.parse('{"user":"u1","__proto__":"x"}') as Record<string, string>;
  expect(await codeOf(mill.erase({ metadata: labels }))).toBe('validation');
  expect(await codeOf(mill.list({ metadata: labels }))).toBe('validation');
  expect(await codeOf(mill.redrive({ metadata: labels }))).toBe('validation');
  expect(await codeOf(mill.cancelMany({ metadata: labels }))).toBe('validation');
  expect(await codeOf(mill.enqueue({ ...request, metadata: labels }))).toBe('validation');
  expect((await mill.get(runId)).runId).toBe(runId);
  const odd = { user: 'u1', constructor: 'x', toString: 'y' } as unknown as Record<string, string>;
  expect((await mill.erase({ metadata: odd })).receipt.runs).toEqual([]);
});

test('requests that say nothing, or two things, or come from a caller are refused', async () => {
  const { mill } = await clientWorld();
  const run = '01K9Z5N3T8R6V2X4B7C1D0E9FG';
  for (const wrong of [{}, { run, thread: 't' }, { metadata: {} }, { run: 'x' }])
    expect(await codeOf(mill.erase(wrong))).toBe('validation');
  expect(await codeOf(mill.erase({ run }))).toBe('run_not_found');
  expect(await codeOf(mill.erase({ thread: 't' }))).toBe('not_found');
  expect(await codeOf(mill.forTenant('default', 'caller').erase({ metadata }))).toBe('forbidden');
});

/** An ended run whose job has failed with words of a provider. `locked`: a worker still has it. */
async function failedJob(world: ClientWorld, { locked }: { locked: boolean }) {
  const { redis, keys, bull } = world;
  const runId = await endedRun(world);
  const jobId = jobIdFor(runId, 0);
  const [job, lock] = [bull('runs', jobId), bull('runs', `${jobId}:lock`)];
  await redis.hset(job, { name: 'start', failedReason: 'secret words' });
  await redis.zadd(bull('runs', 'failed'), Date.now(), jobId);
  if (locked) await redis.set(lock, 'token');
  const isPlanned = async () => (await redis.exists(keys.erasing('default'))) === 1;
  return { runId, job, lock, isPlanned };
}

test('no receipt is signed while a worker has a job of a run, and the same request goes on once it has none', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const { runId, job, lock, isPlanned } = await failedJob(world, { locked: true });
  await killedErasure(world, { metadata }, 1);
  const other = await endedRun(world);
  const { receipt, kept } = await mill.erase({ metadata });
  expect([receipt.runs, kept]).toEqual([[other], [{ runId, reason: 'open' }]]);
  expect([await redis.exists(job), await redis.hlen(keys.erasing('default'))]).toEqual([1, 1]);
  await redis.del(lock);
  expect((await mill.erase({ metadata })).receipt).toMatchObject({ runs: [runId], erased: { records: 1 } });
  expect([await redis.exists(job), await isPlanned()]).toEqual([0, false]);
}, 20_000);

test('a job that a worker has for a moment is waited for', async () => {
  const world = await clientWorld();
  const { mill, redis } = world;
  const { runId, job, lock, isPlanned } = await failedJob(world, { locked: true });
  const erased = mill.erase({ run: runId });
  await until('its removal has begun', isPlanned);
  await redis.del(lock);
  expect((await erased).receipt.runs).toEqual([runId]);
  expect(await redis.exists(job)).toBe(0);
});

test('a job that Redis does not remove keeps the erasure from being signed', async () => {
  const world = await clientWorld();
  const { mill, redis, bull } = world;
  const { runId, job, isPlanned } = await failedJob(world, { locked: false });
  // Commands on it fail: it is no sorted set.
  await redis.rename(bull('runs', 'failed'), bull('runs', 'elsewhere'));
  await redis.set(bull('runs', 'failed'), 'x');
  expect(await codeOf(mill.erase({ run: runId }))).toBe('internal');
  expect([await redis.exists(job), await isPlanned()]).toEqual([1, true]);
  await redis.rename(bull('runs', 'elsewhere'), bull('runs', 'failed'));
  expect((await mill.erase({ run: runId })).receipt.runs).toEqual([runId]);
  expect(await redis.exists(job)).toBe(0);
});

/** A run of which only a damaged record in the archive is left. */
async function damagedRun(world: ClientWorld, more: Parameters<typeof endedRun>[1] = {}) {
  const { redis, keys } = world;
  const runId = await endedRun(world, more);
  await redis.del(keys.run(runId), keys.journal(runId), keys.events(runId));
  return { runId, blob: await damage(world, runId) };
}

async function damage({ redis, keys }: ClientWorld, runId: string): Promise<string> {
  const blob = keys.blobs(`run-${runId}`);
  await redis.hset(blob, 'record', 'damaged');
  return blob;
}

test('a run that cannot be read is left and named when runs are erased by metadata, and keeps none from it', async () => {
  const world = await clientWorld();
  const { mill, redis } = world;
  const { runId, blob } = await damagedRun(world);
  const other = await endedRun(world);
  const { receipt, kept } = await mill.erase({ metadata });
  expect([receipt.runs, receipt.unreadable, kept]).toEqual([[other], { count: 1, runs: [runId] }, []]);
  expect(verifyReceipt(receipt, (await mill.erasureKey()).publicKey)).toBe(true);
  expect(await redis.exists(blob)).toBe(1);
});

test('a run that cannot be read is erased by its id, for its own tenant', async () => {
  const world = await clientWorld();
  const { mill, redis, bull } = world;
  const { runId, blob } = await damagedRun(world);
  const job = bull('runs', jobIdFor(runId, 2));
  await redis.hset(job, { name: 'start', failedReason: 'secret words' });
  expect(await codeOf(mill.forTenant('other').erase({ run: runId }))).toBe('run_not_found');
  expect(await redis.exists(blob)).toBe(1);
  const { receipt } = await mill.erase({ run: runId });
  expect(receipt).toMatchObject({ runs: [runId], erased: { archived: 1 }, unreadable: { count: 1, runs: [runId] } });
  expect(await redis.exists(blob, job)).toBe(0);
  expect(await codeOf(mill.erase({ run: runId }))).toBe('gone');
});

test('a run whose archive cannot be read goes with what its record in Redis says', async () => {
  const world = await clientWorld();
  const runId = await endedRun(world, { input: file('own') });
  const blob = await damage(world, runId);
  const { receipt } = await world.mill.erase({ metadata });
  expect(receipt).toMatchObject({ runs: [runId], erased: { archived: 1, media: 1 } });
  expect([receipt.unreadable, await world.redis.exists(blob)]).toEqual([undefined, 0]);
});

test('a run that another names and that cannot be read keeps none from being erased, and is named', async () => {
  const world = await clientWorld();
  const { runId: named, blob } = await damagedRun(world, { metadata: {} });
  const runId = await endedRun(world, { input: `Continue ${named}.` });
  const { receipt } = await world.mill.erase({ run: runId });
  expect([receipt.runs, receipt.unreadable]).toEqual([[runId], { count: 1, runs: [named] }]);
  expect(await world.redis.exists(blob)).toBe(1);
});

test('a child that cannot be read goes with a parent whose record has its id', async () => {
  const world = await clientWorld();
  const { mill, redis, keys, prefix } = world;
  const [parent, { runId: child, blob }] = [await endedRun(world), await damagedRun(world, { metadata: {} })];
  const core = new ClientCore({ redis: inject('redisUrl'), prefix });
  onTestFinished(() => core.close());
  const at = new Date().toISOString();
  const run = { ...archived(parent, 'default', at), children: [{ runId: child }] };
  await writeOne(core.archive, written(run));
  await redis.del(keys.run(parent));
  expect((await mill.erase({ run: parent })).receipt).toMatchObject({
    runs: [parent, child].sort(),
    unreadable: { count: 1, runs: [child] },
  });
  expect(await redis.exists(blob)).toBe(0);
});

test('a file stays that only an old run of very many refers to', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  await endedRun(world, { input: file('shared'), metadata: {} });
  const newer = Array.from({ length: 20_001 }, (_, i) => [Date.now() + i, newRunId(i)]).flat();
  await redis.zadd(keys.index('default'), ...newer);
  const runId = await endedRun(world, { input: file('shared') });
  expect((await mill.erase({ run: runId })).receipt).toMatchObject({ erased: { media: 0 }, kept: { media: 1 } });
});

test('a file stays that only an old thread of many refers to', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const thread = (threadId: string) => keys.thread('default', threadId, 'log');
  await redis.xadd(thread('old'), '*', 'e', `{"media":"sha256-${sha256('shared')}"}`);
  const newer = Array.from({ length: 2_001 }, (_, i) => [i + 1, `t${i}`]).flat();
  await redis.zadd(keys.threads('default'), 0, 'old', ...newer);
  const runId = await endedRun(world, { input: file('shared') });
  expect((await mill.erase({ run: runId })).receipt).toMatchObject({ erased: { media: 0 }, kept: { media: 1 } });
});

test('a file counts as one that others may refer to when there is no time to look at all of them', async () => {
  const world = await clientWorld();
  const core = new ClientCore({ redis: inject('redisUrl'), prefix: world.prefix });
  onTestFinished(() => core.close());
  const client = { core, tenant: 'default', rights: 'operator' as const, requestId: undefined };
  const without = { runs: new Set<string>(), threads: new Set<string>() };
  const wanted = { media: [sha256('own')], files: [] };
  await endedRun(world);
  expect([...(await stillReferredTo(wanted, without, client))]).toEqual([]);
  expect([...(await stillReferredTo(wanted, without, client, 0))]).toEqual(wanted.media);
});

test('a file stays while a run that cannot be read may refer to it', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  await damagedRun(world, { metadata: {} });
  const runId = await endedRun(world, { input: file('shared') });
  expect((await mill.erase({ run: runId })).receipt).toMatchObject({ erased: { media: 0 }, kept: { media: 1 } });
  expect(await redis.exists(keys.media('default', sha256('shared')))).toBe(1);
});

test('a run of another tenant is not found, and stays', async () => {
  const world = await clientWorld();
  const runId = await endedRun(world);
  const other = world.mill.forTenant('other');
  expect(await codeOf(other.erase({ run: runId }))).toBe('run_not_found');
  expect((await other.erase({ metadata })).receipt.runs).toEqual([]);
  expect((await world.mill.get(runId)).status).toBe('cancelled');
});

test('producers that share a Redis sign with one key, and one with a setting with its own', async () => {
  const erasureKey = randomBytes(32).toString('base64');
  const own = await clientWorld({ erasureKey });
  const { receipt } = await own.mill.erase({ metadata });
  const { publicKey, keyId } = await own.mill.erasureKey();
  expect([receipt.keyId, verifyReceipt(receipt, publicKey)]).toEqual([keyId, true]);
  const { mill } = await clientWorld();
  const keys = await Promise.all([mill.erasureKey(), mill.forTenant('other').erasureKey(), mill.erasureKey()]);
  expect(new Set(keys.map((key) => key.keyId)).size).toBe(1);
  expect(verifyReceipt(receipt, keys[0].publicKey)).toBe(false);
});

/** Erases in a process of its own, which is killed so many commands after it began to write its plan down; with 1 it has written it. */
async function killedErasure({ prefix }: ClientWorld, asked: EraseRequest, commands: number): Promise<void> {
  const script = join(import.meta.dirname, '../../fixtures/eraser.ts');
  const args = [script, inject('redisUrl'), prefix, JSON.stringify(asked), String(commands)];
  const child = spawn(process.execPath, args, { stdio: 'inherit' });
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL']);
}

test.each([0, 5, 10, 15, 20])(
  'an erasure that is killed %i commands after it began goes on when it is asked for again, and counts all',
  async (commands) => {
    const world = await clientWorld();
    const { mill, redis, keys } = world;
    const runId = await endedRun(world, { input: file('secret words') });
    await killedErasure(world, { metadata }, commands);
    const { receipt } = await mill.erase({ metadata });
    expect(receipt).toMatchObject({ runs: [runId], erased: { records: 1, media: 1, lifecycleEvents: 2 } });
    expect(verifyReceipt(receipt, (await mill.erasureKey()).publicKey)).toBe(true);
    expect(await redis.exists(keys.run(runId), keys.events(runId), keys.erasing('default'))).toBe(0);
    expect(await redis.exists(keys.media('default', sha256('secret words')))).toBe(0);
    expect((await mill.erase({ metadata })).receipt.runs).toEqual([]);
  },
);

/** A run that has failed. */
async function failedRun({ mill, redis, keys }: ClientWorld): Promise<string> {
  const { runId } = await mill.enqueue({ ...request, metadata });
  const writer = new RunWriter(redis, keys, runId);
  await writer.start();
  await writer.end('failed');
  return runId;
}

test('a run that is redriven after its erasure was killed is left while it works, or cancelled, and keeps no other', async () => {
  const world = await clientWorld();
  const { mill, redis, keys, bull } = world;
  const runId = await failedRun(world);
  await killedErasure(world, { metadata }, 1);
  expect((await mill.redrive({ runId })).redriven).toEqual([runId]);
  const other = await endedRun(world);
  const { receipt, kept } = await mill.erase({ metadata });
  expect([receipt.runs, kept]).toEqual([[other], [{ runId, reason: 'open' }]]);
  expect((await mill.get(runId)).status).toBe('queued');
  const cancelled = await mill.erase({ metadata, cancel: true });
  expect(cancelled).toMatchObject({ receipt: { runs: [runId], erased: { records: 1, results: 1 } }, kept: [] });
  const jobs = [0, 1].map((segment) => bull('runs', jobIdFor(runId, segment)));
  expect(await redis.exists(keys.run(runId), keys.erasing('default'), ...jobs)).toBe(0);
});

test('a run that is redriven and ends while it is erased leaves nothing behind a receipt', async () => {
  const world = await clientWorld();
  const { mill, redis, keys, bull } = world;
  const runId = await failedRun(world);
  // A worker still has its job: the erasure waits, when it has removed the lifecycle events.
  const lock = bull('runs', `${jobIdFor(runId, 0)}:lock`);
  await redis.set(lock, 'token');
  const erased = codeOf(mill.erase({ run: runId }));
  await until('its lifecycle events are gone', async () => (await redis.xlen(keys.lifecycle)) === 0);
  await mill.redrive({ runId });
  await mill.cancel(runId);
  await redis.del(lock);
  expect(await erased).toBe('concurrent_run');
  const { receipt } = await mill.erase({ run: runId });
  expect(receipt).toMatchObject({ runs: [runId], erased: { records: 1 } });
  expect(await redis.exists(keys.run(runId), bull('runs', jobIdFor(runId, 1)))).toBe(0);
  expect(await redis.xlen(keys.lifecycle)).toBe(0);
});

test('a run that is redriven after its own erasure was killed is refused, and erased once it may be cancelled', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const runId = await failedRun(world);
  await killedErasure(world, { run: runId }, 1);
  await mill.redrive({ runId });
  expect(await codeOf(mill.erase({ run: runId }))).toBe('concurrent_run');
  expect((await mill.erase({ run: runId, cancel: true })).receipt).toMatchObject({
    runs: [runId],
    erased: { records: 1 },
  });
  expect(await redis.exists(keys.run(runId), keys.erasing('default'))).toBe(0);
});

test.each([1, 25])(
  'runs that came into a thread since its erasure was killed %i commands after it began go with it',
  async (commands) => {
    const world = await clientWorld();
    const { mill, redis, keys } = world;
    const first = await runInThread(world, 't');
    await killedErasure(world, { thread: 't' }, commands);
    const later = await runInThread(world, 't');
    const { receipt } = await mill.erase({ thread: 't' });
    expect(receipt).toMatchObject({ runs: [first, later].sort(), threads: ['t'], erased: { records: 2, threads: 1 } });
    expect(await redis.exists(keys.run(first), keys.run(later), keys.thread('default', 't', 'log'))).toBe(0);
  },
);

test('a file goes with the thread that refers to it, also when the run that was given it is past its time', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const [first, other] = [await runInThread(world, 't'), await endedRun(world, { input: file('kept'), metadata: {} })];
  const old = await endedRun(world, { input: file('private') });
  const said = (runId: string, text: string) => JSON.stringify({ runId, files: [`sha256-${sha256(text)}`] });
  const log = keys.thread('default', 't', 'log');
  for (const text of ['private', 'kept']) await redis.xadd(log, '*', 'e', said(old, text));
  await redis.del(keys.run(old), keys.journal(old), keys.events(old));
  await redis.zrem(keys.index('default'), old);
  const { receipt } = await mill.erase({ thread: 't' });
  expect(receipt).toMatchObject({ runs: [first], erased: { media: 1 }, kept: { media: 1 } });
  const isThere = async (text: string) => await redis.exists(keys.media('default', sha256(text)));
  expect([await isThere('private'), await isThere('kept')]).toEqual([0, 1]);
  expect((await mill.get(other)).status).toBe('cancelled');
});

test.each(['listed', 'forgotten'])('what is left of a run that is past its time and %s goes by its id', async (how) => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const runId = await endedRun(world);
  await mill.writeProgress(runId, { text: 'private' });
  const kept = { toolName: 't', trust: 'external', sensitivity: 'internal', id: 'x', totalBytes: 7 };
  await redis.hset(keys.artifacts(runId), 'a', JSON.stringify(kept));
  await redis.hset(keys.artifactBody(runId, 'x'), '0', 'private');
  await redis.del(keys.run(runId), keys.journal(runId), keys.events(runId));
  if (how === 'forgotten') await redis.zrem(keys.index('default'), runId);
  expect(await codeOf(mill.forTenant('other').erase({ run: runId }))).toBe('run_not_found');
  const { receipt } = await mill.erase({ run: runId });
  expect(receipt).toMatchObject({ runs: [runId], erased: { records: 0, progressNotes: 1 } });
  expect(receipt.unreadable).toBeUndefined();
  const left = [keys.progress, keys.progressTexts, keys.progressNumbers].map((key) => key('default', runId));
  expect(await redis.exists(...left, keys.artifacts(runId), keys.artifactBody(runId, 'x'))).toBe(0);
  expect(await codeOf(mill.erase({ run: runId }))).toBe('gone');
});

test('a child is erased by itself once its parent is past its time', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const [parent, child] = [await endedRun(world), await endedRun(world, { metadata: {} })];
  const lineage = { runId: parent, depth: 1, ancestors: [] };
  await redis.hset(keys.run(child), { parent: JSON.stringify(lineage), parentRunId: parent });
  await redis.del(keys.run(parent), keys.journal(parent), keys.events(parent));
  expect((await mill.erase({ run: child })).receipt.runs).toEqual([child]);
});

test('a file that a run was given since the erasure of another was killed stays', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  await endedRun(world, { input: file('shared') });
  await killedErasure(world, { metadata }, 1);
  await endedRun(world, { input: file('shared'), metadata: {} });
  expect((await mill.erase({ metadata })).receipt).toMatchObject({ erased: { media: 0 }, kept: { media: 1 } });
  expect(await redis.exists(keys.media('default', sha256('shared')))).toBe(1);
});
