import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { consolePolicy, readConsole } from '../../../src/producer/http/console-files.ts';
import { serverWorld } from './server-world.ts';

/** A build as Vite makes it, but for its size. */
function aBuild(): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-console-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'assets'));
  writeFileSync(join(folder, 'index.html'), '<!doctype html><title>Millrace</title>');
  writeFileSync(join(folder, 'assets/index-abc.js'), 'export const page = 1;');
  writeFileSync(join(folder, 'assets/notes.txt'), 'of no kind that a page loads');
  return folder;
}

test('each view of the console has an address, and all are the same page with the same strict policy', async () => {
  const { url } = await serverWorld({ console: aBuild() });
  const paths = [
    '/',
    '/login',
    '/runs',
    '/runs/01K',
    '/approvals',
    '/threads/t%2F1',
    '/batches',
    '/agents/a',
    '/money',
  ];
  for (const path of paths) {
    const answer = await fetch(url + path);
    expect([path, answer.status, answer.headers.get('content-type')]).toEqual([path, 200, 'text/html; charset=utf-8']);
    expect(answer.headers.get('content-security-policy')).toBe(consolePolicy);
    expect(answer.headers.get('referrer-policy')).toBe('no-referrer');
    expect(answer.headers.get('cache-control')).toBe('no-cache');
    expect(await answer.text()).toContain('<title>Millrace</title>');
  }
});

test('a browser at an address that no view has gets the page that leads back, and a program the error', async () => {
  const { url } = await serverWorld({ console: aBuild() });
  const asBrowser = { headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' } };
  for (const path of ['/nonsense', '/runs/01K/more', '/approvals/x?y=1', '/v1x']) {
    const answer = await fetch(url + path, asBrowser);
    expect([path, answer.status, answer.headers.get('content-type')]).toEqual([path, 404, 'text/html; charset=utf-8']);
    expect(answer.headers.get('content-security-policy')).toBe(consolePolicy);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(await answer.text()).toContain('<title>Millrace</title>');
    const program = await fetch(url + path);
    expect([path, program.status, await program.json()]).toMatchObject([path, 404, { error: { code: 'not_found' } }]);
  }
  for (const path of ['/v1', '/v1/nonsense', '/v1/runs/01K/more?x=1']) {
    const answer = await fetch(url + path, asBrowser);
    expect([path, answer.status, await answer.json()]).toMatchObject([path, 404, { error: { code: 'not_found' } }]);
  }
  const sent = await fetch(`${url}/nonsense`, { method: 'POST', ...asBrowser });
  expect([sent.status, await sent.json()]).toMatchObject([404, { error: { code: 'not_found' } }]);
});

test('the policy allows files of the producer and nothing that stands in the page or comes from elsewhere', () => {
  expect(consolePolicy).toContain("default-src 'self'");
  expect(consolePolicy).toContain("frame-ancestors 'none'");
  expect(consolePolicy).not.toMatch(/unsafe|https?:|\*|nonce|sha256/);
});

test('the files of the page are kept for ever, packed for who takes that, and answered with 304 to who has them', async () => {
  const { url } = await serverWorld({ console: aBuild() });
  const file = `${url}/assets/index-abc.js`;
  const plain = await fetch(file, { headers: { 'accept-encoding': 'identity' } });
  expect(plain.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
  expect(plain.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
  expect(plain.headers.get('content-encoding')).toBeNull();
  expect(await plain.text()).toBe('export const page = 1;');
  const packed = await fetch(file, { headers: { 'accept-encoding': 'gzip, br' } });
  expect(packed.headers.get('content-encoding')).toBe('gzip');
  expect(await packed.text()).toBe('export const page = 1;');
  const again = await fetch(file, { headers: { 'if-none-match': plain.headers.get('etag') ?? '' } });
  expect([again.status, await again.text()]).toEqual([304, '']);
});

test('only the files of the build are served', async () => {
  const { url } = await serverWorld({ console: aBuild() });
  for (const path of [
    '/assets/none.js',
    '/assets/notes.txt',
    '/assets/..%2Findex.html',
    '/assets/%2e%2e%2fpackage.json',
  ])
    expect([path, (await fetch(url + path)).status]).toEqual([path, 404]);
});

test('a producer whose console is not built says what to do, and its API works', async () => {
  const { url, send } = await serverWorld({ console: join(tmpdir(), 'millrace-no-console') });
  const answer = await fetch(`${url}/runs`);
  expect(answer.status).toBe(503);
  expect(await answer.text()).toContain('node scripts/setup.mjs console');
  expect((await send('GET', '/v1/runs')).status).toBe(200);
});

test('what is packed unpacks to what was built', () => {
  const page = readConsole(aBuild())?.page;
  expect(gunzipSync(page?.gzipped ?? Buffer.alloc(0))).toEqual(page?.bytes);
});
