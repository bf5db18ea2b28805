import { fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { startScratchRedis } from '../test/support/scratch-redis.ts';
import { millraceDriver, type Driver } from './drivers.ts';
import { percentile, printTable, redisCounters, SystemProcess } from './measure.ts';

// What the archive costs. A worker runs a burst while what ended is kept out of its archiver's sight, and then archives all of it: the CPU
// of the one and of the other are measured in the same process, one after the other, so the speed of the machine and what is compiled are
// the same for both. Then the memory of Redis over many runs. `--paced`: the provider takes its time between chunks. `--runs N`: of a
// round (300; paced 100), `--rounds N` (8), `--flat N`: of the second part (10,000; 0 leaves it out).

const argOf = (name: string, fallback: number) =>
  Number(process.argv[process.argv.indexOf(name) + 1 || Infinity] ?? fallback);
const isPaced = process.argv.includes('--paced');
const runs = argOf('--runs', isPaced ? 100 : 300);
const rounds = argOf('--rounds', 8);
/** At first nothing is compiled. */
const warmUps = 4;
const flatRuns = argOf('--flat', 10_000);
const maxShare = 0.05;
const maxBytes = 3_000;
const settings = ['off', 'folder', 'redis'] as const;
type Setting = (typeof settings)[number];
const archiving = settings.filter((setting) => setting !== 'off');

const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'));
// What is kept of a run beside the archive goes at once, so that the second part sees what stays.
const short = { EVENT_LOG_TTL_S: '1', RESULT_TTL_S: '1' };
const envOf: Readonly<Record<Setting, Record<string, string>>> = {
  off: { ...short, ARCHIVE_TTL_S: '0' },
  folder: { ...short, ARTIFACT_STORE: `file:${folder}` },
  redis: { ...short, ARCHIVE_REDIS_MAX_BYTES: String(4 * 1024 ** 2) },
};

interface System {
  readonly process: SystemProcess;
  readonly driver: Driver;
  readonly prefix: string;
}

async function main(): Promise<void> {
  await using scratch = await startScratchRedis();
  const provider = fork(fileURLToPath(new URL('./provider.ts', import.meta.url)));
  const port = await new Promise<number>((resolve) =>
    provider.once('message', (message) => resolve((message as { port: number }).port)),
  );
  const redis = new Redis(scratch.url);
  const systems = new Map<Setting, System>();
  try {
    for (const setting of settings) systems.set(setting, await start(setting, scratch.url, port));
    await costs(systems, redis);
    if (flatRuns > 0) await memory(systems, redis);
  } finally {
    for (const { process, driver } of systems.values()) {
      await driver[Symbol.asyncDispose]();
      await process.stop();
    }
    redis.disconnect();
    provider.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}

function prefixOf(setting: Setting): string {
  return `b-archive-${setting}`;
}

async function start(setting: Setting, redisUrl: string, port: number): Promise<System> {
  const prefix = prefixOf(setting);
  const process = await SystemProcess.start('./systems/millrace.ts', {
    BENCH_REDIS_URL: redisUrl,
    BENCH_BASE_URL: `http://127.0.0.1:${port}/${isPaced ? 'paced' : 'burst'}/v1`,
    BENCH_PREFIX: prefix,
    BENCH_CONCURRENCY: '50',
    BENCH_WORKER_ENV: JSON.stringify(envOf[setting]),
  });
  return { process, prefix, driver: await millraceDriver(redisUrl, prefix) };
}

/** Runs so many, and waits until all of them are archived. */
async function load({ driver, prefix }: System, count: number, redis: Redis): Promise<void> {
  await driver.load(count);
  while ((await redis.zcard(`${prefix}:_:archive-due`)) > 0) await new Promise((resolve) => setTimeout(resolve, 20));
}

interface Cost {
  /** Milliseconds of CPU for each run. */
  readonly running: number;
  readonly archiving: number;
  readonly inRedis: number;
}

/** Moves what is due, and has no lease yet, to another place. */
const moveScript = `
  local time = redis.call('TIME')
  local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', time[1] * 1000 + 20000)
  for _, runId in ipairs(due) do
    redis.call('ZADD', KEYS[2], 1, runId)
    redis.call('ZREM', KEYS[1], runId)
  end
  return #due`;

async function costs(systems: ReadonlyMap<Setting, System>, redis: Redis): Promise<void> {
  const seen = new Map<Setting, Cost[]>(archiving.map((setting) => [setting, []]));
  const idle = new Map<Setting, number>();
  const system = (setting: Setting) => systems.get(setting) as System;
  for (let round = 0; round < warmUps; round++)
    for (const setting of archiving) await costOf(system(setting), redis, 0);
  for (const setting of archiving) idle.set(setting, await idleShare(system(setting)));
  // What is compiled is dropped while a process rests. In turns: the machine is not always as fast.
  for (let round = -1; round < rounds; round++)
    for (const setting of archiving) {
      const cost = await costOf(system(setting), redis, idle.get(setting) ?? 0);
      if (round >= 0) seen.get(setting)?.push(cost);
    }
  const shown = archiving.map((setting) => {
    const all = seen.get(setting) ?? [];
    const sum = (of: keyof Cost) => all.reduce((total, cost) => total + cost[of], 0);
    const shares = all.map((cost) => cost.archiving / cost.running);
    const spread = [0, 50, 100].map((p) => (percentile(shares, p) * 100).toFixed(1));
    const means = (['running', 'archiving', 'inRedis'] as const).map((of) => (sum(of) / all.length).toFixed(2));
    return { row: [setting, ...means, spread.join(' / ')], share: sum('archiving') / sum('running') };
  });
  printTable([
    ['archive', 'a run: worker ms', 'archived: worker ms', 'Redis ms', 'share, least / median / most %', ''],
    ...shown.map(({ row, share }) => [...row, `${(share * 100).toFixed(1)} % of all`]),
  ]);
  const worst = Math.max(...shown.map(({ share }) => share));
  console.log(
    `CPU of the archive: ${(worst * 100).toFixed(1)} % of a run, <= ${maxShare * 100} % ${met(worst <= maxShare)}`,
  );
  const [kept, bytes] = await Promise.all([
    redis.zcard(`${prefixOf('redis')}:{archive}:runs`),
    redis.get(`${prefixOf('redis')}:{archive}:bytes`),
  ]);
  const each = Number(bytes) / kept;
  console.log(
    `bytes of a run, with what Redis needs for it: ${each.toFixed(0)}, <= ${maxBytes} ${met(each <= maxBytes)}`,
  );
}

/** One round. `idle`: the part of a core that the worker needs when it does nothing. */
async function costOf({ driver, prefix, process }: System, redis: Redis, idle: number): Promise<Cost> {
  const [due, held] = [`${prefix}:_:archive-due`, `${prefix}-held`];
  const hold = holdBack(redis, due, held);
  const cpuMs = async () => [(await process.cpu()).micros / 1_000, performance.now()] as const;
  const spent = ([a, from]: readonly [number, number], [b, to]: readonly [number, number]) =>
    b - a - idle * (to - from);
  const before = await cpuMs();
  await driver.load(runs);
  const between = await cpuMs();
  const count = await hold();
  const redisBefore = (await redisCounters(redis)).cpuMicros;
  await redis.zunionstore(due, 2, due, held);
  await redis.del(held);
  while ((await redis.zcard(due)) > 0) await new Promise((resolve) => setTimeout(resolve, 20));
  const after = await cpuMs();
  const inRedis = ((await redisCounters(redis)).cpuMicros - redisBefore) / 1_000 / count;
  return { running: spent(before, between) / runs, archiving: spent(between, after) / count, inRedis };
}

/** Keeps ended runs out of the list of those that are due, until the answer is called: it says how many they are. */
function holdBack(redis: Redis, due: string, held: string): () => Promise<number> {
  const stop = new AbortController();
  const move = async () => Number(await redis.eval(moveScript, 2, due, held));
  const moving = (async () => {
    let moved = 0;
    while (!stop.signal.aborted) {
      moved += await move();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return moved;
  })();
  return async () => {
    stop.abort();
    return (await moving) + (await move());
  };
}

/** The garbage of a burst is collected some seconds after it: that is in no round. */
async function idleShare({ process }: System): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, 20_000));
  const [before, startedAt] = [await process.cpu(), performance.now()];
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  return ((await process.cpu()).micros - before.micros) / 1_000 / (performance.now() - startedAt);
}

