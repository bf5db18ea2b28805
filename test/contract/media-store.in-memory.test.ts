import { expect, test } from 'vitest';
import { inMemoryMedia } from '../../src/worker/local/stores/in-memory-results.ts';
import { mediaContract } from './media-store.ts';

mediaContract('Memory', async () => inMemoryMedia());

test('the oldest files make room once all together are over 256 MiB', async () => {
  const media = inMemoryMedia();
  const names: string[] = [];
  for (let i = 0; i < 9; i++) names.push(await media.put('a', Buffer.alloc(32 * 1024 * 1024, i), 'video/mp4'));
  expect(names.map((name) => media.get('a', name) !== undefined)).toEqual([false, ...Array(8).fill(true)]);
});
