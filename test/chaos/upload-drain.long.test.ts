import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';

/** Parts of files below a folder, which marks itself with a name that begins with a dot. */
function filesIn(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
    .map(({ name }) => name);
}

test('a producer that drains in the midst of an upload that goes no further ends in time, and lists no half file', async () => {
  const store = mkdtempSync(join(tmpdir(), 'millrace-store-'));
  onTestFinished(() => rmSync(store, { recursive: true, force: true }));
  const world = await makeWorld({ workers: 0, producer: true, env: { ARTIFACT_STORE: `file:${store}` } });
  const { hostname, port } = new URL(world.url);
  const socket = connect(Number(port), hostname);
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => {}).resume();
  const head = '--b\r\ncontent-disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n';
  socket.write(
    `POST /v1/files HTTP/1.1\r\nhost: ${hostname}:${port}\r\ncontent-type: multipart/form-data; boundary=b\r\ncontent-length: 9000000\r\n\r\n${head}`,
  );
  socket.write(Buffer.alloc(3 * 1024 * 1024, 'x'));
  await until('parts of it are there', () => filesIn(store).length > 0);
  world.producer.signal('SIGTERM');
  expect(await world.producer.exited).toEqual({ code: 0, signal: null });
  expect((await world.mill.files.list()).data).toEqual([]);
});
