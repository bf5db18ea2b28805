import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { configSchema, parseApiKeys, parseConfig } from '../../src/shared/contract/config.ts';
import { sha256 } from '../../src/shared/base/ids.ts';

interface Service {
  image: string;
  build?: string;
  command: string[];
  environment?: Record<string, string>;
  volumes?: string[];
  ports?: string[];
  secrets?: string[];
  healthcheck: { test: string[] };
  depends_on?: { redis: { condition: string } };
  stop_grace_period: string;
  restart: string;
  read_only?: boolean;
  cap_drop?: string[];
  deploy?: { replicas: number };
}

const source = readFileSync(join(import.meta.dirname, '../../docker-compose.yml'), 'utf8');
const compose = parse(source, { merge: true }) as {
  name: string;
  services: Record<'redis' | 'producer' | 'worker' | 'quarantine', Service>;
  secrets: Record<string, { file: string }>;
  volumes: Record<string, unknown>;
};
const { redis, producer, worker, quarantine } = compose.services;
const ours = { producer, worker, quarantine };

/** A value as compose fills it in when nothing is set outside. */
function filled(value: string): string {
  return value.replace(/\$\{\w+:-([^}]*)\}/g, '$1').replace(/\$\{\w+:\?[^}]*\}/g, 'given');
}

test('the file has the parts it promises and nothing that compose would not read', () => {
  const known = ['name', 'services', 'secrets', 'volumes'];
  expect(Object.keys(compose).filter((key) => !known.includes(key) && !key.startsWith('x-'))).toEqual([]);
  expect(Object.keys(compose.services).sort()).toEqual(['producer', 'quarantine', 'redis', 'worker']);
});

test('Redis keeps an append-only file in a volume, evicts nothing and is not reachable from outside', () => {
  expect(redis.command.join(' ')).toContain('--appendonly yes');
  expect(redis.command.join(' ')).toContain('--maxmemory-policy noeviction');
  expect(redis.volumes).toEqual(['redis-data:/data']);
  expect(compose.volumes).toHaveProperty('redis-data');
  expect(redis.healthcheck.test.join(' ')).toContain('redis-cli ping');
  expect(redis.ports).toBeUndefined();
});

test('only the producer is published, on the loopback, and only with API keys', () => {
  const published = Object.entries(compose.services).flatMap(([name, { ports = [] }]) =>
    ports.map((port) => `${name} ${port}`),
  );
  expect(published).toEqual(['producer 127.0.0.1:8080:8080']);
  expect(producer.environment?.['MILLRACE_API_KEYS']).toBe('/run/secrets/api-keys');
  expect(producer.secrets).toEqual(['api-keys']);
  expect(compose.secrets['api-keys']).toEqual({ file: './api-keys.txt' });
});

test('the comment at the top makes a key file that the producer accepts', () => {
  const line = /echo "\$\(.*\):(\S+)" > api-keys\.txt/.exec(source);
  const { keys, problems } = parseApiKeys(`${sha256('a key')}:${line?.[1]}`);
  expect(problems).toEqual([]);
  expect(keys).toMatchObject([{ tenant: 'default' }]);
});

test('every service of ours waits for Redis, has its own health check and an unprivileged, read-only container', () => {
  for (const service of Object.values(ours)) {
    expect(service.depends_on).toEqual({ redis: { condition: 'service_healthy' } });
    expect(service.healthcheck.test.join(' ')).toContain('/healthz');
    expect(service).toMatchObject({ read_only: true, cap_drop: ['ALL'], restart: 'unless-stopped' });
  }
});

test('containers are stopped later than a worker needs to hand its runs over', () => {
  for (const service of Object.values(ours)) {
    const seconds = Number(service.stop_grace_period.replace(/s$/, ''));
    expect(seconds * 1_000).toBeGreaterThan(Number(service.environment?.['SHUTDOWN_GRACE_MS']) + 5_000);
  }
});

test('two workers serve runs and one serves quarantine, one run at a time', () => {
  expect(worker.deploy).toEqual({ replicas: 2 });
  expect(worker.environment?.['WORKER_QUEUES']).toBeUndefined();
  expect(quarantine.deploy).toBeUndefined();
  expect(quarantine.environment).toMatchObject({ WORKER_QUEUES: 'quarantine', WORKER_CONCURRENCY: '1' });
  expect([producer, worker, quarantine].map((service) => service.command)).toEqual([
    ['producer'],
    ['worker'],
    ['worker'],
  ]);
});

test('agents are mounted read-only for workers only, and only workers get the provider key', () => {
  for (const { volumes } of [worker, quarantine]) expect(volumes).toContain('./agents:/agents:ro');
  expect(producer.volumes?.join(' ')).not.toContain('/agents');
  expect(producer.environment).not.toHaveProperty('OPENAI_API_KEY');
  expect(worker.environment).toHaveProperty('OPENAI_API_KEY');
  expect(source).toMatch(/OPENAI_API_KEY: \$\{OPENAI_API_KEY:\?/);
});

test('all services of ours keep files and large results in one volume, which the image lets them write to', () => {
  for (const { volumes, environment } of Object.values(ours)) {
    expect(volumes).toContain('artifacts:/artifacts');
    expect(environment).toMatchObject({ ARTIFACT_STORE: 'file:/artifacts' });
  }
  expect(compose.volumes).toHaveProperty('artifacts');
  const image = readFileSync(join(import.meta.dirname, '../../Dockerfile'), 'utf8');
  expect(image).toMatch(/^RUN mkdir .*\/artifacts .*chown 1000:1000 \/artifacts /m);
});

test.each(Object.entries(ours))('the configuration of the %s is accepted and has no unknown name', (_, service) => {
  const { MILLRACE_API_KEYS: _keys, ...environment } = service.environment ?? {};
  expect(Object.keys(environment).filter((name) => !(name in configSchema.shape))).toEqual([]);
  const env = Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, filled(value)]));
  expect(parseConfig(env)).toMatchObject({ NODE_ENV: 'production', REDIS_URL: 'redis://redis:6379' });
});
