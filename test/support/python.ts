import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');
const oldest = [3, 10] as const;

/** Why Python clients cannot be tried out on this machine; undefined when they can. */
export const withoutPython = whyNot();
if (process.env['CI'] && withoutPython) throw new Error(`nothing may be left out on CI: ${withoutPython}`);

function whyNot(): string | undefined {
  const asked = spawnSync('python3', ['-c', 'import sys, venv, ensurepip; print(*sys.version_info[:2])'], {
    encoding: 'utf8',
  });
  if (asked.status !== 0) return 'there is no python3 with venv on PATH';
  const [major = 0, minor = 0] = asked.stdout.split(' ').map(Number);
  if (major > oldest[0] || (major === oldest[0] && minor >= oldest[1])) return undefined;
  return `python3 is ${major}.${minor}, older than ${oldest.join('.')}`;
}

/**
 * A Python that has these packages, each with its version (`openai==2.1.0`), and no others: its path. Made below `.cache/python`, and
 * there already the next time. Throws when they cannot be installed.
 */
export function pythonWith(...packages: readonly string[]): string {
  const name = createHash('sha256')
    .update([...packages].sort().join('\n'))
    .digest('hex')
    .slice(0, 16);
  const folder = join(root, '.cache/python', name);
  if (!existsSync(folder)) install(folder, packages);
  return join(folder, 'bin/python');
}

/** Several test processes may come here at once: each makes its own, and the first one that is complete is everybody's. */
function install(folder: string, packages: readonly string[]): void {
  const own = `${folder}.${process.pid}`;
  mkdirSync(join(root, '.cache/python'), { recursive: true });
  try {
    run('python3', ['-m', 'venv', own]);
    run(join(own, 'bin/python'), ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages]);
    if (!existsSync(folder)) renameSync(own, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}

function run(command: string, args: readonly string[]): void {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', timeout: 240_000 });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stderr + stdout}`);
}
