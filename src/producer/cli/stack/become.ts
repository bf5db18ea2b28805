import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import type { Cli } from '../cli.ts';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Turns this process into one of the roles: same process id, so signals and exit codes are the role's own. Where a
 * process cannot be replaced (Windows) a child takes its place. Never returns.
 */
export async function become(cli: Cli, role: Role, args: readonly string[] = []): Promise<never> {
  const command = [process.execPath, entryOf(role), ...args];
  if (process.platform !== 'win32' && process.execve) {
    const env = Object.fromEntries(
      Object.entries(cli.env).filter((entry): entry is [string, string] => entry[1] !== undefined),
    );
    process.execve(process.execPath, command, env);
  }
  const child = spawn(process.execPath, command.slice(1), { stdio: 'inherit', env: cli.env });
  cli.interrupted.addEventListener('abort', () => child.kill('SIGTERM'), { once: true });
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  child.once('error', reject);
  child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal as NodeJS.Signals]));
  return process.exit(await promise);
}

/** The processes that Millrace consists of. */
export type Role = 'producer' | 'worker';

/** The entry file of a role, in the source of a checkout or in what was built from it. */
export function entryOf(role: Role): string {
  return fileURLToPath(new URL(`../../../${role}/main${extname(import.meta.url)}`, import.meta.url));
}
