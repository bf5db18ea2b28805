import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';

export const devState = z.object({
  redisUrl: z.string(),
  prefix: z.string(),
  url: z.string(),
  pid: z.int().min(1),
  /** The folder of its agents. */
  agents: z.string().optional(),
  /** Where its files are, as `ARTIFACT_STORE`. */
  artifactStore: z.string().optional(),
});

/** Where a running `millrace dev` can be reached, as other programs find it in `.millrace/dev.json`. */
export type DevState = z.infer<typeof devState>;

/** The folder of the development stack's data. */
export function devFolder(cwd: string): string {
  return join(cwd, '.millrace');
}

interface FoundDevState extends DevState {
  /** The folder that the stack runs in. */
  readonly folder: string;
}

/** The stack that runs for this folder or one above it; undefined when none does. */
export function findDevState(cwd: string): FoundDevState | undefined {
  for (let folder = cwd; ; folder = dirname(folder)) {
    const state = readState(stateFile(folder));
    if (state && isAlive(state.pid)) return { ...state, folder };
    if (dirname(folder) === folder) return undefined;
  }
}

/** The note about the stack of a folder. */
export function stateFile(cwd: string): string {
  return join(devFolder(cwd), 'dev.json');
}

function readState(file: string): DevState | undefined {
  try {
    return devState.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch {
    // No file, or one that a crash left half written: nothing to be found here.
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
