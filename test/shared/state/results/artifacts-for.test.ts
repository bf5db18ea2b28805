import { mkdtempSync, readFileSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../../src/shared/base/clock.ts';
import { parseConfig } from '../../../../src/shared/contract/config.ts';
import { type Log, silentLog } from '../../../../src/shared/base/log.ts';
import { keysFor } from '../../../../src/shared/state/keys.ts';
import { noteErased } from '../../../../src/shared/state/erasure/erased-runs.ts';
import { artifactsFor } from '../../../../src/shared/state/results/artifacts-for.ts';
import { startS3Server, withoutS3 } from '../../../support/s3-server.ts';
import { testPrefix, testRedis, until } from '../../../support/redis.ts';

const run = '01KAPN3YV8Q2T5W7X9Z0A1B2C3';
const info = { toolName: 'report', trust: 'built-in', sensitivity: 'public' } as const;
const note = { runId: run, tenant: 'acme', role: 'agent', text: 'note', sensitivity: 'public', tags: [] } as const;

function folder(): string {
  const root = mkdtempSync(join(tmpdir(), 'millrace-store-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  return root;
}

async function makeWorld() {
  const warnings: string[] = [];
  const log = { ...silentLog, warn: (_: unknown, text: string) => void warnings.push(text) } as Log;
  const redis = await testRedis();
  const keys = keysFor(testPrefix());
  const open = (store: string) =>
    artifactsFor(parseConfig({ ARTIFACT_STORE: store }), { redis, keys, clock: systemClock, log });
  return { warnings, redis, keys, open };
}

test('in Redis both results and notes are in Redis', async () => {
  const { redis, keys, open } = await makeWorld();
  await using store = await open('redis');
  await store.artifacts.put(run, 'one', Buffer.from('text'), info);
  await store.progress.write({ ...note, key: 'k' });
  expect(await redis.exists(keys.artifacts(run), keys.progressTexts('acme', run))).toBe(2);
});

test('in a folder both are files, and the folder is made', async () => {
  const root = join(folder(), 'new/place');
  const { redis, keys, open, warnings } = await makeWorld();
  await using store = await open(`file:${root}`);
  await store.artifacts.put(run, 'one', Buffer.from('text'), info);
  const { ref } = await store.progress.write({ ...note, key: 'k' });
  expect(readdirSync(root, { recursive: true })).toEqual(expect.arrayContaining([`${run}/spill/one`, ref]));
  expect(await redis.exists(keys.artifacts(run), keys.progressTexts('acme', run))).toBe(0);
  expect(warnings).toEqual([]);
});

test('a folder whose mark another process is still writing, or died before it wrote, is no other folder', async () => {
  const root = folder();
  writeFileSync(join(root, '.millrace-artifacts'), '');
  const { redis, keys, open, warnings } = await makeWorld();
  await using first = await open(`file:${root}`);
  await until('the folder is announced', async () => (await redis.exists(keys.artifactRoot)) === 1);
  const mark = readFileSync(join(root, '.millrace-artifacts'), 'utf8');
  expect(mark).not.toBe('');
  expect(await redis.get(keys.artifactRoot)).toBe(mark);
  await using second = await open(`file:${root}`);
  await Promise.all([first, second].map((store) => store.artifacts.put(run, 'one', Buffer.from('text'), info)));
  expect(warnings).toEqual([]);
});

test.each(['redis', 'folder'])(
  'what a stopped worker writes of a run that was erased goes at once: %s',
  async (kind) => {
    const root = folder();
    const { redis, keys, open } = await makeWorld();
    await using store = await open(kind === 'redis' ? 'redis' : `file:${root}`);
    const keep = async () => await store.artifacts.put(run, 'one', Buffer.from('text'), info);
    const write = async () => await store.progress.write({ ...note, key: 'k' });
    const places = async () => [
      await redis.exists(keys.artifacts(run), keys.progress('acme', run)),
      readdirSync(root).filter((name) => name === run).length,
    ];
    await noteErased({ redis, keys }, { runId: run, createdAt: '2026-01-02T03:04:05.000Z' });
    for (const leave of [keep, write]) {
      await leave();
      expect(await places()).toEqual([0, 0]);
    }
    // A later run under the same id has its own.
    await redis.hset(keys.run(run), { runId: run });
    await keep();
    expect(await places()).not.toEqual([0, 0]);
  },
);

test('files and media whose time is over are removed, at once and by one process, and strays with the results', async () => {
  const root = folder();
  const { redis, keys, open } = await makeWorld();
  const names = () => readdirSync(join(root, 'files')).toSorted();
  {
    await using store = await open(`file:${root}`);
    for (const name of ['ended', 'stays', 'stray', 'young-stray'])
      await store.blobs.put(name, 'part', Buffer.from('x'), Date.now() + 1_000_000);
  }
  await redis.zadd(keys.blobEnds, 1, 'ended');
  await redis.zrem(keys.blobEnds, 'stray', 'young-stray');
  // A record that was being written when its worker died, and what is not ours.
  for (const name of ['.tmp-0123', 'read.me']) writeFileSync(join(root, 'files', name), 'x');
  const longAgo = new Date(Date.now() - 32 * 86_400_000);
  for (const name of ['stray', 'stays', '.tmp-0123', 'read.me'])
    utimesSync(join(root, 'files', name), longAgo, longAgo);
  await (await open(`file:${root}`))[Symbol.asyncDispose]();
  expect(names()).toEqual(['.tmp-0123', 'ended', 'read.me', 'stays', 'stray', 'young-stray']);
  await redis.del(keys.blobSweep, keys.artifactSweep);
  await (await open(`file:${root}`))[Symbol.asyncDispose]();
  expect(names()).toEqual(['read.me', 'stays', 'young-stray']);
  expect(await redis.zrange(keys.blobEnds, '0', '-1')).toEqual(['stays']);
});

test.skipIf(withoutS3)('in a bucket results are objects, and notes are in Redis', async () => {
  const server = await startS3Server();
  onTestFinished(() => server.stop());
  const { redis, keys, open } = await makeWorld();
  await using store = await open(`s3://${server.bucket}/a?endpoint=${server.endpoint}&region=us-east-1`);
  await store.artifacts.put(run, 'one', Buffer.from('text'), info);
  expect((await store.artifacts.read(run, 'one', 1, 2))?.bytes.toString()).toBe('ex');
  await store.progress.write({ ...note, key: 'k' });
  expect(await redis.exists(keys.artifacts(run))).toBe(0);
  expect(await redis.exists(keys.progressTexts('acme', run))).toBe(1);
});

test('a folder that cannot be written to stops the start with a reason', async () => {
  const root = folder();
  writeFileSync(join(root, 'file'), '');
  const { open } = await makeWorld();
  await expect(open(`file:${root}/file/below`)).rejects.toMatchObject({
    code: 'invalid_config',
    message: `ARTIFACT_STORE: files cannot be written in ${root}/file/below (ENOTDIR)`,
  });
});

test('workers with one folder are content; one with a folder of its own warns', async () => {
  const { open, warnings, redis, keys } = await makeWorld();
  const shared = folder();
  const first = await open(`file:${shared}`);
  await until('the mark', () => redis.exists(keys.artifactRoot));
  const second = await open(`file:${shared}`);
  for (const store of [first, second]) await store[Symbol.asyncDispose]();
  expect(warnings).toEqual([]);
  await using other = await open(`file:${folder()}`);
  await other[Symbol.asyncDispose]();
  expect(warnings).toEqual([expect.stringContaining('mount the same one everywhere')]);
});

test('a worker that starts sweeps, and another one soon after does not', async () => {
  const { open } = await makeWorld();
  const root = folder();
  const put = async () => {
    await using store = await open(`file:${root}`);
    await store[Symbol.asyncDispose]();
    await store.artifacts.put(run, 'old', Buffer.from('text'), info);
    const longAgo = new Date(Date.now() - 8 * 86_400_000);
    utimesSync(join(root, run, 'spill/old'), longAgo, longAgo);
  };
  await put();
  const { open: openElsewhere } = await makeWorld();
  await (await openElsewhere(`file:${root}`))[Symbol.asyncDispose]();
  expect(readdirSync(root)).not.toContain(run);
  await put();
  await (await open(`file:${root}`))[Symbol.asyncDispose]();
  expect(readdirSync(join(root, run, 'spill'))).toEqual(['old']);
});
