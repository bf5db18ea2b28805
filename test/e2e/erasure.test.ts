import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { Millrace, verifyReceipt } from '../../src/producer/index.ts';
import { unpacked } from '../../src/shared/state/archive/packing.ts';
import type { RedisConnection } from '../../src/shared/state/connect.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { millrace } from '../producer/cli/support/cli-process.ts';
import { batchIs, fileText, submitBatch } from '../support/batches.ts';
import { call } from '../support/http.ts';
import { planInput } from '../support/plan.ts';
import { testRedis, until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

const canary = 'canary7f3a91';
const metadata = { user: canary };

/** Every key of a prefix with all that it holds, bytes as latin1. */
async function everything(redis: RedisConnection, prefix: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  let cursor = '0';
  do {
    const [next, names] = await redis.scan(cursor, 'MATCH', `*${prefix}*`, 'COUNT', 1_000);
    cursor = next;
    for (const name of names) found.set(name, await valueOf(redis, name));
  } while (cursor !== '0');
  return found;
}

async function valueOf(redis: RedisConnection, name: string): Promise<string> {
  const text = (parts: unknown): string => {
    if (Buffer.isBuffer(parts)) return parts.toString('latin1');
    return Array.isArray(parts) ? parts.map(text).join('\n') : String(parts);
  };
  switch (await redis.type(name)) {
    case 'string':
      return text(await redis.getBuffer(name));
    case 'hash':
      return text(await redis.callBuffer('HGETALL', name));
    case 'list':
      return text(await redis.callBuffer('LRANGE', name, 0, -1));
    case 'set':
      return text(await redis.callBuffer('SMEMBERS', name));
    case 'zset':
      return text(await redis.callBuffer('ZRANGE', name, 0, -1));
    case 'stream':
      return text(await redis.callBuffer('XRANGE', name, '-', '+'));
    default:
      return '';
  }
}

/** Every file below a folder by its path, and what an archived run says after it is unpacked. */
async function filesBelow(folder: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const path = join(folder, name);
    if (!statSync(path).isFile()) continue;
    const bytes = readFileSync(path);
    const plain = await unpacked(bytes, name).catch(() => undefined);
    found.set(path, bytes.toString('latin1') + JSON.stringify(plain ?? ''));
  }
  return found;
}

function holders(places: ReadonlyMap<string, string>): string[] {
  return [...places].filter(([name, content]) => `${name}\n${content}`.includes(canary)).map(([name]) => name);
}

