import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { erasureKeyOf, noCounts } from '../../../src/shared/contract/erasure/receipt.ts';
import { bin, millrace } from './support/cli-process.ts';

const key = erasureKeyOf(Buffer.alloc(32, 1).toString('base64'));
const about = {
  kind: 'millrace.erasure-receipt',
  v: 1,
  tenant: 'default',
  at: '2026-01-02T03:04:05.000Z',
  of: 'runs',
} as const;
const receiptOf = (receiptId: string) =>
  key.sign({ ...about, receiptId, runs: [], threads: [], erased: { ...noCounts }, kept: { media: 0, files: 0 } });

/** A producer that erases two pages and is lost before the third, and a folder for receipts. */
async function lostProducer() {
  let pages = 0;
  const server = createServer((_, response) => {
    pages += 1;
    const cursor = `${pages}-01K9Z5N3T8R6V2X4B7C1D0E9FG`;
    const body = { receipt: receiptOf(`r${pages}`), kept: [], cursor };
    const error = { error: { code: 'internal', message: 'it broke', retryable: false } };
    response.writeHead(pages > 2 ? 500 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(pages > 2 ? error : body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const folder = mkdtempSync(join(tmpdir(), 'millrace-receipts-'));
  onTestFinished(() => {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const erase = (...more: string[]) =>
    millrace(['erase', '--metadata', 'user=42', '--yes', ...more], { env: { MILLRACE_URL: url } });
  return { folder, erase, asked: () => pages };
}

const idsIn = (lines: string) =>
  lines
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).receiptId);

test('output that finds no room is no success', () => {
  const full = openSync('/dev/full', 'w');
  onTestFinished(() => closeSync(full));
  const { status, stderr } = spawnSync(process.execPath, [bin, '--help'], { stdio: ['ignore', full, 'pipe'] });
  expect([status, String(stderr)]).toEqual([1, expect.stringMatching(/^The output is not whole: .*ENOSPC/)]);
});

test('receipts are kept as they come, behind those of before, also when a later call fails', async () => {
  const { folder, erase } = await lostProducer();
  const file = join(folder, 'receipts.jsonl');
  writeFileSync(file, `${JSON.stringify(receiptOf('r0'))}\n`);
  const { code, stderr } = await erase('-o', file);
  expect([code, stderr]).toEqual([1, expect.stringContaining('it broke')]);
  expect(idsIn(readFileSync(file, 'utf8'))).toEqual(['r0', 'r1', 'r2']);
});

test('without a file they are printed, one a line or as one document', async () => {
  expect(idsIn((await (await lostProducer()).erase()).stdout)).toEqual(['r1', 'r2']);
  const { stdout } = await (await lostProducer()).erase('--json');
  expect(JSON.parse(stdout)).toMatchObject({ receipts: [{ receiptId: 'r1' }, { receiptId: 'r2' }], kept: [] });
});

test('nothing is erased where the file cannot be written', async () => {
  const { folder, erase, asked } = await lostProducer();
  const { code, stderr } = await erase('-o', join(folder, 'none', 'receipts.jsonl'));
  expect([code, stderr]).toEqual([2, expect.stringContaining('cannot be written')]);
  expect([asked(), existsSync(join(folder, 'none'))]).toEqual([0, false]);
});
