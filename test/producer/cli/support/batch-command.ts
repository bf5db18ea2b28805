import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { Fleet } from '../../../support/fleet.ts';
import { scratchFolder, writeLines } from '../../batch/support.ts';
import { root, settings } from './cli-process.ts';

/** A line of the results of a batch of JSONL. */
export interface BatchResult {
  readonly line: number;
  readonly id?: string;
  readonly executionId: string;
  readonly runId?: string;
  readonly status: string;
  readonly text: string;
  readonly error?: { readonly code: string; readonly message: string };
  readonly costMicrocents: number;
}

/** In the order of their lines. */
export function readResults(path: string): BatchResult[] {
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line) as BatchResult).toSorted((a, b) => a.line - b.line);
}

/** Each answer takes as long as its words need; the input decides. */
const batchScript = `rules:
  - when: { user: fail }
    answer: { error: { kind: content_filter } }
  - answer: { text: one two three four five, deltaMs: 20 }
`;

/** A real worker with the sample agents, and a file of lines for it. */
export async function batchWorld(lines: readonly unknown[], { script = batchScript, file = 'in.jsonl' } = {}) {
  const folder = scratchFolder();
  writeFileSync(join(folder, 'script.yaml'), script);
  const fleet = new Fleet({
    env: {
      MILLRACE_AGENTS: join(root, 'agents'),
      MILLRACE_SCRIPT: join(folder, 'script.yaml'),
      WORKER_CONCURRENCY: '10',
    },
  });
  onTestFinished(() => fleet.dispose());
  await fleet.startWorker();
  const path = join(folder, file);
  if (file.endsWith('.csv')) writeFileSync(path, lines.join('\n'));
  else writeLines(path, lines);
  const out = join(folder, file.replace('in.', 'out.'));
  const env = settings(fleet.prefix);
  return { fleet, folder, file: path, out, env, args: ['batch', path, '--agent', 'summarise', '-o', out] };
}
