import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, inject, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { redisProgress } from '../../src/shared/state/results/progress-notes.ts';
import { testPrefix, testRedis, until } from '../support/redis.ts';
import { draft, progressContract } from './progress-notes.ts';
import { redisProgressWorld } from './progress-redis-world.ts';

const run = '01KAPN3YV8Q2T5W7X9Z0A1B2C3';

function folder(): string {
  const root = mkdtempSync(join(tmpdir(), 'millrace-progress-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  return root;
}

progressContract('Folder', async () => (await redisProgressWorld({ root: folder() })).worker);

test('a text is a file of its own, for its owner only, and nowhere in Redis', async () => {
  const root = folder();
  const { keys, redis, worker } = await redisProgressWorld({ root });
  const note = await (await worker()).write(draft('the text'));
  expect(note.ref).toBe(`${run}/progress/agent.001.txt`);
  expect(readFileSync(join(root, note.ref), 'utf8')).toBe('the text');
  expect(statSync(join(root, note.ref)).mode & 0o777).toBe(0o600);
  expect(await redis.exists(keys.progressTexts('acme', run))).toBe(0);
  expect(JSON.stringify(await redis.hgetall(keys.progress('acme', run)))).not.toContain('the text');
});

test('a write that fails removes its temporary file, and nothing of it is read', async () => {
  const root = folder();
  const { worker } = await redisProgressWorld({ root });
  const notes = await worker();
  await notes.write(draft('one'));
  mkdirSync(join(root, run, 'progress/agent.002.txt'));
  await expect(notes.write(draft('two'))).rejects.toMatchObject({ code: 'progress_write_failed' });
  expect(readdirSync(join(root, run, 'progress'))).toEqual(['agent.001.txt', 'agent.002.txt']);
  expect(await notes.read('acme', run, {})).toHaveLength(1);
});

test('a Redis that forgot its numbers does not let a file be replaced', async () => {
  const root = folder();
  const { keys, redis, worker } = await redisProgressWorld({ root });
  const notes = await worker();
  for (const text of ['one', 'two']) await notes.write(draft(text));
  await redis.unlink(keys.progressNumbers('acme', run), keys.progress('acme', run));
  await expect(notes.write(draft('stranger', { seq: 2 }))).rejects.toMatchObject({ code: 'progress_write_failed' });
  expect((await notes.write(draft('three'))).seq).toBe(3);
  expect(readFileSync(join(root, run, 'progress/agent.002.txt'), 'utf8')).toBe('two');
});

test('a text that is not what was written is not shown', async () => {
  const root = folder();
  const { worker } = await redisProgressWorld({ root });
  const notes = await worker();
  const note = await notes.write(draft('mine'));
  writeFileSync(join(root, note.ref), 'changed');
  expect(await notes.read('acme', run, {})).toEqual([{ note }]);
});

test('a writer that is killed in the middle leaves no note that is only a part', async () => {
  const [root, prefix, url] = [folder(), testPrefix(), inject('redisUrl')];
  const redis = await testRedis();
  const keys = keysFor(prefix);
  const notes = redisProgress({ redis, keys, clock: systemClock, ttlS: 1_000, root });
  const script = join(import.meta.dirname, '../fixtures/progress-writer.ts');
  for (let round = 1; round <= 3; round++) {
    const before = await redis.hlen(keys.progress('acme', run));
    const child = spawn(process.execPath, [script, url, prefix, root, run], { stdio: 'ignore' });
    onTestFinished(() => void child.kill('SIGKILL'));
    await until('some notes', async () => (await redis.hlen(keys.progress('acme', run))) >= before + 5 * round);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await redis.unlink(keys.progressNumbers('acme', run));
    const read = await notes.read('acme', run, {});
    expect(read.length).toBeGreaterThanOrEqual(5);
    for (const { text } of read) expect(Buffer.byteLength(text ?? '')).toBe(60 * 1024);
  }
});
