import { createServer, type AddressInfo } from 'node:net';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, inject, onTestFinished, test } from 'vitest';
import { startProducer, type RunningProducer } from '../../../src/producer/http/start-producer.ts';
import { Millrace } from '../../../src/producer/client/millrace.ts';
import { parseConfig } from '../../../src/shared/contract/config.ts';
import { sha256 } from '../../../src/shared/base/ids.ts';
import { createLog, silentLog } from '../../../src/shared/base/log.ts';
import { Redactor } from '../../../src/shared/base/redact.ts';
import { call } from '../../support/http.ts';
import { keysFor } from '../../../src/shared/state/keys.ts';
import { testPrefix, testRedis, until } from '../../support/redis.ts';

const nowhere = join(import.meta.dirname, 'there-is-no-such-folder');

async function start(env: Record<string, string> = {}, log = silentLog): Promise<RunningProducer> {
  const defaults = {
    REDIS_URL: inject('redisUrl'),
    MILLRACE_PREFIX: testPrefix(),
    PORT: '0',
    MILLRACE_AGENTS: nowhere,
  };
  const producer = await startProducer(parseConfig({ ...defaults, ...env }), log);
  onTestFinished(() => producer.close());
  return producer;
}

test('a producer starts with the settings of the environment and stops answering when it is closed', async () => {
  const producer = await start();
  expect(producer.url).toBe(`http://127.0.0.1:${producer.port}`);
  expect((await call('GET', `${producer.url}/readyz`)).status).toBe(200);
  await producer.close();
  await expect(fetch(`${producer.url}/healthz`)).rejects.toThrow('fetch failed');
});

test('without API keys it listens on this machine only, with keys anywhere', async () => {
  await expect(start({ HOST: '0.0.0.0' })).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringContaining('MILLRACE_API_KEYS'),
  });
  const { url } = await start({ HOST: '0.0.0.0', MILLRACE_API_KEYS: `${sha256('k')}:a` });
  expect((await call('GET', `${url}/v1/runs`)).status).toBe(401);
  expect((await call('GET', `${url}/v1/runs`, undefined, { authorization: 'Bearer k' })).status).toBe(200);
});

test('a durability that Redis does not offer stops the start and says what to do', async () => {
  await start({ MILLRACE_DURABILITY: 'process' });
  const refused = { code: 'invalid_config', message: expect.stringContaining('appendfsync always') };
  await expect(start({ MILLRACE_DURABILITY: 'host' })).rejects.toMatchObject(refused);
});

test('it starts while Redis is away, unless a durability was asked for', async () => {
  const away = { REDIS_URL: 'redis://127.0.0.1:1' };
  const { url } = await start(away);
  expect((await call('GET', `${url}/readyz`)).status).toBe(503);
  await expect(start({ ...away, MILLRACE_DURABILITY: 'process' })).rejects.toMatchObject({ code: 'queue_unavailable' });
});

test('a port that is taken is a mistake of the configuration', async () => {
  const taken = createServer();
  onTestFinished(() => void taken.close());
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  const PORT = String((taken.address() as AddressInfo).port);
  await expect(start({ PORT })).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringContaining('EADDRINUSE'),
  });
});

test('a store of files that cannot be written to is a mistake of the configuration', async () => {
  await expect(start({ ARTIFACT_STORE: 'file:/dev/null/files' })).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringContaining('ARTIFACT_STORE: files cannot be written in /dev/null/files'),
  });
});

test('a producer whose folder of files is another one than that of other processes says so', async () => {
  const MILLRACE_PREFIX = testPrefix();
  const lines: string[] = [];
  const log = createLog('test', 'warn', new Redactor([]), { write: (line: string) => lines.push(line) });
  const folder = () => {
    const root = mkdtempSync(join(tmpdir(), 'millrace-files-'));
    onTestFinished(() => rmSync(root, { recursive: true, force: true }));
    return { MILLRACE_PREFIX, ARTIFACT_STORE: `file:${root}` };
  };
  const own = folder();
  await start(own, log);
  const redis = await testRedis('work');
  await until('the folder is announced', () => redis.exists(keysFor(MILLRACE_PREFIX).artifactRoot));
  await start(own, log);
  await start(folder(), log);
  await until('a warning', () => lines.length > 0);
  expect(lines.map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual([
    'ARTIFACT_STORE is not the folder that other processes use: mount the same one everywhere',
  ]);
});

test('the agents of its folder are announced before any worker is there', async () => {
  const MILLRACE_PREFIX = testPrefix();
  const folder = join(import.meta.dirname, '../../fixtures/agents');
  await start({ MILLRACE_PREFIX, MILLRACE_AGENTS: folder });
  const mill = new Millrace({ redis: inject('redisUrl'), prefix: MILLRACE_PREFIX });
  onTestFinished(() => mill.close());
  const agents = await until('agents are announced', async () => {
    const announced = await mill.agents();
    return announced.length > 0 ? announced : undefined;
  });
  expect(agents.map(({ id }) => id)).toContain('plain');
});

test('agents that cannot be read are a warning and nothing more', async () => {
  const lines: string[] = [];
  const log = createLog('test', 'info', new Redactor(), { write: (line: string) => lines.push(line) });
  // A file is no folder of agents.
  const { url } = await start({ MILLRACE_AGENTS: import.meta.filename }, log);
  await until('a warning is logged', () => lines.some((line) => /"level":"warn".*agents/.test(line)));
  expect((await call('GET', `${url}/healthz`)).status).toBe(200);
});
