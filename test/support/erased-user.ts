import { GetObjectCommand, paginateListObjectsV2, type S3Client } from '@aws-sdk/client-s3';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { verifyReceipt, type Millrace } from '../../src/producer/index.ts';
import { unpacked } from '../../src/shared/state/archive/packing.ts';
import type { RedisConnection } from '../../src/shared/state/connect.ts';
import type { Keys } from '../../src/shared/state/keys.ts';
import { batchIs, fileText, submitBatch } from './batches.ts';
import { call } from './http.ts';
import { planInput } from './plan.ts';
import { until } from './redis.ts';
import type { World } from './world.ts';

export const canary = 'canary7f3a91';
export const metadata = { user: canary };

/** Every key of a prefix on these nodes with all that it holds. */
export async function everything(
  nodes: readonly RedisConnection[],
  prefix: string,
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for (const redis of nodes) {
    let cursor = '0';
    do {
      const [next, names] = await redis.scan(cursor, 'MATCH', `*${prefix}*`, 'COUNT', 1_000);
      cursor = next;
      for (const name of names) found.set(name, await textIn(await valueOf(redis, name)));
    } while (cursor !== '0');
  }
  return found;
}

async function valueOf(redis: RedisConnection, name: string): Promise<unknown> {
  switch (await redis.type(name)) {
    case 'string':
      return await redis.getBuffer(name);
    case 'hash':
      return await redis.callBuffer('HGETALL', name);
    case 'list':
      return await redis.callBuffer('LRANGE', name, 0, -1);
    case 'set':
      return await redis.callBuffer('SMEMBERS', name);
    case 'zset':
      return await redis.callBuffer('ZRANGE', name, 0, -1);
    case 'stream':
      return await redis.callBuffer('XRANGE', name, '-', '+');
    default:
      return '';
  }
}

/** Bytes as latin1, and what an archived run says after it is unpacked. */
async function textIn(value: unknown): Promise<string> {
  if (Array.isArray(value)) return (await Promise.all(value.map(textIn))).join('\n');
  if (!Buffer.isBuffer(value)) return String(value);
  const plain = await unpacked(value, 'a blob').catch(() => '');
  return value.toString('latin1') + JSON.stringify(plain);
}

/** Every file below a folder by its path. */
export async function filesBelow(folder: string): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const path = join(folder, name);
    if (statSync(path).isFile()) found.set(path, await textIn(readFileSync(path)));
  }
  return found;
}

/** Every object of a bucket by its key. */
export async function objectsIn(client: S3Client, bucket: string): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for await (const { Contents = [] } of paginateListObjectsV2({ client }, { Bucket: bucket })) {
    for (const { Key = '' } of Contents) {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key }));
      found.set(Key, await textIn(Buffer.from((await Body?.transformToByteArray()) ?? [])));
    }
  }
  return found;
}

/** Names of places that have the canary in their name or in what they hold. */
export function canaryIn(places: ReadonlyMap<string, string>): string[] {
  return [...places].filter(([name, content]) => `${name}\n${content}`.includes(canary)).map(([name]) => name);
}

/** Where a user leaves things, and where to look for them. */
export interface ErasurePlace {
  readonly world: World;
  readonly mill: Millrace;
  readonly redis: RedisConnection;
  readonly keys: Keys;
  /** Names of keys, and of what is in the store, that have the canary in their name or in what they hold. */
  holders(): Promise<readonly string[]>;
  /** What of the store has names: keys, paths. */
  names(): Promise<readonly string[]>;
}

/** What a user leaves in every place that there is. */
async function userOf({ world, mill }: Pick<ErasurePlace, 'world' | 'mill'>) {
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

/** Waits until every run that has ended is in the archive. */
export async function archived({ redis, keys, holders: found }: Pick<ErasurePlace, 'redis' | 'keys' | 'holders'>) {
  await until(
    'all is archived',
    async () => (await redis.zcard(keys.archiveDue)) === 0 && (await found()).some((name) => name.includes('run-')),
    20_000,
  );
}

/** Erases a user with all that they left, and looks for what is left of them. */
export async function checkErasingAUser(at: ErasurePlace): Promise<void> {
  const { mill, world } = at;
  const user = await userOf(at);
  await archived(at);
  const places = (await at.holders()).join('\n');
  for (const part of [':run', ':journal', ':lifecycle', 'progress', ':log', 'run-'])
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

  expect(await at.holders()).toEqual([]);
  const names = (await at.names()).join('\n');
  for (const runId of receipt.runs) expect(names).not.toContain(runId);

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
}
