import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { systemClock } from '../src/shared/base/clock.ts';
import { silentLog } from '../src/shared/base/log.ts';
import type { ScriptOutcome } from '../src/worker/tools/code-mode/conversation.ts';
import { defaultLimits } from '../src/worker/tools/code-mode/protocol.ts';
import { ScriptPool } from '../src/worker/tools/code-mode/pool.ts';
import { percentile } from './measure.ts';

// What a script costs, and what the worker feels of one that does its worst. `--rounds N` says how often (20).

const roundsAt = process.argv.indexOf('--rounds');
const rounds = roundsAt > 0 ? Number(process.argv[roundsAt + 1]) : 20;

async function main(): Promise<void> {
  const cold = await repeat(rounds, async () => {
    await using pool = poolOf(1);
    return await timed(() => run(pool, '1 + 1'));
  });
  await using pool = poolOf(1);
  await run(pool, '1 + 1');
  const warm = await repeat(10 * rounds, () => timed(() => run(pool, '1 + 1')));
  const calls = await repeat(
    rounds,
    async () => (await timed(() => run(pool, 'for (let i = 0; i < 64; i++) await tools.echo({ i })'))) / 64,
  );
  const rows = JSON.stringify(Array.from({ length: 10_000 }, (_, n) => ({ n, text: 'x'.repeat(70) })));
  const megabyte = await repeat(rounds, () =>
    timed(() => run(pool, 'return (await tools.echo()).filter((row) => row.n % 2 === 0).length', JSON.parse(rows))),
  );
  print('cold start to value', cold);
  print('warm script', warm);
  print('one tool call', calls);
  print(`${(rows.length / 1_048_576).toFixed(1)} MB result, filtered`, megabyte);
  for (const [name, source] of Object.entries(worst)) await lag(name, source);
}

const worst = {
  'nothing runs': undefined,
  'endless loop': 'for (;;);',
  'endless microtasks': 'while (true) await null',
  'flood of calls': 'for (let i = 0; i < 1e6; i++) tools.echo({ i })',
  'memory bomb': 'const a = []; for (let i = 0; ; i++) a.push("x".repeat(1e6) + i)',
};

/** How long the worker's own event loop was kept waiting while two processes do this for two seconds. */
async function lag(name: string, source: string | undefined): Promise<void> {
  await using pool = poolOf(2);
  await Promise.all([run(pool, '1'), run(pool, '1')]);
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  const until = performance.now() + 2_000;
  const again = async () => {
    while (performance.now() < until) {
      if (source === undefined) await systemClock.sleep(100);
      else await run(pool, source, null, until - performance.now());
    }
  };
  await Promise.all([again(), again()]);
  delay.disable();
  const ms = (nanoseconds: number) => (nanoseconds / 1e6 - 5).toFixed(1);
  console.log(`host lag, ${name}: p99 ${ms(delay.percentile(99))} ms, most ${ms(delay.max)} ms`);
}

function poolOf(size: number): ScriptPool {
  return new ScriptPool({ size, log: silentLog, clock: systemClock });
}

function run(pool: ScriptPool, source: string, answer: unknown = null, timeoutMs = 30_000): Promise<ScriptOutcome> {
  return pool.run({
    source,
    tenant: 'bench',
    tools: ['echo'],
    limits: { ...defaultLimits, timeoutMs: Math.max(1, Math.round(timeoutMs)) },
    nowMs: Date.now(),
    seed: 'bench',
    signal: new AbortController().signal,
    call: () => Promise.resolve({ ok: true, value: answer }),
  });
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

async function repeat(times: number, measure: () => Promise<number>): Promise<number[]> {
  const figures: number[] = [];
  for (let n = 0; n < times; n++) figures.push(await measure());
  return figures;
}

function print(name: string, figures: readonly number[]): void {
  const at = (share: number) => percentile([...figures], share).toFixed(2);
  console.log(`${name}: p50 ${at(50)} ms, p99 ${at(99)} ms`);
}

await main();
