import { readFileSync } from 'node:fs';
import type { BatchProgress, BatchSummary } from '../../batch/batch-options.ts';
import { runBatch } from '../../batch/run-batch.ts';
import { batchResult } from '../../batch/batch-output.ts';
import type { Millrace } from '../../client/millrace.ts';
import type { Cli } from '../cli.ts';
import { batchLine } from '../show/batch-line.ts';
import { LiveLine } from '../show/live-line.ts';
import { red, yellow } from '../show/paint.ts';
import type { Stack } from '../stack/stack.ts';

export interface SampleOptions {
  readonly sample: string;
  readonly out: string;
  readonly stack: Stack;
}

export interface SampleResult {
  readonly summary: BatchSummary;
  readonly runIds: readonly string[];
  readonly elapsedMs: number;
}

/** Runs the sample batch, and half-way kills the last worker with SIGKILL while it has runs. */
export async function runSample(
  cli: Cli,
  mill: Millrace,
  { sample, out, stack }: SampleOptions,
): Promise<SampleResult> {
  const startedAt = performance.now();
  const elapsedMs = () => performance.now() - startedAt;
  using live = new LiveLine(cli.stdout);
  const note = (text: string) => live.note(text);
  let killed = false;
  const killHalfWay = ({ finished, total }: BatchProgress) => {
    const victim = stack.workers.at(-1);
    if (killed || !victim || finished < total / 2) return;
    killed = true;
    process.kill(victim.pid, 'SIGKILL');
    note(
      yellow(
        cli.stdout,
        `  kill -9 ${victim.pid} (${victim.name}); the other worker takes its runs over when their leases end`,
      ),
    );
  };
  const summary = await runBatch(
    mill,
    { file: sample, out, defaults: {}, window: 1_000 },
    {
      progress(progress) {
        live.set(batchLine(progress, elapsedMs()));
        killHalfWay(progress);
      },
      refused: (line, { message }) => note(red(cli.stdout, `  line ${line}: ${message}`)),
      waiting: ({ message }) => note(yellow(cli.stdout, `  ${message}`)),
      outOfMoney: () => note(yellow(cli.stdout, '  what is left waits for money')),
    },
    cli.interrupted,
  );
  return { summary, runIds: runIdsOf(out), elapsedMs: elapsedMs() };
}

function runIdsOf(out: string): string[] {
  const lines = readFileSync(out, 'utf8').split('\n').filter(Boolean);
  return lines.flatMap((line) => batchResult.parse(JSON.parse(line)).runId ?? []);
}
