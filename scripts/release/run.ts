import { spawnSync } from 'node:child_process';

/** What a program answers, without the line's end. Throws with its complaint. */
export function read(root: string, command: string, args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: root, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args[0]} failed: ${error?.message ?? stderr.trim()}`);
  return stdout.trimEnd();
}

/** Runs a program with the output of this one. Throws when it fails. */
export function runAloud(root: string, command: string, args: readonly string[]): void {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
  if (status !== 0) throw new Error(`${command} ${args[0]} failed${error ? `: ${error.message}` : ', see above'}`);
}
