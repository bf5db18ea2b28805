import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { maxMediaBytes } from '../../src/shared/contract/media.ts';
import type { MediaStore } from '../../src/shared/state/results/media-store.ts';

/** What every store of generated files promises. */
export function mediaContract(name: string, makeStore: () => Promise<MediaStore>): void {
  const every = Buffer.from(Array.from({ length: 256 }, (_, i) => i));

  test(`${name}: bytes are kept as they are under their SHA-256, for their tenant only`, async () => {
    const media = await makeStore();
    const sha256 = await media.put('a', every, 'image/png');
    expect(sha256).toBe(createHash('sha256').update(every).digest('hex'));
    expect(await media.read('a', sha256)).toEqual({ mediaType: 'image/png', bytes: every });
    expect(await media.read('b', sha256)).toBeUndefined();
  });

  test(`${name}: a part of a larger buffer is kept without the rest`, async () => {
    const media = await makeStore();
    const part = new Uint8Array(every.buffer, every.byteOffset + 10, 5);
    const sha256 = await media.put('a', part, 'audio/mpeg');
    expect((await media.read('a', sha256))?.bytes).toEqual(Buffer.from([10, 11, 12, 13, 14]));
  });

  test(`${name}: the same bytes again are the same file`, async () => {
    const media = await makeStore();
    const sha256 = await media.put('a', every, 'image/png');
    expect(await media.put('a', every, 'image/webp')).toBe(sha256);
    expect((await media.read('a', sha256))?.mediaType).toBe('image/webp');
  });

  test(`${name}: files over 32 MiB are refused`, async () => {
    const media = await makeStore();
    await expect(media.put('a', Buffer.alloc(maxMediaBytes + 1), 'video/mp4')).rejects.toMatchObject({
      code: 'payload_too_large',
    });
  });

  test.each([100, 256 * 1024, 256 * 1024 + 1, 20 * 1024 * 1024])(
    `${name}: %i bytes come back as they are, and other tenants have none of them`,
    async (length) => {
      const media = await makeStore();
      const bytes = Buffer.alloc(length, every);
      const sha256 = await media.put('a', bytes, 'image/png');
      const found = await media.read('a', sha256);
      expect([found?.mediaType, found?.bytes.equals(bytes)]).toEqual(['image/png', true]);
      expect(await media.read('b', sha256)).toBeUndefined();
      expect(await media.read('a', 'f'.repeat(64))).toBeUndefined();
      expect(await media.keep('b', sha256, 10)).toBe(false);
      expect(await media.keep('a', sha256, 10)).toBe(true);
    },
  );
}