async function memory(systems: ReadonlyMap<Setting, System>, redis: Redis): Promise<void> {
  const rows = [['archive', 'runs', 'MB of Redis', 'KB more per run']];
  for (const setting of settings) {
    const system = systems.get(setting) as System;
    let before = await settled(redis);
    for (let done = 0; done < flatRuns; done += flatRuns / 5) {
      await load(system, flatRuns / 5, redis);
      const now = await settled(redis);
      const more = ((now - before) / 1_024 / (flatRuns / 5)).toFixed(3);
      rows.push([setting, String(done + flatRuns / 5), (now / 1024 ** 2).toFixed(2), more]);
      before = now;
    }
  }
  printTable(rows, 1);
}

/** The memory that Redis uses once what has expired is gone, and without the latest events of all runs, of which it keeps so many. */
async function settled(redis: Redis): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  for (const setting of settings)
    for (const key of [`${prefixOf(setting)}:lifecycle`, `${prefixOf(setting)}:runs:events`])
      await redis.xtrim(key, 'MAXLEN', 0);
  // Redis removes what has expired when it is looked at, or finds it some time.
  let cursor = '0';
  do [cursor] = await redis.scan(cursor, 'COUNT', 1_000);
  while (cursor !== '0');
  return (await redisCounters(redis)).usedMemory;
}

function met(isMet: boolean): string {
  return isMet ? 'met' : 'missed';
}

await main();
