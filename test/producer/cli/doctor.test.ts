import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Check } from '../../../src/producer/client/diagnose/check.ts';
import { checkDiagnosis } from '../../../src/producer/client/diagnose/checks.ts';
import { checkProvider } from '../../../src/producer/cli/doctor.ts';
import type { ProviderReport } from '../../../src/shared/contract/provider-report.ts';
import type { Diagnosis, WorkerFacts } from '../../../src/producer/client/diagnose/diagnose.ts';
import { parseConfig } from '../../../src/shared/contract/config.ts';
import { freePort, startScratchRedis } from '../../support/scratch-redis.ts';
import { firstCells } from '../../support/markdown.ts';
import { runWithFlows } from '../support/flows.ts';
import { clientWorld } from './options/client.ts';
import { millrace, root, settings } from './support/cli-process.ts';

const empty = { waiting: 0, active: 0, delayed: 0, failed: 0, workers: 1 };
const unserved = { ...empty, workers: 0 };

const provider = { id: 'openai', kind: 'openai', host: 'api.openai.com', hasKey: true } as const;

/** A live worker that reports this about its provider. */
function workerWith(news: Partial<ProviderReport>, name = 'w'): WorkerFacts {
  const about = { name, heartbeatAgeMs: 10, queues: ['runs'], concurrency: 50, active: 0, version: '0.1.0' };
  return { ...about, providers: [{ ...provider, endpoint: { state: 'answers', at: ago(1_000) }, ...news }] };
}

function ago(ms: number): string {
  return new Date(Date.now() - ms).toISOString();
}

const healthy: Diagnosis = {
  redis: {
    version: '7.0.15',
    mode: 'standalone',
    aof: true,
    appendfsync: 'everysec',
    maxmemoryPolicy: 'noeviction',
    usedMemoryBytes: 10_000_000,
    maxMemoryBytes: 0,
    connectedReplicas: 0,
    clockOffsetMs: 1,
    roundTripMs: 1,
  },
  durability: 'process',
  openRuns: 0,
  oldestQueuedMs: {},
  stuckRuns: [],
  workers: [workerWith({})],
  queues: { runs: empty, 'runs-postrun': { ...empty, waiting: 3 }, quarantine: empty, maintenance: empty },
  quarantined: 0,
  counters: {},
  waits: {
    breakers: [{ target: 'acme/well', failures: 1, openForMs: undefined }],
    limiters: [],
    money: [],
    people: [],
    threads: [],
  },
  flows: [],
  batches: { open: 0, processes: 1 },
  archive: { kind: 'folder', ttlS: 604_800, waiting: 3, oldestWaitingMs: 2_000 },
};

const now = Date.now();
const before = now - 25 * 3_600_000;

function check(name: string, change: Partial<Diagnosis>, redis: Partial<Diagnosis['redis']> = {}): Check {
  const checks = checkDiagnosis({ ...healthy, ...change, redis: { ...healthy.redis, ...redis } });
  return checks.find((one) => one.name === name) as Check;
}

test('a healthy installation has nothing but ok', () => {
  const checks = checkDiagnosis(healthy);
  expect(checks.map(({ level }) => level)).toEqual(checks.map(() => 'ok'));
  expect(checks.find(({ name }) => name === 'stuck runs')?.text).toBe('nothing stuck');
});

