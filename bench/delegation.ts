import { performance } from 'node:perf_hooks';
import { Redis } from 'ioredis';
import { Millrace, type RunRequestInput } from '../src/producer/index.ts';
import { startScratchRedis } from '../test/support/scratch-redis.ts';
import { PlanProvider } from '../test/support/plan-provider.ts';
import { planInput, type PlannedStep } from '../test/support/plan.ts';
import { percentile, printTable, redisCounters, SystemProcess } from './measure.ts';
import { toolName } from './workload.ts';

// Runs that work for others against runs of their own that do as much, and how long it takes until all have stopped.
// `--children N` says how many a fan-out has (20), `--rounds N` how often everything is done (9).

const argOf = (name: string, fallback: number) =>
  Number(process.argv[process.argv.indexOf(name) + 1 || Infinity] ?? fallback);
const childCount = argOf('--children', 20);
const rounds = argOf('--rounds', 9);
const depth = 3;
/** Of a fan-out that is cancelled so many have begun, and half of those work. */
const begun = Math.min(childCount, 64);
const cancelTargetMs = 2_000;

interface World {
  readonly mill: Millrace;
  readonly redis: Redis;
  readonly prefix: string;
  readonly provider: PlanProvider;
  readonly system: SystemProcess;
}

interface Figures {
  readonly ms: number;
  readonly commands: number;
  readonly redisBytes: number;
}

const answer: PlannedStep = { text: 'Order seven was sent.' };
const slow: PlannedStep = { ...answer, hold: { gate: 'slow', afterPieces: 1 } };
const call = (name: string, args: Record<string, unknown>): PlannedStep => ({ calls: [{ name, args }] });

function fanOut(step: PlannedStep, maxConcurrentChildren?: number): RunRequestInput {
  const children = Array.from({ length: childCount }, (_, n) => ({
    agent: 'plain',
    id: `c${n}`,
    input: planInput(step),
  }));
  return { agent: 'plain', input: '', fanOut: { children, ...(maxConcurrentChildren && { maxConcurrentChildren }) } };
}

/** A question to an agent that asks one, so many deep; the last one asks no other. */
function question(deep: number): PlannedStep[] {
  if (deep === 0) return [answer];
  const agent = deep === 1 ? 'plain' : 'asker';
  return [call('ask_agent', { agent, message: planInput(...question(deep - 1)) }), answer];
}

const alone: RunRequestInput = { agent: 'plain', input: planInput(answer) };
const asking: RunRequestInput = { agent: 'asker', input: planInput(...question(depth)) };
const looks = Array.from({ length: 2 * depth }, () => call(toolName, { order: '7' }));
const looking: RunRequestInput = { agent: 'plain', input: planInput(...looks, answer) };

async function main(): Promise<void> {
  await using scratch = await startScratchRedis();
  await using provider = await PlanProvider.start();
  const many = Array.from({ length: childCount }, () => alone);
  const rows = [['with / without', 'at once', 'ms', 'ms', 'ratio', 'commands', 'commands', 'KB', 'KB', 'worker MB']];
  for (const concurrency of [1, 4])
    await withWorker(scratch.url, provider, concurrency, async (world) => {
      const fanned = [`fan-out of ${childCount}`, `${childCount} runs`] as const;
      rows.push(await compared(world, concurrency, childCount, fanned, [[fanOut(answer)], many]));
      const asked = [`${depth} deep`, 'one run'] as const;
      rows.push(await compared(world, concurrency, 2 * depth + 1, asked, [[asking], [looking]]));
    });
  printTable(rows);
  await withWorker(scratch.url, provider, Math.ceil(begun / 2), async (world) => {
    const figures = await repeated(() => cancelled(world));
    const seen = Math.max(...figures);
    const ms = [percentile(figures, 50), seen].map((figure) => figure.toFixed(0)).join(', at most ');
    const verdict = seen <= cancelTargetMs ? 'met' : 'missed';
    console.log(`\nfrom a cancel until the last of ${begun} has ended: p50 ${ms} ms, ≤ ${cancelTargetMs} ${verdict}`);
  });
}

async function withWorker(
  redisUrl: string,
  provider: PlanProvider,
  concurrency: number,
  work: (world: World) => Promise<void>,
): Promise<void> {
  const prefix = `b-${concurrency}`;
  const system = await SystemProcess.start('./systems/delegation.ts', {
    BENCH_REDIS_URL: redisUrl,
    BENCH_BASE_URL: provider.baseUrl,
    BENCH_PREFIX: prefix,
    BENCH_CONCURRENCY: String(concurrency),
  });
  await using mill = new Millrace({ redis: redisUrl, prefix });
  const redis = new Redis(redisUrl);
  try {
    await work({ mill, redis, prefix, provider, system });
  } finally {
    redis.disconnect();
    await system.stop();
  }
}

/** One row: what the first costs for each of `units`, and how often that of the second it is. */
async function compared(
  world: World,
  concurrency: number,
  units: number,
  names: readonly [string, string],
  [children, apart]: readonly [readonly RunRequestInput[], readonly RunRequestInput[]],
): Promise<string[]> {
  await Promise.all([measured(world, children), measured(world, apart)]);
  const pairs = await repeated(async () => [await measured(world, children), await measured(world, apart)] as const);
  const median = (of: (pair: (typeof pairs)[number]) => number) => percentile(pairs.map(of), 50);
  const { rssBytes } = await world.system.cpu();
  return [
    names.join(' / '),
    String(concurrency),
    ...[0, 1].map((at) => median((pair) => pair[at as 0 | 1].ms).toFixed(0)),
    median(([a, b]) => a.ms / b.ms).toFixed(2),
    ...[0, 1].map((at) => (median((pair) => pair[at as 0 | 1].commands) / units).toFixed(0)),
    ...[0, 1].map((at) => (median((pair) => pair[at as 0 | 1].redisBytes) / units / 1_024).toFixed(1)),
    (rssBytes / 1_048_576).toFixed(0),
  ];
}

async function measured(world: World, requests: readonly RunRequestInput[]): Promise<Figures> {
  const { mill, redis } = world;
  const before = await redisCounters(redis);
  const started = performance.now();
  const answers = await mill.enqueueMany(requests);
  if (answers.some((one) => 'error' in one)) throw new Error(`a run was refused: ${JSON.stringify(answers)}`);
  const looked = await allEnded(world);
  const ms = performance.now() - started;
  const after = await redisCounters(redis);
  return {
    ms,
    commands: after.commands - before.commands - looked - 1,
    redisBytes: after.usedMemory - before.usedMemory,
  };
}

async function cancelled(world: World): Promise<number> {
  const { mill, provider } = world;
  const working = () => provider.calls.filter(({ ended }) => ended === 'open').length;
  const run = await mill.enqueue(fanOut(slow, begun));
  while (working() < Math.ceil(begun / 2)) await pause();
  const started = performance.now();
  await run.cancel();
  await allEnded(world);
  return performance.now() - started;
}

/** Answers how many commands it needed for that. */
async function allEnded({ redis, prefix }: World): Promise<number> {
  let looked = 1;
  for (; (await redis.zcard(`${prefix}:_:open`)) > 0; looked++) await pause();
  return looked;
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5));
}

async function repeated<T>(work: () => Promise<T>): Promise<T[]> {
  const all: T[] = [];
  while (all.length < rounds) all.push(await work());
  return all;
}

await main();
