import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { table } from '../../../src/producer/cli/show/paint.ts';
import type { ClientWorld } from '../cli/options/client.ts';
import { RunWriter } from '../support/run-writer.ts';

/** Figures, to be printed. */
export function tableOf(rows: readonly Readonly<Record<string, unknown>>[]): string {
  const heads = Object.keys(rows[0] ?? {});
  return `\n${table([heads, ...rows.map((row) => heads.map((head) => String(row[head])))])}`;
}

/** A folder of this test alone. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-batch-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function writeLines(path: string, lines: readonly unknown[]): void {
  writeFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
}

/** Ends every run that is queued, like a fleet of workers, until its test ends. */
export function playFleet(
  { mill, redis, keys }: ClientWorld,
  end: (writer: RunWriter, input: string) => Promise<void>,
): void {
  const done = new AbortController();
  const ended = new Set<string>();
  const work = async () => {
    while (!done.signal.aborted) {
      const { runs } = await mill.list({ status: 'queued', limit: 100 });
      for (const { runId } of runs) {
        if (ended.has(runId)) continue;
        ended.add(runId);
        const { input } = JSON.parse((await redis.hget(keys.run(runId), 'request')) ?? '{}') as { input: string };
        await end(new RunWriter(redis, keys, runId), input);
      }
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  const working = work();
  onTestFinished(async () => {
    done.abort();
    await working;
  });
}