test.each([
  ['Redis 6', 'redis', 'fail', {}, { version: '6.2.14' }],
  ['a slow Redis', 'redis', 'warn', {}, { roundTripMs: 80 }],
  ['an evicting Redis', 'eviction', 'fail', {}, { maxmemoryPolicy: 'allkeys-lru' }],
  ['a Redis that hides its policy', 'eviction', 'warn', {}, { maxmemoryPolicy: undefined }],
  ['AOF being off', 'persistence', 'fail', { durability: 'none' }, { aof: false }],
  ['memory being used by 85 %', 'memory', 'warn', {}, { usedMemoryBytes: 85, maxMemoryBytes: 100 }],
  ['memory being used by 97 %', 'memory', 'fail', {}, { usedMemoryBytes: 97, maxMemoryBytes: 100 }],
  ['a clock one second behind', 'clock', 'warn', {}, { clockOffsetMs: -1_000 }],
  ['a clock one minute ahead', 'clock', 'fail', {}, { clockOffsetMs: 60_000 }],
  ['no worker', 'workers', 'warn', { workers: [] }, {}],
  ['no worker for open runs', 'workers', 'fail', { workers: [], openRuns: 3 }, {}],
  ['a queue that no worker serves', 'queue slow', 'fail', { queues: { slow: { ...unserved, waiting: 2 } } }, {}],
  ['delayed runs in such a queue', 'queue slow', 'fail', { queues: { slow: { ...unserved, delayed: 1 } } }, {}],
  ['an empty queue that no worker serves', 'queue slow', 'warn', { queues: { slow: unserved } }, {}],
  [
    'post-run jobs of such a queue',
    'queue slow-postrun',
    'fail',
    { queues: { 'slow-postrun': { ...unserved, waiting: 2 } } },
    {},
  ],
  [
    'titles that failed',
    'post-run jobs',
    'warn',
    { counters: { postrun_jobs_failed: 2, postrun_jobs_failed_at: now } },
    {},
  ],
  [
    'titles that failed long ago',
    'post-run jobs',
    'ok',
    { counters: { postrun_jobs_failed: 2, postrun_jobs_failed_at: before } },
    {},
  ],
  [
    'runs that wait for minutes',
    'queue slow',
    'warn',
    { queues: { slow: { ...empty, waiting: 2 } }, oldestQueuedMs: { slow: 120_000 } },
    {},
  ],
  [
    'a stuck run',
    'stuck runs',
    'fail',
    { stuckRuns: [{ runId: 'R', tenant: 'default', status: 'running', ageMs: 90_000 }] },
    {},
  ],
  ['runs in quarantine', 'quarantine', 'warn', { quarantined: 1 }, {}],
  ['runs that were requeued', 'requeued', 'warn', { counters: { requeued: 2, requeued_at: now } }, {}],
  ['runs that were requeued long ago', 'requeued', 'ok', { counters: { requeued: 2, requeued_at: before } }, {}],
  [
    'a model that keeps failing',
    'breakers',
    'fail',
    { waits: { ...healthy.waits, breakers: [{ target: 'acme/m', failures: 5, openForMs: 9_000 }] } },
    {},
  ],
  [
    'a model that failed and was not called since',
    'breakers',
    'warn',
    { waits: { ...healthy.waits, breakers: [{ target: 'acme/m', failures: 5, openForMs: 0 }] } },
    {},
  ],
  [
    'runs that wait for a provider',
    'provider limits',
    'warn',
    { waits: { ...healthy.waits, limiters: [{ model: 'm', waiting: 3 }] } },
    {},
  ],
  [
    'runs that wait for money',
    'budgets',
    'warn',
    { waits: { ...healthy.waits, money: [{ tenant: 'acme', account: 'batch:b', waiting: 3 }] } },
    {},
  ],
  [
    'runs that wait for people',
    'approvals',
    'ok',
    { waits: { ...healthy.waits, people: [{ tenant: 'acme', waiting: 3, oldestMs: 60_000 }] } },
    {},
  ],
  ['failed jobs', 'failed jobs', 'warn', { queues: { runs: { ...empty, failed: 4 } } }, {}],
] satisfies [string, string, Check['level'], Partial<Diagnosis>, Partial<Diagnosis['redis']>][])(
  '%s shows in the line "%s" as %s',
  (_, name, level, change, redis) => {
    expect(check(name, change, redis).level).toBe(level);
  },
);

