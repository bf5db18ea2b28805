import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { maxMediaBytes } from '../../src/shared/contract/media.ts';
import type { MediaStore } from '../../src/shared/state/results/media-store.ts';

export interface MediaWorld {
  readonly media: MediaStore;
  /** What is kept of a tenant under this SHA-256. */
  readonly read: (
    tenant: string,
    sha256: string,
  ) => Promise<{ readonly mediaType: string; readonly bytes: Buffer } | undefined>;
}

/** What every store of generated files promises. */
export function mediaContract(name: string, makeWorld: () => Promise<MediaWorld>): void {
  const every = Buffer.from(Array.from({ length: 256 }, (_, i) => i));

  test(`${name}: bytes are kept as they are under their SHA-256, for their tenant only`, async () => {
    const { media, read } = await makeWorld();
    const sha256 = await media.put('a', every, 'image/png');
    expect(sha256).toBe(createHash('sha256').update(every).digest('hex'));
    expect(await read('a', sha256)).toEqual({ mediaType: 'image/png', bytes: every });
    expect(await read('b', sha256)).toBeUndefined();
  });

  test(`${name}: a part of a larger buffer is kept without the rest`, async () => {
    const { media, read } = await makeWorld();
    const part = new Uint8Array(every.buffer, every.byteOffset + 10, 5);
    const sha256 = await media.put('a', part, 'audio/mpeg');
    expect((await read('a', sha256))?.bytes).toEqual(Buffer.from([10, 11, 12, 13, 14]));
  });

  test(`${name}: the same bytes again are the same file`, async () => {
    const { media, read } = await makeWorld();
    const sha256 = await media.put('a', every, 'image/png');
    expect(await media.put('a', every, 'image/webp')).toBe(sha256);
    expect((await read('a', sha256))?.mediaType).toBe('image/webp');
  });

  test(`${name}: files over 32 MiB are refused`, async () => {
    const { media } = await makeWorld();
    await expect(media.put('a', Buffer.alloc(maxMediaBytes + 1), 'video/mp4')).rejects.toMatchObject({
      code: 'payload_too_large',
    });
  });
}
