import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll } from 'vitest';

export const root = join(import.meta.dirname, '../..');

/** A temporary folder; it is gone after the tests of the file. */
export function scratchFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `millrace-${name}-`));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A new copy of this checkout, uncommitted changes included and nothing built, with the same dependencies. */
export function cloneOfThis(): string {
  const clone = join(scratchFolder('clone'), 'millrace');
  const listed = run(root, 'git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z']);
  mkdirSync(clone);
  for (const path of listed.stdout.split('\0').filter((each) => each !== ''))
    cpSync(join(root, path), join(clone, path), { recursive: true, force: true });
  symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'));
  return clone;
}

/** Packs a checkout, which builds it, and answers the path of the file. */
export function pack(checkout: string): string {
  const { stdout, stderr, code } = run(checkout, 'npm', ['pack', '--json']);
  if (code !== 0) throw new Error(stderr);
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  return join(checkout, filename);
}

/** An empty folder with a package and what else a user of it installs. */
export function installed(tarball: string, args: readonly string[] = []): string {
  const folder = scratchFolder('consumer');
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }\n');
  const install = ['install', '--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error', tarball, ...args];
  const { code, stderr } = run(folder, 'npm', install);
  if (code !== 0) throw new Error(stderr);
  return folder;
}

/** Runs a program to its end, under the Node of this process and without what the npm that runs the tests told it. */
export function run(
  cwd: string,
  command: string,
  args: readonly string[],
  extra: Readonly<Record<string, string>> = {},
) {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(npm_(?!config_)|npm_config_local_prefix|INIT_CWD$)/.test(name),
  );
  const env = Object.fromEntries(own);
  const PATH = [dirname(process.execPath), env['PATH']].join(delimiter);
  const outcome = spawnSync(command, args, {
    cwd,
    encoding: 'utf8',
    timeout: 300_000,
    env: { ...env, PATH, ...extra },
  });
  const { status: code, stdout, stderr, error } = outcome;
  return { code, stdout, stderr: error ? `${stderr}${error.message}` : stderr };
}
