import { fork } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { startScratchRedis } from '../test/support/scratch-redis.ts';
import { bullDriver, millraceDriver, watchChannel, watchProgress, type Driver } from './drivers.ts';
import { percentile, printTable, redisCounters, SystemProcess } from './measure.ts';
import { deltas, pacedDelayMs } from './workload.ts';

// Side by side in one run, on one Redis and one provider: only the ratios mean something, the figures move with the
// machine. `--quick` halves the load; `--json FILE` says where the figures go.

interface Row {
  system: string;
  load: 'burst' | 'paced';
  runsPerSecond: number;
  cpuMsPerRun: number;
  redisCpuMsPerRun: number;
  commandsPerRun: number;
  kilobytesPerRun: number;
  firstTokenP50Ms: number;
  firstTokenP99Ms: number;
}

const quick = process.argv.includes('--quick');
const jsonAt = process.argv.indexOf('--json');
const resultFile = jsonAt > 0 ? (process.argv[jsonAt + 1] as string) : join(import.meta.dirname, 'results/latest.json');
const concurrency = 50;

async function main(): Promise<void> {
  await using scratch = await startScratchRedis();
  const provider = fork(fileURLToPath(new URL('./provider.ts', import.meta.url)));
  const port = await new Promise<number>((resolve) =>
    provider.once('message', (message) => resolve((message as { port: number }).port)),
  );
  const rows: Row[] = [];
  try {
    const floor = await noopJobs(scratch.url);
    for (const load of ['burst', 'paced'] as const) {
      const baseUrl = `http://127.0.0.1:${port}/${load}/v1`;
      rows.push(await openaiLoop(load, baseUrl));
      for (const system of ['naive-progress', 'naive-durable', 'millrace'] as const)
        rows.push(await queued(system, load, scratch.url, baseUrl));
    }
    print(floor, rows);
    mkdirSync(join(resultFile, '..'), { recursive: true });
    writeFileSync(
      resultFile,
      `${JSON.stringify({ node: process.version, cores: cpus().length, noopJobsPerSecond: floor, rows }, null, 2)}\n`,
    );
    console.log(`\nfigures: ${resultFile}`);
  } finally {
    provider.kill('SIGKILL');
  }
}

async function noopJobs(redisUrl: string): Promise<number> {
  console.error('measuring the no-op job');
  const prefix = 'b-noop';
  const system = await SystemProcess.start('./systems/noop.ts', {
    BENCH_REDIS_URL: redisUrl,
    BENCH_PREFIX: prefix,
    BENCH_CONCURRENCY: String(concurrency),
  });
  await using driver = await bullDriver(redisUrl, prefix, undefined);
  await driver.load(500);
  const runs = quick ? 5_000 : 20_000;
  const started = performance.now();
  await driver.load(runs);
  const perSecond = (runs * 1_000) / (performance.now() - started);
  await system.stop();
  return perSecond;
}

function sizeOf(load: Row['load']): number {
  const runs = load === 'burst' ? 300 : 100;
  return quick ? runs / 2 : runs;
}

async function openaiLoop(load: Row['load'], baseUrl: string): Promise<Row> {
  console.error(`measuring the openai loop, ${load}`);
  const system = await SystemProcess.start('./systems/openai-loop.ts', { BENCH_BASE_URL: baseUrl });
  await system.run(concurrency, concurrency);
  const runs = sizeOf(load);
  const before = await system.cpu();
  const { elapsedMs } = await system.run(runs, concurrency);
  const after = await system.cpu();
  const { firstTokenMs } = await system.run(load === 'burst' ? 100 : 10, 1);
  await system.stop();
  return {
    system: 'openai loop, no queue',
    load,
    runsPerSecond: (runs * 1_000) / elapsedMs,
    cpuMsPerRun: (after.micros - before.micros) / 1_000 / runs,
    redisCpuMsPerRun: 0,
    commandsPerRun: 0,
    kilobytesPerRun: 0,
    firstTokenP50Ms: percentile(firstTokenMs, 50),
    firstTokenP99Ms: percentile(firstTokenMs, 99),
  };
}

