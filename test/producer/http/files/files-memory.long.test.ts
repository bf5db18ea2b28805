import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { withoutProc } from '../../../support/coreless.ts';
import { smallProducer } from '../bulk-bodies.ts';

const megabyte = 1024 * 1024;
const leftOut = withoutProc === undefined ? '' : ` (left out: ${withoutProc})`;

test.skipIf(withoutProc)(
  `a file of 200 MB goes up and comes down in little memory${leftOut}`,
  async () => {
    const root = mkdtempSync(join(tmpdir(), 'millrace-files-'));
    onTestFinished(() => rmSync(root, { recursive: true, force: true }));
    const { url, peakMb } = await smallProducer({ ARTIFACT_STORE: `file:${root}` });
    const idleMb = peakMb();
    const chunk = Buffer.alloc(megabyte, 'x');
    const head = '--x\r\ncontent-disposition: form-data; name="file"; filename="large.bin"\r\n\r\n';
    const purpose = '\r\n--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n--x--\r\n';
    async function* body() {
      yield Buffer.from(head);
      for (let i = 0; i < 200; i++) yield chunk;
      yield Buffer.from(purpose);
    }
    const headers = { 'content-type': 'multipart/form-data; boundary=x' };
    const sending = { method: 'POST', headers, body: body(), duplex: 'half' } as unknown as RequestInit;
    const posted = await fetch(`${url}/v1/files`, sending);
    const { id, bytes } = (await posted.json()) as { id: string; bytes: number };
    expect([posted.status, bytes]).toEqual([200, 200 * megabyte]);
    const content = await fetch(`${url}/v1/files/${id}/content`);
    let read = 0;
    for await (const part of content.body as AsyncIterable<Uint8Array>) read += part.length;
    expect(read).toBe(bytes);
    const usedMb = peakMb() - idleMb;
    process.stdout.write(`200 MB up and down: ${usedMb.toFixed(0)} MB more than idle\n`);
    expect(usedMb).toBeLessThan(150);
  },
  120_000,
);
