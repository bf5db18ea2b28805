import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { leftBehindMs, lockPath, OutputLock } from '../../../src/producer/batch/output-lock.ts';
import { until } from '../../support/redis.ts';
import { BatchOutput } from '../../../src/producer/batch/batch-output.ts';
import { scratchFolder } from './support.ts';

const newFile = () => join(scratchFolder(), 'out.jsonl');
const refusal = (text: string) => ({ code: 'validation', message: expect.stringContaining(text) as string });

/** The lock that another process made: like one of this process, but for this. */
async function foreignLock(out: string, other: Readonly<Record<string, unknown>>): Promise<string> {
  await using _ = await OutputLock.take(out);
  const note = JSON.parse(readFileSync(lockPath(out), 'utf8')) as Record<string, unknown>;
  return `${JSON.stringify({ ...note, nonce: 'other', ...other })}\n`;
}

function setAge(out: string, ageMs: number): void {
  const at = new Date(Date.now() - ageMs);
  utimesSync(lockPath(out), at, at);
}

test('an output file has one writer at a time, under whatever name it is opened', async () => {
  const out = newFile();
  const link = join(scratchFolder(), 'link.jsonl');
  symlinkSync(out, link);
  const of = { batch: { file: '/nowhere/in.jsonl', name: 'key', defaults: {} }, lines: new Map(), retryFailed: false };
  const first = await BatchOutput.open(out, of);
  await expect(BatchOutput.open(link, of)).rejects.toMatchObject(
    refusal(`another batch command writes it (the process ${process.pid} on ${hostname()}, since `),
  );
  await first[Symbol.asyncDispose]();
  expect(existsSync(lockPath(out))).toBe(false);
  await using _ = await BatchOutput.open(link, of);
  expect(existsSync(lockPath(out))).toBe(true);
});

test('of many that want a lock that was left behind, one gets it', async () => {
  const out = newFile();
  const gone = spawnSync(process.execPath, ['-e', '']).pid;
  writeFileSync(lockPath(out), await foreignLock(out, { pid: gone }));
  const tries = await Promise.allSettled(Array.from({ length: 20 }, () => OutputLock.take(out)));
  const got = tries.filter((one) => one.status === 'fulfilled');
  expect(got).toHaveLength(1);
  await got[0]?.value[Symbol.asyncDispose]();
  expect(existsSync(lockPath(out))).toBe(false);
});

test('a lock of another host counts until it was not refreshed for a minute', async () => {
  const out = newFile();
  writeFileSync(lockPath(out), await foreignLock(out, { host: 'elsewhere', machine: 'elsewhere', pid: 7 }));
  setAge(out, leftBehindMs / 2);
  await expect(OutputLock.take(out)).rejects.toMatchObject(refusal('(the process 7 on elsewhere, since '));
  setAge(out, leftBehindMs + 1_000);
  await using _ = await OutputLock.take(out);
});

test('a file that is no lock is named, and counts as one', async () => {
  const out = newFile();
  writeFileSync(lockPath(out), '');
  await expect(OutputLock.take(out)).rejects.toMatchObject(refusal(`(as ${lockPath(out)} says)`));
});

test('a lock is refreshed while it is held, and made again when it was removed by hand', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const out = newFile();
  await using _ = await OutputLock.take(out);
  setAge(out, leftBehindMs);
  vi.advanceTimersByTime(5_000);
  await until('the lock to be refreshed', () => Date.now() - statSync(lockPath(out)).mtimeMs < leftBehindMs / 2);
  rmSync(lockPath(out));
  vi.advanceTimersByTime(5_000);
  await until('the lock to be there again', () => existsSync(lockPath(out)));
  await expect(OutputLock.take(out)).rejects.toMatchObject({ code: 'validation' });
});

test('a process that stood still writes nothing more once another one has taken over, and leaves its lock', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  const out = newFile();
  const other = await foreignLock(out, { pid: 7 });
  const lock = await OutputLock.take(out);
  writeFileSync(lockPath(out), other);
  vi.setSystemTime(Date.now() + leftBehindMs);
  await expect(lock.prove()).rejects.toMatchObject(refusal('another command has taken over'));
  await lock[Symbol.asyncDispose]();
  expect(readFileSync(lockPath(out), 'utf8')).toBe(other);
});