test.each([
  ['answers', {}, 'ok', /^api\.openai\.com, with a key, answers$/],
  ['has no key', { hasKey: false }, 'ok', /^api\.openai\.com, without a key, answers$/],
  ['has not been asked', { endpoint: undefined }, 'ok', /^api\.openai\.com, with a key$/],
  [
    'does not accept the key',
    { endpoint: { state: 'refuses_key', status: 401, at: ago(0) } },
    'fail',
    /^api\.openai\.com does not accept the key \(401\)$/,
  ],
  ['is away', { endpoint: { state: 'unreachable', at: ago(0) } }, 'fail', /^api\.openai\.com cannot be reached$/],
  [
    'was away before it answered a call',
    { endpoint: { state: 'unreachable', at: ago(9_000) }, lastAnswerAt: ago(10) },
    'ok',
    /^api\.openai\.com, with a key, answers$/,
  ],
  [
    'refused the last call',
    { lastError: { kind: 'auth', status: 401, message: 'no such key', model: 'm', at: ago(0) } },
    'fail',
    /, answers; last error \d+ ms ago: auth 401 for m: no such key$/,
  ],
  [
    'is overloaded',
    { lastError: { kind: 'overloaded', status: 503, model: 'm', at: ago(0) } },
    'warn',
    /; last error \d+ ms ago: overloaded 503 for m$/,
  ],
  [
    'refused one request',
    { lastError: { kind: 'bad_request', status: 400, model: 'm', at: ago(0) } },
    'ok',
    /; last error \d+ ms ago: bad_request 400 for m$/,
  ],
] satisfies [string, Partial<ProviderReport>, Check['level'], RegExp][])(
  'a provider of the workers that %s shows',
  (_, news, level, text) => {
    const found = check('provider openai', { workers: [workerWith(news), workerWith(news, 'v')] });
    expect(found.level).toBe(level);
    expect(found.text).toMatch(text);
  },
);

test('workers that differ have a line each, and without workers no provider is known', () => {
  const away = { endpoint: { state: 'unreachable', at: ago(0) } } as const;
  const workers = [workerWith({}, 'a'), workerWith(away, 'b'), workerWith({}, 'c')];
  const lines = checkDiagnosis({ ...healthy, workers }).filter(({ name }) => name === 'provider openai');
  expect(lines.map(({ level, text }) => [level, text])).toEqual([
    ['ok', 'api.openai.com, with a key, answers (2 of 3 workers: a, c)'],
    ['fail', 'api.openai.com cannot be reached (1 of 3 workers: b)'],
  ]);
  expect(check('provider', { workers: [] })).toMatchObject({
    level: 'warn',
    text: expect.stringContaining('no worker'),
  });
});

test('operations explains every line', () => {
  const names = checkDiagnosis(healthy).map(({ name }) =>
    name.replace(/^(queue .*|provider openai)$/, (found) => `${found.split(' ')[0]} NAME`),
  );
  const page = readFileSync(join(root, 'docs/operations.md'), 'utf8');
  expect(new Set(firstCells(page, 'The first look: doctor'))).toEqual(
    // The last two are those of a command that speaks HTTP.
    new Set([...names, 'flows', 'audit', 'provider', 'this shell', 'producer', 'key']),
  );
});

test('flows of the last day have a line with the command that lists them, and none has none', () => {
  expect(check('flows', {})).toBeUndefined();
  const quiet = { tenant: 'still', lastDay: 0, blocked: 0, coversMs: undefined };
  expect(check('flows', { flows: [quiet] })).toBeUndefined();
  const busy = { tenant: 'default', lastDay: 1_000, blocked: 2, coversMs: 8 * 86_400_000 };
  const { level, text, advice } = check('flows', { flows: [busy, quiet] });
  expect([level, text]).toEqual(['ok', 'found in the last day: 1,000 of default, 2 blocked']);
  expect(advice).toBe('millrace flows --since 1d lists them');
  const shop = { ...busy, tenant: 'shop' };
  expect(check('flows', { flows: [shop] }).advice).toContain('--since 1d --tenant shop');
  expect(check('flows', { flows: [shop, busy] }).advice).toContain('--since 1d --tenant TENANT');
  expect(check('audit', { flows: [busy] })).toBeUndefined();
});

test('an audit that is full and covers less than a week is a warning', () => {
  const full = { tenant: 'shop', lastDay: 1_000, blocked: 0, coversMs: 3 * 86_400_000 };
  const { level, text, advice } = check('audit', { flows: [full] });
  expect(level).toBe('warn');
  expect(text).toBe('there is no room for a week: that of shop covers 72 h 00 min');
  expect(advice).toContain('millrace flows report --since 1d --tenant shop');
});

