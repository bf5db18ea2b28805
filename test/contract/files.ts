import { describe, expect, test } from 'vitest';
import type { FileDraft, FileStore } from '../../src/shared/state/files/files.ts';
import { maxFileBytes, newFileId } from '../../src/shared/contract/files.ts';
import { type FilesWorld, tenantRoom } from './files-world.ts';

const draft: FileDraft = { filename: 'data.jsonl', purpose: 'batch', mediaType: 'application/jsonl' };
const dayMs = 86_400_000;

/** Every byte, over and over, so that a shift by any number of bytes shows. */
const bytesOf = (length: number, seed = 0) =>
  Buffer.from(Array.from({ length }, (_, i) => (i * 7 + (i >> 8) + seed) & 0xff));

async function* inChunks(body: Buffer, size = 10_000) {
  for (let at = 0; at < body.length; at += size) yield body.subarray(at, at + size);
}

async function bytesFrom(files: FileStore, tenant: string, id: string, from?: number, to?: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of files.read(tenant, id, from, to)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** What the files of all stores promise. `leftovers`: the names of everything that has bytes in the store. */
export function filesContract(
  name: string,
  makeWorld: () => Promise<FilesWorld & { leftovers(): Promise<readonly string[]> }>,
): void {
  describe(`${name} as files`, () => {
    test('a body comes back byte for byte, in another process, with what is known about it', async () => {
      const world = await makeWorld();
      const body = bytesOf(2_500_000);
      const { files } = await world.process();
      const put = await files.put('a', draft, inChunks(body));
      const other = (await world.process()).files;
      const createdAt = Math.floor(world.clock.nowMs / 1_000);
      expect(await other.info('a', put.id)).toEqual(put);
      expect(put).toMatchObject({
        object: 'file',
        bytes: body.length,
        created_at: createdAt,
        expires_at: createdAt + 7 * 86_400,
        filename: 'data.jsonl',
        purpose: 'batch',
        status: 'processed',
        media_type: 'application/jsonl',
      });
      expect((await bytesFrom(other, 'a', put.id)).equals(body)).toBe(true);
    });

    test.each([
      [0, 1],
      [1_048_570, 1_048_590],
      [1_200_000, 1_900_000],
      [2_099_999, 9_000_000],
      [5_000_000, 5_000_001],
      [7, 7],
    ])('the bytes from %i to %i are exactly those', async (from, to) => {
      const { files } = await (await makeWorld()).process();
      const body = bytesOf(2_100_000);
      const { id } = await files.put('a', draft, inChunks(body));
      expect((await bytesFrom(files, 'a', id, from, to)).equals(body.subarray(from, to))).toBe(true);
    });

    test('an empty file is kept', async () => {
      const { files } = await (await makeWorld()).process();
      const { id, bytes } = await files.put('a', draft, inChunks(Buffer.alloc(0)));
      expect([bytes, (await bytesFrom(files, 'a', id)).length]).toEqual([0, 0]);
    });

    test('another tenant has none of it', async () => {
      const { files } = await (await makeWorld()).process();
      const { id } = await files.put('a', draft, inChunks(bytesOf(10)));
      expect(await files.info('b', id)).toBeUndefined();
      await expect(bytesFrom(files, 'b', id)).rejects.toMatchObject({ code: 'not_found' });
      expect((await files.list('b', {})).data).toEqual([]);
      expect(await files.remove('b', id)).toBe(false);
      expect(await bytesFrom(files, 'a', id)).toHaveLength(10);
    });

    test('an upload that breaks off leaves nothing', async () => {
      const world = await makeWorld();
      const { files } = await world.process();
      async function* broken() {
        yield bytesOf(2_200_000);
        throw new Error('the client is gone');
      }
      await expect(files.put('a', draft, broken())).rejects.toThrow('the client is gone');
      expect((await files.list('a', {})).data).toEqual([]);
      expect(await world.leftovers()).toEqual([]);
    });

    test('an upload whose process was killed is gone within hours', async () => {
      const world = await makeWorld();
      const { files, opened } = await world.process();
      const { promise: never } = Promise.withResolvers<never>();
      const { promise: reached, resolve } = Promise.withResolvers<void>();
      async function* stuck() {
        yield bytesOf(1_100_000);
        resolve();
        await never;
      }
      void files.put('a', draft, stuck());
      await reached;
      expect(await world.leftovers()).toHaveLength(1);
      await endOfBlobs(world, 3 * 3_600_000);
      expect(await world.leftovers()).toEqual([]);
      opened[Symbol.dispose]();
    });

    test('a file is gone after its time, with all of its bytes', async () => {
      const world = await makeWorld();
      const { files } = await world.process();
      const short = await files.put('a', { ...draft, expiresAfterS: 3_600 }, inChunks(bytesOf(1_100_000)));
      const usual = await files.put('a', draft, inChunks(bytesOf(10)));
      expect(short.expires_at).toBe(short.created_at + 3_600);
      await endOfFile(world, short.id, 3 * 3_600_000);
      expect(await files.info('a', short.id)).toBeUndefined();
      expect(await bytesFrom(files, 'a', usual.id)).toHaveLength(10);
      expect(await world.leftovers()).toEqual([usual.id]);
      await endOfFile(world, usual.id, 8 * dayMs);
      expect(await world.leftovers()).toEqual([]);
    });

    test('a file that is removed is gone, with all of its bytes', async () => {
      const world = await makeWorld();
      const { files } = await world.process();
      const { id } = await files.put('a', draft, inChunks(bytesOf(1_100_000)));
      expect(await files.remove('a', id)).toBe(true);
      expect(await files.remove('a', id)).toBe(false);
      expect(await files.info('a', id)).toBeUndefined();
      expect(await world.leftovers()).toEqual([]);
    });

    test('a file over the bound is refused while it comes, and nothing of it stays', async () => {
      const world = await makeWorld();
      const { files } = await world.process();
      let sent = 0;
      async function* endless() {
        const chunk = Buffer.alloc(4 * 1024 * 1024);
        for (;;) {
          sent += chunk.length;
          yield chunk;
        }
      }
      await expect(files.put('a', draft, endless())).rejects.toMatchObject({ code: 'payload_too_large' });
      expect(sent).toBeLessThanOrEqual(maxFileBytes + 8 * 1024 * 1024);
      expect(await world.leftovers()).toEqual([]);
    });

    test('the files of a tenant have a bound together, and what is removed makes room', async () => {
      const world = await makeWorld();
      const { files } = await world.process();
      const first = await files.put('a', draft, inChunks(Buffer.alloc(tenantRoom - 1_000)));
      const over = files.put('a', draft, inChunks(Buffer.alloc(2_000)));
      await expect(over).rejects.toMatchObject({ code: 'payload_too_large' });
      await files.put('b', draft, inChunks(Buffer.alloc(2_000)));
      await files.put('a', draft, inChunks(Buffer.alloc(1_000)));
      const full = files.put('a', draft, inChunks(Buffer.alloc(1)));
      await expect(full).rejects.toMatchObject({ code: 'payload_too_large' });
      await files.remove('a', first.id);
      await files.put('a', draft, inChunks(Buffer.alloc(2_000)));
      expect((await files.list('a', {})).data.map(({ bytes }) => bytes).toSorted((a, b) => a - b)).toEqual([
        1_000, 2_000,
      ]);
    });

    test('of two uploads at once that are too much together, one is refused, and nothing of it stays', async () => {
      const world = await makeWorld();
      const { files } = await world.process();
      const { promise: bothBegan, resolve } = Promise.withResolvers<void>();
      let began = 0;
      async function* together() {
        if (++began === 2) resolve();
        await bothBegan;
        yield Buffer.alloc(tenantRoom - 1_000);
      }
      const ends = await Promise.allSettled([1, 2].map(() => files.put('a', draft, together())));
      expect(ends.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
      const refused = ends.find((end) => end.status === 'rejected');
      expect(refused?.reason).toMatchObject({ code: 'payload_too_large' });
      expect((await files.list('a', {})).data).toHaveLength(1);
      expect(await world.leftovers()).toHaveLength(1);
    });

    test('files that have ended make room, too', async () => {
      const world = await makeWorld();
      const { files } = await world.process();
      const { id } = await files.put('a', draft, inChunks(Buffer.alloc(tenantRoom - 10)));
      await endOfFile(world, id, 8 * dayMs);
      expect((await files.put('a', draft, inChunks(Buffer.alloc(tenantRoom - 20)))).bytes).toBe(tenantRoom - 20);
    });

    test('lists go through all files in both orders, by purpose too, page by page', async () => {
      const world = await makeWorld();
      const { files } = await world.process();
      const ids: string[] = [];
      for (let i = 0; i < 7; i++) {
        world.clock.nowMs += 10;
        const purpose = i % 3 === 0 ? 'user_data' : 'batch';
        ids.push((await files.put('a', { ...draft, purpose }, inChunks(Buffer.alloc(i)))).id);
      }
      const pages = async (query: Parameters<FileStore['list']>[1]) => {
        const found: string[] = [];
        for (let after: string | undefined; ;) {
          const { data, has_more } = await files.list('a', { ...query, after });
          found.push(...data.map(({ id }) => id));
          after = data.at(-1)?.id;
          if (!has_more) return found;
        }
      };
      expect(await pages({ limit: 2 })).toEqual(ids.toReversed());
      expect(await pages({ limit: 3, order: 'asc' })).toEqual(ids);
      expect(await pages({ limit: 7 })).toEqual(ids.toReversed());
      expect(await pages({ limit: 1, purpose: 'user_data', order: 'asc' })).toEqual([ids[0], ids[3], ids[6]]);
      await files.remove('a', ids[5] ?? '');
      expect((await files.list('a', { after: ids[5] ?? '', limit: 1 })).data[0]?.id).toBe(ids[4]);
      expect((await files.list('a', { limit: 7 })).has_more).toBe(false);
    });

    test('a file is made of parts that were written by several processes, once', async () => {
      const world = await makeWorld();
      const [one, two] = [await world.process(), await world.process()];
      const id = newFileId(world.clock.nowMs);
      const parts = [
        await one.files.writePart(id, bytesOf(700_000)),
        await two.files.writePart(id, bytesOf(5, 1)),
        await one.files.writePart(id, bytesOf(300_000, 2)),
      ];
      await two.files.writePart(id, bytesOf(100, 9));
      expect(await one.files.info('a', id)).toBeUndefined();
      const output = { filename: 'out.jsonl', purpose: 'batch_output' } as const;
      const made = await two.files.finish('a', id, output, parts);
      expect(await one.files.finish('a', id, { ...output, filename: 'other' }, parts.slice(1))).toEqual(made);
      expect(made.bytes).toBe(1_000_005);
      const body = Buffer.concat([bytesOf(700_000), bytesOf(5, 1), bytesOf(300_000, 2)]);
      expect((await bytesFrom(one.files, 'a', id)).equals(body)).toBe(true);
      await endOfFile(world, id, 8 * dayMs);
      expect(await one.files.info('a', id)).toBeUndefined();
      expect(await world.leftovers()).toEqual([]);
    });

    test('parts that are never made a file go after a month', async () => {
      const world = await makeWorld();
      const { files } = await world.process();
      const id = newFileId(world.clock.nowMs);
      await files.writePart(id, bytesOf(100));
      await endOfBlobs(world, 29 * dayMs, id);
      expect(await world.leftovers()).toEqual([id]);
      await endOfBlobs(world, 2 * dayMs, id);
      expect(await world.leftovers()).toEqual([]);
    });

    test('an output of a batch is kept although its tenant has no more room', async () => {
      const { files } = await (await makeWorld()).process();
      await files.put('a', draft, inChunks(Buffer.alloc(tenantRoom)));
      const id = newFileId(Date.now());
      const parts = [await files.writePart(id, bytesOf(1_000))];
      expect((await files.finish('a', id, { filename: 'out.jsonl', purpose: 'batch_output' }, parts)).bytes).toBe(
        1_000,
      );
    });

    test.each(['..', '../x', 'a/b', '/etc/passwd', 'file-a\0', '', 'file-01KAPN3YV8Q2T5W7X9Z0A1B2C!', '#used'])(
      'there is no file %j, and nothing is asked for it',
      async (bad) => {
        const { files } = await (await makeWorld()).process();
        expect(await files.info('a', bad)).toBeUndefined();
        expect(await files.remove('a', bad)).toBe(false);
        await expect(bytesFrom(files, 'a', bad)).rejects.toMatchObject({ code: 'not_found' });
        await expect(files.writePart(bad, bytesOf(1))).rejects.toMatchObject({ code: 'internal' });
      },
    );
  });
}

/** Lets the time of a file pass: in Redis its expiry, which Redis measures itself, comes at once. */
async function endOfFile(world: FilesWorld, id: string, ms: number): Promise<void> {
  world.clock.nowMs += ms;
  const endMs = await world.redis.pexpiretime(world.keys.file('a', id));
  expect(endMs).toBeGreaterThan(0);
  if (endMs <= world.clock.nowMs) await world.redis.pexpireat(world.keys.file('a', id), 1);
  await endOfBlobs(world, 0, id);
}

async function endOfBlobs(world: FilesWorld, ms: number, id?: string): Promise<void> {
  world.clock.nowMs += ms;
  const names = await world.redis.keys(world.keys.blobs(id ?? '*'));
  for (const name of names) {
    const endMs = await world.redis.pexpiretime(name);
    expect(endMs).toBeGreaterThan(0);
    if (endMs <= world.clock.nowMs) await world.redis.pexpireat(name, 1);
  }
  await world.sweep();
}
