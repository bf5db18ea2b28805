import { freePort, root } from '../../support/scratch-redis.ts';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parseConfig } from '../../../src/shared/contract/config.ts';
import { findRedisServer } from '../../../src/producer/cli/stack/dev-redis.ts';
import { parseRedisUrl } from '../../../src/shared/base/redis-address.ts';
import { connect, redisSecrets, whenReady } from '../../../src/shared/state/connect.ts';

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'millrace-tls-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** A certificate for the loopback, signed by itself. */
function certificate(dir: string): { readonly cert: string; readonly key: string } {
  const [cert, key] = [join(dir, 'cert.pem'), join(dir, 'key.pem')];
  const about = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'];
  const files = ['-keyout', key, '-out', cert];
  const args = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...files, ...about];
  execFileSync('openssl', args, { stdio: 'ignore' });
  return { cert, key };
}

/** A server of this configuration, ended with the test. */
async function serve(dir: string, name: string, lines: readonly string[], more: readonly string[] = []): Promise<void> {
  const found = findRedisServer(process.env, root);
  if (!found) throw new Error('there is no redis-server');
  const file = join(dir, `${name}.conf`);
  writeFileSync(file, lines.join('\n'));
  const env = { PATH: process.env['PATH'], ...(found.libraryPath && { LD_LIBRARY_PATH: found.libraryPath }) };
  const child = spawn(found.bin, [file, ...more], { stdio: 'ignore', env });
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child, 'spawn');
}

test('Sentinels with a password behind TLS, and a Redis that asks for a client certificate, are reached', async () => {
  const dir = folder();
  const { cert, key } = certificate(dir);
  const [redisPort, sentinelPort] = [await freePort(), await freePort()];
  const tls = ['port 0', 'bind 127.0.0.1', `tls-cert-file ${cert}`, `tls-key-file ${key}`, `tls-ca-cert-file ${cert}`];
  const secure = [...tls, 'tls-auth-clients yes', 'tls-replication yes', `dir ${dir}`];
  await serve(dir, 'redis', [...secure, `tls-port ${redisPort}`, 'requirepass of-redis', 'save ""']);
  await serve(
    dir,
    'sentinel',
    [
      ...secure,
      `tls-port ${sentinelPort}`,
      'requirepass of-sentinel',
      `sentinel monitor main 127.0.0.1 ${redisPort} 1`,
      'sentinel auth-pass main of-redis',
    ],
    ['--sentinel'],
  );
  const config = parseConfig({
    REDIS_URL: `rediss+sentinel://:of-redis@127.0.0.1:${sentinelPort}/main`,
    REDIS_SENTINEL_PASSWORD: 'of-sentinel',
    REDIS_TLS_CA: cert,
    REDIS_TLS_CERT: cert,
    REDIS_TLS_KEY: key,
  });
  const redis = connect(config.REDIS_URL, 'work', () => {});
  onTestFinished(() => redis.disconnect());
  await whenReady(redis, 15_000);
  expect(await redis.set('mr:x', '1')).toBe('OK');
  expect(redisSecrets(config.REDIS_URL)).toEqual(expect.arrayContaining(['of-redis', 'of-sentinel']));
});

test.each([
  ['redis://127.0.0.1:7000', { mode: 'single', nodes: [{ host: '127.0.0.1', port: 7000 }], db: 0, tls: undefined }],
  [
    'rediss://u:p%40ss@[::1]/3',
    { username: 'u', password: 'p@ss', nodes: [{ host: '::1', port: 6379 }], db: 3, tls: {} },
  ],
  [
    'redis+cluster://a:1,b:2',
    {
      mode: 'cluster',
      nodes: [
        { host: 'a', port: 1 },
        { host: 'b', port: 2 },
      ],
    },
  ],
  [
    'redis+sentinel://:x@a,b:2/main/4?sentinelUsername=s&sentinelPassword=t%26',
    { mode: 'sentinel', masterName: 'main', db: 4, password: 'x', sentinelUsername: 's', sentinelPassword: 't&' },
  ],
])('the URL %s says where Redis is', (url, address) => {
  expect(parseRedisUrl(url)).toMatchObject(address);
});

test.each<[env: Record<string, string>, named: string]>([
  [{ REDIS_URL: 'redis://h', REDIS_SENTINEL_PASSWORD: 'x-secret' }, 'REDIS_SENTINEL_PASSWORD needs a URL of +sentinel'],
  [{ REDIS_URL: 'redis://h', REDIS_TLS_CA: '/ca.pem' }, 'REDIS_TLS_CA needs TLS'],
  [{ REDIS_URL: 'rediss://h', REDIS_TLS_CA: '/nowhere/ca.pem' }, 'the file of ca cannot be read: /nowhere/ca.pem'],
  [{ REDIS_URL: 'rediss://h?cert=/c.pem' }, 'cert and key need each other'],
  [{ REDIS_URL: 'redis://h?password=x-secret' }, 'there is no parameter password'],
  [{ REDIS_URL: 'redis://:100%@h' }, 'write it as %25'],
  [{ REDIS_URL: 'redis://a,b' }, 'several hosts need'],
])('the setting %j is refused by name', (env, named) => {
  expect(() => parseConfig(env)).toThrow(named);
  expect(() => parseConfig(env)).not.toThrow('x-secret');
});
