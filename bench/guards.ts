import { Redis } from 'ioredis';
import { Millrace } from '../src/producer/index.ts';
import { PlanProvider } from '../test/support/plan-provider.ts';
import { planInput, type PlannedStep } from '../test/support/plan.ts';
import { startScratchRedis } from '../test/support/scratch-redis.ts';
import { percentile, printTable, SystemProcess } from './measure.ts';
import { deltas, toolName } from './workload.ts';

// What the data-flow policy costs: the same runs with each mode, in turns, on one worker. Each run reads pages of strangers, sends
// mails of the model's own words, and answers. `--runs N` says how many runs a round has (60), `--rounds N` how many rounds (9).

const argOf = (name: string, fallback: number) =>
  Number(process.argv[process.argv.indexOf(name) + 1 || Infinity] ?? fallback);
const runs = argOf('--runs', 60);
const rounds = argOf('--rounds', 9);
const concurrency = 20;
const target = 1.05;
const modes = ['off', 'shadow', 'enforce'] as const;

const read = (kilobytes: number): PlannedStep => ({
  calls: [{ name: toolName, args: { order: String(kilobytes) } }],
});
const send = (number: number): PlannedStep => ({
  calls: [
    { name: 'send_mail', args: { to: 'ann@shop.example', body: `${letter} This is the letter number ${number}.` } },
  ],
});
const letter = 'Good morning, your order was sent this week and should be there by Friday. '.repeat(4);
const answer: PlannedStep = { text: 'order seven was sent '.repeat(deltas / 4) };

const workloads: Readonly<Record<string, readonly PlannedStep[]>> = {
  'the run of the benchmark, its tool a sink': [send(1), answer],
  'the run of the benchmark, its tool a stranger': [read(0.05), answer],
  'a result of 50 bytes, one mail': [read(0.05), send(1), answer],
  'a page of 2 KB, one mail': [read(2), send(1), answer],
  'a page of 50 KB, one mail': [read(50), send(1), answer],
  'a page of 50 KB, three mails': [read(50), send(1), send(2), send(3), answer],
};

async function main(): Promise<void> {
  await using scratch = await startScratchRedis();
  await using provider = await PlanProvider.start();
  const prefix = 'b-guards';
  const system = await SystemProcess.start('./systems/guards.ts', {
    BENCH_REDIS_URL: scratch.url,
    BENCH_BASE_URL: provider.baseUrl,
    BENCH_PREFIX: prefix,
    BENCH_CONCURRENCY: String(concurrency),
  });
  await using mill = new Millrace({ redis: scratch.url, prefix });
  const redis = new Redis(scratch.url);
  /** Milliseconds of CPU for each run. */
  const measured = async (agent: string, plan: readonly PlannedStep[]) => {
    const before = await system.cpu();
    const request = { agent, input: planInput(...plan) };
    const answers = await mill.enqueueMany(Array.from({ length: runs }, () => request));
    if (answers.some((one) => 'error' in one)) throw new Error(`a run was refused: ${JSON.stringify(answers)}`);
    while ((await redis.zcard(`${prefix}:_:open`)) > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    return ((await system.cpu()).micros - before.micros) / 1_000 / runs;
  };
  try {
    const rows = [['worker CPU ms per run', ...modes, 'shadow / off', 'enforce / off']];
    for (const [name, plan] of Object.entries(workloads)) {
      for (const mode of modes) await measured(mode, plan);
      const seen = await inTurns((mode) => measured(mode, plan));
      rows.push([
        name,
        ...modes.map((mode) =>
          percentile(
            seen.map((round) => round[mode]),
            50,
          ).toFixed(2),
        ),
        ...(['shadow', 'enforce'] as const).map((mode) => ratio(seen, mode).toFixed(3)),
      ]);
    }
    printTable(rows);
    const worst = Math.max(...rows.slice(1).map((row) => Number(row.at(-1))));
    console.log(
      `\nenforce against off: at most ${worst.toFixed(3)}, ≤ ${target} ${worst <= target ? 'met' : 'missed'}`,
    );
  } finally {
    redis.disconnect();
    await system.stop();
  }
}

type Round = Readonly<Record<(typeof modes)[number], number>>;

/** Each round has every mode, beginning with another one each time. */
async function inTurns(work: (mode: (typeof modes)[number]) => Promise<number>): Promise<Round[]> {
  const all: Round[] = [];
  while (all.length < rounds) {
    const round = { off: 0, shadow: 0, enforce: 0 };
    for (const [at] of modes.entries()) {
      const mode = modes[(at + all.length) % modes.length] as (typeof modes)[number];
      round[mode] = await work(mode);
    }
    all.push(round);
  }
  return all;
}

/** The median of the rounds: both figures of a round have seen the same machine. */
function ratio(seen: readonly Round[], mode: 'shadow' | 'enforce'): number {
  return percentile(
    seen.map((round) => round[mode] / round.off),
    50,
  );
}

await main();