const root = mkdtempSync(join(tmpdir(), 'millrace-erasure-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const shared = shareWorld({ producer: true, env: { ARTIFACT_STORE: `file:${root}`, ARCHIVE_TTL_S: '3600' } });

async function erasureWorld() {
  const { world } = shared;
  const { redisUrl, prefix } = world.fleet;
  const redis = await testRedis('work', redisUrl);
  const mill = new Millrace({ redis: redisUrl, prefix, artifactStore: `file:${root}`, modelAllowlist: ['*'] });
  onTestFinished(() => mill.close());
  const inRedis = async () => holders(await everything(redis, prefix));
  const inFolder = async () => holders(await filesBelow(root));
  return { world, redis, prefix, mill, inRedis, inFolder, keys: keysFor(prefix) };
}

/** What a user leaves in every place that there is. */
async function userOf({ world, mill }: Awaited<ReturnType<typeof erasureWorld>>) {
  const thread = `talk-${canary}`;
  const said = await mill.enqueue({
    agent: 'hands',
    input: planInput({ calls: [{ name: 'big' }] }, { text: `Hello ${canary}.` }),
    thread,
    metadata,
  });
  await said.result();
  await mill.threads.update(thread, { title: `About ${canary}` });
  const child = { agent: 'plain', message: planInput({ text: `Child of ${canary}` }) };
  const asking = planInput({ calls: [{ name: 'ask_agent', args: child }] }, { text: `Asked ${canary}` });
  const asked = await mill.enqueue({ agent: 'asker', input: asking, metadata, executionId: `once-${canary}` });
  await asked.result();
  await mill.writeProgress(asked.runId, { text: `Note of ${canary}` });
  const cancelled = await mill.enqueue({
    agent: 'plain',
    input: [
      { type: 'text', text: planInput({ text: 'x' }) },
      {
        type: 'file',
        data: Buffer.from(`file ${canary} ${'x'.repeat(300_000)}`).toString('base64'),
        mediaType: 'text/plain',
        name: 'notes.txt',
      },
    ],
    metadata,
    delayMs: 3_600_000,
  });
  await cancelled.cancel();
  const line = (id: string, text: string, about: object) => ({ id, input: planInput({ text }), ...about });
  const lines = [
    line('a', `Line ${canary}`, { metadata }),
    line('b', 'Kept line', {}),
    line(`c-${canary}`, 'x', { metadata }),
  ];
  const { id: batch } = await submitBatch(mill, lines, { agent: 'plain' });
  const { output_file_id: output = '', input_file_id: input } = await batchIs(mill, batch, ['completed'], 30_000);
  const kept = await mill.enqueue({
    agent: 'plain',
    input: planInput({ text: 'Of someone else' }),
    metadata: { user: 'other' },
  });
  await kept.result();
  await world.ended(kept);
  return { thread, said, asked, cancelled, kept, output, input };
}

async function archived({ redis, keys, inFolder }: Awaited<ReturnType<typeof erasureWorld>>): Promise<void> {
  await until(
    'all is archived',
    async () => (await redis.zcard(keys.archiveDue)) === 0 && (await inFolder()).some((path) => path.includes('run-')),
    20_000,
  );
}

test('erasing a user leaves no byte in Redis, the archive or the store, and gives a receipt that verifies', async () => {
  const at = await erasureWorld();
  const { mill, world } = at;
  const user = await userOf(at);
  await archived(at);
  const places = [...(await at.inRedis()), ...(await at.inFolder())].join('\n');
  for (const part of [':run', ':journal', ':lifecycle', 'progress', ':log', 'record'])
    expect(places, part).toContain(part);

  const { status, body } = await call('DELETE', `${world.url}/v1/runs?metadata.user=${canary}&threads=true`);
  expect([status, body.kept, body.cursor]).toEqual([200, [], undefined]);
  const { receipt } = body;
  expect(receipt).toMatchObject({ of: 'runs', metadataKeys: ['user'], threads: [user.thread], by: 'local' });
  // With the child of one, and two lines of the batch.
  expect(receipt.runs).toHaveLength(6);
  expect(receipt.runs).toEqual(expect.arrayContaining([user.said.runId, user.asked.runId, user.cancelled.runId]));
  expect(receipt.erased).toMatchObject({ records: 6, threads: 1, progressNotes: 1, media: 1, batchLines: 4 });
  for (const name of ['journalEntries', 'events', 'lifecycleEvents', 'archived', 'threadEntries'])
    expect(receipt.erased[name], name).toBeGreaterThan(0);

  expect(await at.inRedis()).toEqual([]);
  expect(await at.inFolder()).toEqual([]);
  const folders = readdirSync(root, { recursive: true, encoding: 'utf8' }).join('\n');
  for (const runId of receipt.runs) expect(folders).not.toContain(runId);

  const { publicKey } = (await call('GET', `${world.url}/v1/erasure-key`)).body;
  expect(verifyReceipt(receipt, publicKey)).toBe(true);
  expect(verifyReceipt({ ...receipt, runs: receipt.runs.slice(1) }, publicKey)).toBe(false);
  expect(verifyReceipt({ ...receipt, extra: 1 }, publicKey)).toBe(false);

  // What is of others is there as before.
  expect((await mill.get(user.kept.runId)).status).toBe('completed');
  await expect(mill.get(user.said.runId)).rejects.toMatchObject({ code: 'gone', details: { reason: 'erased' } });
  await expect(mill.threads.get(user.thread)).rejects.toMatchObject({ code: 'not_found' });
  for (const file of [user.output, user.input]) {
    const lines = (await fileText(mill, file))
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
    expect(lines.filter((line) => 'erased' in line)).toHaveLength(2);
    expect(lines.filter((line) => !('erased' in line))).toMatchObject([{ id: 'b' }]);
  }
  const { entries } = await mill.audit({ kind: 'erasure' });
  expect(entries).toMatchObject([{ receiptId: receipt.receiptId, of: 'runs', runs: 6, threads: 1, by: 'local' }]);
  const again = await mill.erase({ metadata, threads: true });
  expect(again.receipt).toMatchObject({ runs: [], threads: [] });
});

test('a run whose record is gone is erased from the archive, and the command keeps and verifies the receipt', async () => {
  const at = await erasureWorld();
  const { mill, redis, keys, prefix, world } = at;
  const run = await mill.enqueue({ agent: 'plain', input: planInput({ text: canary }), metadata });
  await run.result();
  await archived(at);
  await redis.del(keys.run(run.runId), keys.journal(run.runId), keys.events(run.runId));
  expect(await at.inFolder()).not.toEqual([]);
  const file = join(root, '..', `receipt-${prefix}.jsonl`);
  onTestFinished(() => rmSync(file, { force: true }));
  const env = { MILLRACE_URL: world.url };
  const erased = await millrace(['erase', '--metadata', `user=${canary}`, '--yes', '-o', file], { env });
  expect([erased.code, erased.stderr]).toEqual([0, 'Erased: 1 runs, 0 threads.\n']);
  expect(await at.inFolder()).toEqual([]);
  expect(await at.inRedis()).toEqual([]);
  expect((await millrace(['receipt', 'verify', file], { env })).code).toBe(0);
  writeFileSync(file, readFileSync(file, 'utf8').replace('"records":0', '"records":1'));
  const changed = await millrace(['receipt', 'verify', file], { env });
  expect([changed.code, changed.stdout.slice(0, 9)]).toEqual([1, 'NOT VALID']);
});

test('the command names a run whose record is damaged as left, and erases it by its id', async () => {
  const at = await erasureWorld();
  const { mill, redis, keys, world } = at;
  const run = await mill.enqueue({ agent: 'plain', input: planInput({ text: canary }), metadata });
  await run.result();
  await archived(at);
  await redis.del(keys.run(run.runId), keys.journal(run.runId), keys.events(run.runId));
  const [blob = ''] = await at.inFolder();
  writeFileSync(blob, readFileSync(blob).subarray(0, 100));
  const env = { MILLRACE_URL: world.url };
  const left = await millrace(['erase', '--metadata', `user=${canary}`, '--yes'], { env });
  const none = 'Erased: 0 runs, 0 threads.';
  expect([left.code, left.stderr]).toEqual([1, `Left: ${run.runId} (unreadable)\n${none}\n`]);
  expect(existsSync(blob)).toBe(true);
  const erased = await millrace(['erase', run.runId], { env });
  const unknown = `Erased, but what belongs to it is not known: ${run.runId} (unreadable)`;
  expect([erased.code, erased.stderr]).toEqual([1, `${unknown}\nErased: 1 runs, 0 threads.\n`]);
  expect(existsSync(blob)).toBe(false);
});

test('a run that works is refused, or cancelled first where that is asked', async () => {
  const at = await erasureWorld();
  const { mill, world } = at;
  const slow = planInput({ text: `${canary} word word`, pieces: 3, hold: { gate: 'never', afterPieces: 1 } });
  const run = await mill.enqueue({ agent: 'plain', input: slow, metadata });
  await until('it runs', async () => (await run.get()).status === 'running');
  const url = `${world.url}/v1/runs/${run.runId}`;
  const refused = await call('DELETE', url);
  expect([refused.status, refused.body.error.code]).toEqual([409, 'concurrent_run']);
  const { kept } = await mill.erase({ metadata });
  expect(kept).toEqual([{ runId: run.runId, reason: 'open' }]);
  expect((await call('DELETE', `${url}?cancel=true`)).body.receipt.runs).toEqual([run.runId]);
  expect(await at.inRedis()).toEqual([]);
  const again = await call('DELETE', url);
  expect([again.status, again.body.error.code, again.body.error.details]).toEqual([410, 'gone', { reason: 'erased' }]);
});

test('a thread goes with all of its runs, and one of its runs only with it', async () => {
  const at = await erasureWorld();
  const { mill, world } = at;
  const turn = async (text: string) => {
    const run = await mill.enqueue({ agent: 'plain', input: planInput({ text }), thread: 't1' });
    await run.result();
    return run.runId;
  };
  const runs = [await turn(canary), await turn('Another turn.')].sort();
  const [first = ''] = runs;
  const alone = await call('DELETE', `${world.url}/v1/runs/${first}`);
  expect([alone.status, alone.body.error.message]).toEqual([400, expect.stringContaining('thread')]);
  const { status, body } = await call('DELETE', `${world.url}/v1/threads/t1?runs=true`);
  expect([status, body.deleted, body.receipt.runs, body.receipt.threads]).toEqual([200, true, runs, ['t1']]);
  expect(await at.inRedis()).toEqual([]);
  expect((await call('DELETE', `${world.url}/v1/threads/t1?runs=true`)).status).toBe(404);
});