test('doctor counts what guards found in the last day, by tenant', async () => {
  const world = await clientWorld();
  const day = 86_400_000;
  await runWithFlows(world, [{ agoMs: 2 * day }, { agoMs: 0 }, { agoMs: 0, decision: 'blocked' }]);
  await runWithFlows({ ...world, mill: world.mill.forTenant('shop') }, [{ agoMs: 2 * day }]);
  const { flows } = await world.mill.diagnose();
  expect(flows.toSorted((a, b) => a.tenant.localeCompare(b.tenant))).toEqual([
    { tenant: 'default', lastDay: 2, blocked: 1, coversMs: undefined },
    { tenant: 'shop', lastDay: 0, blocked: 0, coversMs: undefined },
  ]);
});

test('for the post-run jobs of a queue, the advice is a worker of that queue', () => {
  const { advice } = check('queue slow-postrun', { queues: { 'slow-postrun': { ...unserved, waiting: 2 } } });
  expect(advice).toBe('no worker serves it: WORKER_QUEUES=slow millrace worker');
});

test('chores that wait are no reason to call for a worker', () => {
  expect(check('queue maintenance', { queues: { maintenance: { ...empty, waiting: 3 } } }).level).toBe('ok');
});

test('every line that failed says what to do', () => {
  const sick: Diagnosis = {
    ...healthy,
    redis: {
      ...healthy.redis,
      version: '6.0',
      aof: false,
      maxmemoryPolicy: 'volatile-lru',
      clockOffsetMs: 99_999,
      usedMemoryBytes: 99,
      maxMemoryBytes: 100,
    },
    durability: 'none',
    openRuns: 1,
    stuckRuns: [{ runId: 'R', tenant: 'default', status: 'queued', ageMs: 99_999 }],
    workers: [],
    queues: { runs: { ...unserved, waiting: 1 } },
    batches: { open: 2, processes: 0 },
  };
  const failed = checkDiagnosis(sick).filter(({ level }) => level === 'fail');
  expect(failed.map(({ name }) => name)).toEqual([
    'redis',
    'eviction',
    'persistence',
    'memory',
    'clock',
    'queue runs',
    'workers',
    'stuck runs',
    'batches',
  ]);
  for (const { advice } of failed) expect(advice).toBeTruthy();
});

test('open batches are no trouble while a process advances them', () => {
  expect(check('batches', { batches: { open: 2, processes: 1 } })).toMatchObject({ level: 'ok' });
  expect(check('batches', { batches: { open: 0, processes: 0 } })).toMatchObject({ level: 'ok' });
});

test('doctor exits 0 with a line for everything, also as JSON', async () => {
  const { prefix } = await clientWorld();
  const { code, stdout } = await millrace(['doctor'], { env: settings(prefix) });
  expect(code).toBe(0);
  expect(stdout).toMatch(/^ok {4}eviction +noeviction$/m);
  expect(stdout).toMatch(/^ok {4}stuck runs +nothing stuck$/m);
  expect(stdout).toMatch(/^warn {2}provider +no worker is running/m);
  expect(stdout).not.toMatch(/^\w+ +this shell/m);
  const here = await millrace(['doctor', '--here'], { env: settings(prefix) });
  expect(here.stdout).toMatch(/^warn {2}this shell +none: the built-in scripted model answers/m);
  const json = await millrace(['doctor', '--json'], { env: settings(prefix) });
  const { checks, diagnosis } = JSON.parse(json.stdout) as { checks: Check[]; diagnosis: Diagnosis };
  expect(checks.length).toBeGreaterThan(10);
  expect(diagnosis.redis.aof).toBe(true);
});

test('doctor exits 1 when Redis may lose runs', async () => {
  const redis = await startScratchRedis({ extraArgs: ['--maxmemory-policy', 'allkeys-lru', '--appendonly', 'no'] });
  onTestFinished(() => redis.stop());
  const { code, stdout } = await millrace(['doctor'], { env: { REDIS_URL: redis.url } });
  expect(code).toBe(1);
  expect(stdout).toMatch(/^FAIL {2}eviction .*CONFIG SET maxmemory-policy noeviction/m);
  expect(stdout).toMatch(/^FAIL {2}persistence .*CONFIG SET appendonly yes/m);
});

