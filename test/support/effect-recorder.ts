import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** One execution of a tool, written down before its effect counts as done. */
export interface Execution {
  readonly tool: string;
  /** The idempotency key that the tool was given. */
  readonly key: string;
  readonly runId: string;
  /** Which call of the plan this is: the `id` argument. */
  readonly id: string;
  readonly pid: number;
  readonly at: number;
}

/**
 * Writes one line into the effects file of this test. The file is outside of the system under test, and a short append
 * is one write of the kernel: it survives a `kill -9` of the process right after.
 */
export function recordEffect(folder: string, execution: Omit<Execution, 'pid' | 'at'>): void {
  appendFileSync(join(folder, 'effects'), `${JSON.stringify({ ...execution, pid: process.pid, at: Date.now() })}\n`);
}

/** Everything that tools have done so far. */
export function executions(folder: string): Execution[] {
  const file = join(folder, 'effects');
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Execution);
}
