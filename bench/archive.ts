import { fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { startScratchRedis } from '../test/support/scratch-redis.ts';
import { millraceDriver, type Driver } from './drivers.ts';
import { percentile, printTable, redisCounters, SystemProcess } from './measure.ts';

// What the archive costs: the runs of the benchmark with the archive on and off, in turns, on a worker each that is the same but for
// that. Then the memory of Redis over many runs. `--paced`: the provider takes its time between chunks. `--runs N`: of a round (400;
// paced 100), `--rounds N` (9), `--flat N`: of the second part (10,000).

const argOf = (name: string, fallback: number) =>
  Number(process.argv[process.argv.indexOf(name) + 1 || Infinity] ?? fallback);
const isPaced = process.argv.includes('--paced');
const runs = argOf('--runs', isPaced ? 100 : 400);
const rounds = argOf('--rounds', 9);
const flatRuns = argOf('--flat', 10_000);
const maxRatio = 1.05;
const maxBytes = 3_000;
const settings = ['off', 'folder', 'redis'] as const;
type Setting = (typeof settings)[number];

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
    await memory(systems, redis);
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

async function costs(systems: ReadonlyMap<Setting, System>, redis: Redis): Promise<void> {
  let longestMs = 0;
  for (const system of systems.values()) {
    // Twice: at first nothing is compiled.
    for (const count of [runs, runs]) {
      const startedAt = performance.now();
      await load(system, count, redis);
      longestMs = Math.max(longestMs, performance.now() - startedAt);
    }
  }
  const spanMs = 2 * longestMs + 2_000;
  /** Milliseconds of CPU in a span that is as long for each setting: what a worker needs when it does nothing is in all of them alike. */
  const measured = async (setting: Setting, count: number) => {
    const system = systems.get(setting) as System;
    const [before, startedAt] = [await system.process.cpu(), performance.now()];
    await load(system, count, redis);
    const left = spanMs - (performance.now() - startedAt);
    if (left < 0) throw new Error(`${count} runs took more than twice as long as before: something else runs here`);
    await new Promise((resolve) => setTimeout(resolve, left));
    return ((await system.process.cpu()).micros - before.micros) / 1_000;
  };
  const inTurns = async (times: number, count: number) => {
    const seen: Record<Setting, number>[] = [];
    while (seen.length < times) {
      const round = { off: 0, folder: 0, redis: 0 };
      for (const [at] of settings.entries()) {
        const setting = settings[(at + seen.length) % settings.length] as Setting;
        round[setting] = await measured(setting, count);
      }
      seen.push(round);
    }
    return seen;
  };
  const idle = percentile(
    (await inTurns(3, 0)).map(({ off }) => off),
    50,
  );
  const seen = (await inTurns(rounds, runs)).map((round) => {
    const each = (setting: Setting) => (round[setting] - idle) / runs;
    return { off: each('off'), folder: each('folder'), redis: each('redis') };
  });
  const median = (of: (round: Record<Setting, number>) => number) => percentile(seen.map(of), 50);
  const sum = (setting: Setting) => seen.reduce((all, round) => all + round[setting], 0);
  console.log(`idle: ${((idle / spanMs) * 100).toFixed(1)} % of a core`);
  const shown = settings.map((setting) => [
    setting,
    median((round) => round[setting]).toFixed(2),
    median((round) => round[setting] / round.off).toFixed(3),
    (sum(setting) / sum('off')).toFixed(3),
  ]);
  printTable([['archive', 'worker CPU ms per run', 'to off, median', 'to off, all rounds'], ...shown]);
  const worst = Math.max(...shown.flatMap(([, , ...ratios]) => ratios.map(Number)));
  console.log(`CPU of a run with the archive: ${worst.toFixed(3)}, <= ${maxRatio} ${met(worst <= maxRatio)}`);
  const [kept, bytes] = await Promise.all([
    redis.zcard(`${prefixOf('redis')}:{archive}:runs`),
    redis.get(`${prefixOf('redis')}:{archive}:bytes`),
  ]);
  const each = Number(bytes) / kept;
  console.log(
    `bytes of a run, with what Redis needs for it: ${each.toFixed(0)}, <= ${maxBytes} ${met(each <= maxBytes)}`,
  );
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