test('doctor does not show the password of a Redis that is away', async () => {
  const url = `redis://user:geheim-und-lang@127.0.0.1:${await freePort()}`;
  const { code, stdout, stderr } = await millrace(['doctor'], { env: { REDIS_URL: url } });
  expect(stdout + stderr).not.toContain('geheim');
  expect(code).toBe(3);
});

/** A provider that answers its list of models with this status. */
async function modelServer(status: number): Promise<{ url: string; seen: (string | undefined)[] }> {
  const seen: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    seen.push(`${request.url} ${request.headers.authorization}`);
    response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(0, '127.0.0.1', resolve);
  await promise;
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as { port: number }).port}/v1`, seen };
}

async function asked(env: Record<string, string>): Promise<Check> {
  return await checkProvider(parseConfig(env), new AbortController().signal);
}

test.each([
  [200, 'ok'],
  [404, 'ok'],
  [401, 'fail'],
  [503, 'fail'],
])('a provider that answers %i is %s', async (status, level) => {
  const { url, seen } = await modelServer(status);
  const found = await asked({ OPENAI_BASE_URL: url, OPENAI_API_KEY: 'sk-secret-enough' });
  expect(found.level).toBe(level);
  expect(JSON.stringify(found)).not.toContain('sk-secret');
  expect(seen).toEqual(['/v1/models Bearer sk-secret-enough']);
});

test('a provider that cannot be reached fails, and a script needs none', async () => {
  expect((await asked({ OPENAI_BASE_URL: `http://127.0.0.1:${await freePort()}/v1` })).level).toBe('fail');
  expect((await asked({ MILLRACE_SCRIPT: 'builtin' })).level).toBe('ok');
  expect((await asked({})).level).toBe('warn');
});

test('one of a thing is counted in the singular', () => {
  const inRedis = { runs: 1, bytes: 1, maxBytes: 33_554_432, coversMs: 3_600_000 };
  const late = { ...healthy.archive, waiting: 1, oldestWaitingMs: 3_600_000 };
  const texts = [
    check('workers', { workers: [], openRuns: 1 }),
    check('quarantine', { quarantined: 1 }),
    check('requeued', { counters: { requeued: 1, requeued_at: Date.now() } }),
    check('post-run jobs', { counters: { postrun_jobs_failed: 1, postrun_jobs_failed_at: Date.now() } }),
    check('archive', { archive: late }),
    check('archive', { archive: { ...healthy.archive, kind: 'redis', inRedis } }),
  ].map(({ text }) => text);
  expect(texts).toEqual([
    'none is alive, and 1 run is open',
    expect.stringMatching(/^1 run that keeps losing its workers/),
    'the reconciler has requeued 1 run whose job was gone',
    '1 title or embedding could not be made',
    '1 ended run is not in it yet, the oldest for 1 h 00 min',
    '1 ended run in Redis, 0 MB of 32 MB',
  ]);
});

test('the archive is shown with how full it is, and what to do when runs wait for it or leave it early', () => {
  const usage = healthy.archive;
  expect(check('archive', {})).toMatchObject({ level: 'ok', text: 'ended runs are kept for 168 h 00 min in a folder' });
  expect(check('archive', { archive: { ...usage, ttlS: 0 } })).toMatchObject({
    level: 'ok',
    text: 'off: ARCHIVE_TTL_S is 0',
  });
  const late = check('archive', { archive: { ...usage, oldestWaitingMs: 3_600_000 } });
  expect(late).toMatchObject({ level: 'fail', text: '3 ended runs are not in it yet, the oldest for 1 h 00 min' });
  const inRedis = { runs: 9_000, bytes: 10_000_000, maxBytes: 33_554_432, coversMs: 3_600_000 };
  expect(check('archive', { archive: { ...usage, kind: 'redis', inRedis } })).toMatchObject({
    level: 'ok',
    text: '9,000 ended runs in Redis, 10 MB of 32 MB',
  });
  const full = check('archive', { archive: { ...usage, kind: 'redis', inRedis: { ...inRedis, bytes: 33_500_000 } } });
  expect(full).toMatchObject({ level: 'warn' });
  expect(full.text).toContain('full, it covers 1 h 00 min of 168 h 00 min');
  expect(full.advice).toContain('ARCHIVE_REDIS_MAX_BYTES');
});
