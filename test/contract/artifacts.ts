import { describe, expect, test } from 'vitest';
import type { Artifacts } from '../../src/shared/state/results/artifacts.ts';

export const artifactBounds = { maxBytes: 1_000_000, maxRunBytes: 1_500_000 };

const info = {
  toolName: 'report',
  trust: 'mcp-derived',
  sensitivity: 'internal',
  inboundSanitization: 'block',
} as const;
const runA = '01KAPN3YV8Q2T5W7X9Z0A1B2C3';
const runB = '01KAPN3YV8Q2T5W7X9Z0A1B2C4';
/** Every byte, over and over, so that a shift by any number of bytes shows. */
const bodyOf = (length: number, seed = 0) =>
  Buffer.from(Array.from({ length }, (_, i) => (i * 7 + (i >> 8) + seed) & 0xff));

/** What all stores of kept results promise. `makeWorld` gives one under the bounds above; asked again, one more worker's. */
export function artifactsContract(name: string, makeWorld: () => Promise<() => Promise<Artifacts>>): void {
  describe(`${name} as artifacts`, () => {
    test('a body is kept with what is known about it, and read by another worker', async () => {
      const worker = await makeWorld();
      const body = bodyOf(10_000);
      await (await worker()).put(runA, 'one', body, info);
      const found = await (await worker()).read(runA, 'one', 0, 20_000);
      expect(found?.info).toEqual({ ...info, totalBytes: 10_000 });
      expect(Buffer.from(found?.bytes ?? []).equals(body)).toBe(true);
    });

    test('a run has only what it kept itself', async () => {
      const store = await (await makeWorld())();
      await store.put(runA, 'one', bodyOf(10), info);
      expect(await store.read(runB, 'one', 0, 10)).toBeUndefined();
      expect(await store.read(runA, 'two', 0, 10)).toBeUndefined();
    });

    test.each([
      [0, 1],
      [65_535, 2],
      [65_536, 65_536],
      [100_000, 300_001],
      [499_999, 1],
      [499_990, 100],
    ])('a range from %i of %i bytes is exactly that part', async (offset, length) => {
      const store = await (await makeWorld())();
      const body = bodyOf(500_000);
      await store.put(runA, 'large', body, info);
      const found = await store.read(runA, 'large', offset, length);
      expect(Buffer.from(found?.bytes ?? []).equals(body.subarray(offset, offset + length))).toBe(true);
      expect(found?.info.totalBytes).toBe(500_000);
    });

    test.each([
      [10, 5],
      [1_000_000, 5],
      [3, 0],
    ])('a range from %i of %i bytes in a body of ten is empty, and known', async (offset, length) => {
      const store = await (await makeWorld())();
      await store.put(runA, 'short', bodyOf(10), info);
      const found = await store.read(runA, 'short', offset, length);
      expect([found?.bytes.length, found?.info.totalBytes]).toEqual([0, 10]);
    });

    test('an empty body is kept', async () => {
      const store = await (await makeWorld())();
      await store.put(runA, 'empty', new Uint8Array(), info);
      const found = await store.read(runA, 'empty', 0, 10);
      expect([found?.bytes.length, found?.info]).toEqual([0, { ...info, totalBytes: 0 }]);
    });

    test('the same name again replaces the body', async () => {
      const store = await (await makeWorld())();
      await store.put(runA, 'one', bodyOf(200_000), info);
      await store.put(runA, 'one', bodyOf(100, 3), { toolName: 'other', trust: 'built-in', sensitivity: 'public' });
      const found = await store.read(runA, 'one', 0, 200_000);
      expect(Buffer.from(found?.bytes ?? []).equals(bodyOf(100, 3))).toBe(true);
      expect(found?.info).toEqual({ toolName: 'other', trust: 'built-in', sensitivity: 'public', totalBytes: 100 });
    });

    test('a part of a larger buffer is kept without the rest', async () => {
      const store = await (await makeWorld())();
      const large = bodyOf(300);
      await store.put(runA, 'part', new Uint8Array(large.buffer, large.byteOffset + 100, 50), info);
      const found = await store.read(runA, 'part', 0, 300);
      expect(Buffer.from(found?.bytes ?? []).equals(large.subarray(100, 150))).toBe(true);
    });

    test('a body over the bound is refused, and nothing of it stays', async () => {
      const store = await (await makeWorld())();
      const put = store.put(runA, 'huge', bodyOf(artifactBounds.maxBytes + 1), info);
      await expect(put).rejects.toMatchObject({ code: 'payload_too_large' });
      expect(await store.read(runA, 'huge', 0, 10)).toBeUndefined();
    });

    test('the bodies of a run have a bound together; replacing one counts only what is new', async () => {
      const store = await (await makeWorld())();
      await store.put(runA, 'one', bodyOf(900_000), info);
      await expect(store.put(runA, 'two', bodyOf(700_000), info)).rejects.toMatchObject({ code: 'payload_too_large' });
      expect(await store.read(runA, 'two', 0, 10)).toBeUndefined();
      await store.put(runA, 'one', bodyOf(700_000), info);
      await store.put(runA, 'two', bodyOf(700_000), info);
      await store.put(runB, 'two', bodyOf(900_000), info);
      expect((await store.read(runA, 'two', 0, 1))?.info.totalBytes).toBe(700_000);
    });

    test('what is dropped is gone, and other runs keep theirs', async () => {
      const worker = await makeWorld();
      const store = await worker();
      for (const name of ['one', 'two']) await store.put(runA, name, bodyOf(100_000), info);
      await store.put(runB, 'one', bodyOf(10), info);
      await (await worker()).drop(runA);
      expect(await store.read(runA, 'one', 0, 10)).toBeUndefined();
      expect(await store.read(runA, 'two', 0, 10)).toBeUndefined();
      expect((await store.read(runB, 'one', 0, 10))?.bytes).toHaveLength(10);
      await store.drop(runA);
      await store.put(runA, 'one', bodyOf(10), info);
      expect((await store.read(runA, 'one', 0, 10))?.bytes).toHaveLength(10);
    });

    test('many at once are all kept', async () => {
      const store = await (await makeWorld())();
      const names = Array.from({ length: 12 }, (_, i) => `r${i}`);
      await Promise.all(names.map((key, i) => store.put(runA, key, bodyOf(70_000, i), info)));
      const found = await Promise.all(names.map((key) => store.read(runA, key, 69_000, 5_000)));
      for (const [i, part] of found.entries())
        expect(Buffer.from(part?.bytes ?? []).equals(bodyOf(70_000, i).subarray(69_000))).toBe(true);
    });

    test.each(['..', '../x', 'a/b', '/etc/passwd', 'a\0', '', 'x'.repeat(65), '#used'])(
      'a name like %j is refused before it reaches the store',
      async (bad) => {
        const store = await (await makeWorld())();
        await expect(store.read(runA, bad, 0, 1)).rejects.toMatchObject({ code: 'internal' });
        await expect(store.read(bad, 'one', 0, 1)).rejects.toMatchObject({ code: 'internal' });
        await expect(store.put(runA, bad, bodyOf(1), info)).rejects.toMatchObject({ code: 'internal' });
        await expect(store.drop(bad)).rejects.toMatchObject({ code: 'internal' });
      },
    );
  });
}
