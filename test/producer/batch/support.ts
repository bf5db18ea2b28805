import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { batchResult, type BatchResult } from '../../../src/producer/batch/batch-output.ts';
import {
  runBatch,
  type BatchClient,
  type BatchOptions,
  type BatchProgress,
} from '../../../src/producer/batch/run-batch.ts';
import type { ErrorInfo } from '../../../src/shared/base/errors.ts';
import type { ClientWorld } from '../cli/options/client.ts';
import { RunWriter } from '../support/run-writer.ts';

/** A folder of this test alone. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-batch-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function writeLines(path: string, lines: readonly unknown[]): void {
  writeFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
}

export function readResults(path: string): BatchResult[] {
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => batchResult.parse(JSON.parse(line)));
}

/** Everything a batch reported to its watcher. */
export interface Watched {
  readonly progress: BatchProgress[];
  readonly refused: { readonly line: number; readonly error: ErrorInfo }[];
  readonly waiting: ErrorInfo[];
  readonly outOfMoney: (readonly string[])[];
  readonly replaced: number[];
  readonly spentBefore: number[];
}

/** Starts a batch over `lines` in a folder of its own. */
export function startBatch(client: BatchClient, lines: readonly unknown[], options: Partial<BatchOptions> = {}) {
  const folder = scratchFolder();
  const file = join(folder, 'in.jsonl');
  writeLines(file, lines);
  return { file, ...again(client, { file, out: join(folder, 'out.jsonl'), ...options }) };
}

/** Starts a batch over a file that is there. */
export function again(client: BatchClient, options: Partial<BatchOptions> & Pick<BatchOptions, 'file' | 'out'>) {
  const watched: Watched = { progress: [], refused: [], waiting: [], outOfMoney: [], replaced: [], spentBefore: [] };
  const interrupt = new AbortController();
  const settings = { defaults: { agent: 'support' }, window: 1_000, ...options };
  const summary = runBatch(
    client,
    settings,
    {
      progress: (progress) => watched.progress.push(progress),
      refused: (line, error) => watched.refused.push({ line, error }),
      waiting: (reason) => watched.waiting.push(reason),
      continued: (_, replaced) => watched.replaced.push(replaced),
      spentBefore: ({ spentMicrocents }) => watched.spentBefore.push(spentMicrocents),
      outOfMoney: (accounts) => watched.outOfMoney.push(accounts),
    },
    interrupt.signal,
  );
  return { out: options.out, watched, interrupt: () => interrupt.abort('SIGINT'), summary };
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