async function queued(
  name: 'naive-progress' | 'naive-durable' | 'millrace',
  load: Row['load'],
  redisUrl: string,
  baseUrl: string,
): Promise<Row> {
  console.error(`measuring ${name}, ${load}`);
  const prefix = `b-${name}-${load}`;
  const env = {
    BENCH_REDIS_URL: redisUrl,
    BENCH_BASE_URL: baseUrl,
    BENCH_PREFIX: prefix,
    BENCH_CONCURRENCY: String(concurrency),
  };
  const system = await SystemProcess.start(`./systems/${name}.ts`, env);
  const redis = new Redis(redisUrl);
  const watcher =
    name === 'millrace' ? undefined : (name === 'naive-progress' ? watchProgress : watchChannel)(redisUrl, prefix);
  {
    await using driver: Driver =
      name === 'millrace' ? await millraceDriver(redisUrl, prefix) : await bullDriver(redisUrl, prefix, watcher?.watch);
    await driver.load(concurrency);
    const runs = sizeOf(load);
    const redisBefore = await redisCounters(redis);
    const before = await system.cpu();
    const started = performance.now();
    await driver.load(runs);
    const elapsedMs = performance.now() - started;
    const after = await system.cpu();
    const redisAfter = await redisCounters(redis);
    const first: number[] = [];
    for (let i = 0; i < (load === 'burst' ? 100 : 10); i++) first.push(await driver.firstToken());
    await watcher?.close();
    redis.disconnect();
    await system.stop();
    return {
      system: name,
      load,
      runsPerSecond: (runs * 1_000) / elapsedMs,
      cpuMsPerRun: (after.micros - before.micros) / 1_000 / runs,
      redisCpuMsPerRun: (redisAfter.cpuMicros - redisBefore.cpuMicros) / 1_000 / runs,
      commandsPerRun: (redisAfter.commands - redisBefore.commands) / runs,
      kilobytesPerRun: (redisAfter.bytesIn - redisBefore.bytesIn) / 1_024 / runs,
      firstTokenP50Ms: percentile(first, 50),
      firstTokenP99Ms: percentile(first, 99),
    };
  }
}

function print(floor: number, rows: readonly Row[]): void {
  console.log(
    `\n2 model calls, 1 tool, ${deltas} deltas; ${concurrency} at once; paced = ${pacedDelayMs} ms between chunks; Node ${process.version}, ${cpus().length} cores`,
  );
  console.log(`no-op BullMQ job: ${floor.toFixed(0)} jobs/s\n`);
  const head = [
    'load',
    'system',
    'runs/s',
    'worker CPU ms',
    'Redis CPU ms',
    'commands',
    'KB in',
    'first token p50',
    'p99 ms',
  ];
  const cells = rows.map((row) => [
    row.load,
    row.system,
    row.runsPerSecond.toFixed(1),
    row.cpuMsPerRun.toFixed(2),
    row.redisCpuMsPerRun.toFixed(2),
    row.commandsPerRun.toFixed(0),
    row.kilobytesPerRun.toFixed(1),
    row.firstTokenP50Ms.toFixed(1),
    row.firstTokenP99Ms.toFixed(1),
  ]);
  printTable([head, ...cells], 2);
  printRatios(rows);
}

/** Target ratios, each printed with what was seen. */
function printRatios(rows: readonly Row[]): void {
  const find = (system: string, load: string) => rows.find((row) => row.system === system && row.load === load) as Row;
  const cpu = (row: Row) => row.cpuMsPerRun + row.redisCpuMsPerRun;
  const mill = find('millrace', 'burst');
  const durable = find('naive-durable', 'burst');
  const paced = find('millrace', 'paced');
  const checks: [string, number, '≥' | '≤', number][] = [
    ['burst: runs/s against naive-durable', mill.runsPerSecond / durable.runsPerSecond, '≥', 3],
    [
      'burst: runs/s against naive-progress',
      mill.runsPerSecond / find('naive-progress', 'burst').runsPerSecond,
      '≥',
      3,
    ],
    ['burst: CPU per run against naive-durable', cpu(mill) / cpu(durable), '≤', 0.3],
    [
      'burst: CPU per run against the bare openai loop',
      cpu(mill) / cpu(find('openai loop, no queue', 'burst')),
      '≤',
      0.6,
    ],
    ['paced: CPU per run against naive-durable', cpu(paced) / cpu(find('naive-durable', 'paced')), '≤', 0.35],
    ['burst: Redis commands per run', mill.commandsPerRun, '≤', 80],
    ['paced: Redis commands per run', paced.commandsPerRun, '≤', 220],
    ['burst: KB to Redis per run', mill.kilobytesPerRun, '≤', 10],
    ['first token p50 against naive-durable', mill.firstTokenP50Ms / durable.firstTokenP50Ms, '≤', 1.2],
    ['first token p99 against naive-durable', mill.firstTokenP99Ms / durable.firstTokenP99Ms, '≤', 1.5],
  ];
  console.log('\nratio                                              seen   target');
  for (const [what, seen, sign, target] of checks) {
    const met = sign === '≥' ? seen >= target : seen <= target;
    console.log(`${what.padEnd(48)} ${seen.toFixed(2).padStart(7)}  ${sign} ${target}  ${met ? 'met' : 'missed'}`);
  }
}

await main();
