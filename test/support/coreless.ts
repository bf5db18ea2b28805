import { existsSync, readFileSync } from 'node:fs';

/** Linux says how much memory a process has had, and how long it waited for a core; other systems do not. */
const hasProc = existsSync('/proc/self/schedstat');

/** Why tests of the memory of a process are left out; undefined where they are not. */
export const withoutProc = hasProc ? undefined : 'only /proc of Linux shows how much memory a process has had';

/** Why tests of what a process has started and holds open are left out; undefined where they are not. */
export const withoutProcesses = hasProc
  ? undefined
  : 'only /proc of Linux shows what a process has started and holds open';

/**
 * Counts from now on, in milliseconds, how long the main thread of a process is ready to run and has no core: other processes
 * of the machine take that time, so it says nothing of this one. Always 0 where the system does not count it.
 */
export function corelessSince(pid: number): () => number {
  const total = () => (hasProc ? Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6 : 0);
  const before = total();
  return () => total() - before;
}
