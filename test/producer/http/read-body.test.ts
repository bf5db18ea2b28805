import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { BodyRoom } from '../../../src/producer/http/body-room.ts';
import { bodyChunks } from '../../../src/producer/http/read-body.ts';

test('a body that does not end in time is refused, however often a byte of it comes', async () => {
  const body = new PassThrough();
  using share = new BodyRoom().open();
  const chunks = bodyChunks(body, { limitBytes: 1_000, share, arrivesInMs: 30 });
  body.write('[');
  expect(String((await chunks.next()).value)).toBe('[');
  await expect(chunks.next()).rejects.toMatchObject({ code: 'invalid_json' });
  expect(body.destroyed).toBe(false);
});
