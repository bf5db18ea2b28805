import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';

export const root = join(import.meta.dirname, '../..');

/** Copies this checkout to a folder that is not there yet: with uncommitted changes, nothing built, the same dependencies. */
export function cloneInto(clone: string): void {
  const { stdout } = run(root, 'git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z']);
  mkdirSync(clone);
  for (const path of stdout.split('\0').filter((each) => each !== ''))
    cpSync(join(root, path), join(clone, path), { recursive: true, force: true });
  symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'));
}

/** Packs a checkout, which builds it, into a folder. Answers the path of the file. */
export function pack(checkout: string, folder: string): string {
  const { stdout } = succeed(run(checkout, 'npm', ['pack', '--json', '--pack-destination', folder]));
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  return join(folder, filename);
}

/** Makes a folder with a package in it and what else a user of it installs; `args` are more arguments of npm. */
export function installInto(folder: string, tarball: string, args: readonly string[] = []): void {
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }\n');
  const install = ['install', '--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error', tarball, ...args];
  succeed(run(folder, 'npm', install));
}

/** Runs a program to its end, under the Node of this process and without the settings that npm gave this process. */
export function run(
  cwd: string,
  command: string,
  args: readonly string[],
  more: Readonly<Record<string, string>> = {},
) {
  const foreign = /^(npm_(?!config_)|npm_config_local_prefix$|INIT_CWD$)/;
  const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)));
  const env = { ...own, ...more };
  env['PATH'] = [dirname(process.execPath), env['PATH']].join(delimiter);
  const outcome = spawnSync(command, args, { cwd, encoding: 'utf8', timeout: 300_000, env });
  const { status: code, stdout, stderr, error } = outcome;
  return { code, stdout, stderr: error ? `${stderr}${error.message}` : stderr };
}

function succeed<T extends { code: number | null; stderr: string }>(outcome: T): T {
  if (outcome.code !== 0) throw new Error(outcome.stderr);
  return outcome;
}
