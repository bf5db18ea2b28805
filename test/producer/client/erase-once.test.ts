import { expect, test } from 'vitest';
import type { EraseRequest } from '../../../src/producer/index.ts';
import { sha256 } from '../../../src/shared/base/ids.ts';
import { canonicalJson } from '../../../src/shared/base/json.ts';
import { monitorRedis, until } from '../../support/redis.ts';
import { codeOf, clientWorld, request } from '../cli/options/client.ts';
import { endedRun, metadata, runInThread } from './ended-runs.ts';

test('an answer that got lost is there again under its key, for the same request only', async () => {
  const world = await clientWorld();
  const { mill } = world;
  const [run, other] = [await endedRun(world), await endedRun(world)];
  const first = await mill.erase({ run, idempotencyKey: 'k' });
  expect(await mill.erase({ run, idempotencyKey: 'k' })).toEqual(first);
  expect(await codeOf(mill.erase({ run }))).toBe('gone');
  expect(await codeOf(mill.erase({ run: other, idempotencyKey: 'k' }))).toBe('idempotency_conflict');
  const many = await mill.erase({ metadata, idempotencyKey: 'many' });
  expect(many.receipt.runs).toEqual([other]);
  expect(await mill.erase({ metadata, idempotencyKey: 'many' })).toEqual(many);
  // Otherwise it would have found more.
  expect(await codeOf(mill.erase({ metadata, threads: true, idempotencyKey: 'many' }))).toBe('idempotency_conflict');
  const stranger = await clientWorld();
  expect(await codeOf(stranger.mill.erase({ run, idempotencyKey: 'k' }))).toBe('run_not_found');
  const key = world.keys.erasureAnswer('default', sha256('k'));
  expect(await world.redis.ttl(key)).toBeGreaterThan(3_000);
});

test('requests at the same time under one key have one receipt, and other requests under it are refused', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const [run, other] = [await endedRun(world), await endedRun(world)];
  const twice = async (asked: EraseRequest) => await Promise.all([mill.erase(asked), mill.erase(asked)]);
  const [first, second] = await twice({ run, idempotencyKey: 'one' });
  expect([first.receipt.runs, second]).toEqual([[run], first]);
  const [many, again] = await twice({ metadata, idempotencyKey: 'many' });
  expect([many.receipt.runs, again]).toEqual([[other], many]);
  await runInThread(world, 't');
  const [thread, same] = await twice({ thread: 't', idempotencyKey: 'thread' });
  expect([thread.receipt.threads, same]).toEqual([['t'], thread]);
  expect((await Array.fromAsync(mill.auditEntries())).filter(({ kind }) => kind === 'erasure')).toHaveLength(3);

  const [third, fourth] = [await endedRun(world), await endedRun(world)];
  const mixed = [mill.erase({ run: third, idempotencyKey: 'k' }), mill.erase({ run: fourth, idempotencyKey: 'k' })];
  const codes = await Promise.all(mixed.map(codeOf));
  expect(codes.filter((code) => code === 'idempotency_conflict')).toHaveLength(1);
  expect((await mill.list()).runs).toHaveLength(1);
  expect(
    await redis.exists(...['one', 'many', 'thread', 'k'].map((key) => keys.erasureClaim('default', sha256(key)))),
  ).toBe(0);
});

test('a request goes on where the one before it under its key has failed, or its process is lost', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const { runId: run } = await mill.enqueue({ ...request, metadata });
  const refused = [mill.erase({ run, idempotencyKey: 'k' }), mill.erase({ run, idempotencyKey: 'k' })];
  expect(await Promise.all(refused.map(codeOf))).toEqual(['concurrent_run', 'concurrent_run']);
  await mill.cancel(run);
  const asked = sha256(
    canonicalJson({ digest: sha256(canonicalJson({ run })), cancel: false, threads: false, limit: 100 }),
  );
  const claim = keys.erasureClaim('default', sha256('k'));
  await redis.set(claim, `lost ${asked}`, 'PX', 60_000);
  const commandsOn = await monitorRedis(redis);
  const erasing = mill.erase({ run, idempotencyKey: 'k' });
  await until('it has looked again', async () => (await commandsOn(claim)).length > 1);
  expect((await mill.get(run)).status).toBe('cancelled');
  await redis.pexpire(claim, 1);
  expect((await erasing).receipt.runs).toEqual([run]);
});
