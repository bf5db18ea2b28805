import { spawnSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Downloads packages with apt-get and unpacks them into a folder, without installing anything. Answers what went wrong,
 * or undefined. Root may have to fetch the lists of packages first: a fresh image has none.
 */
export function unpackDebianPackages(packages, folder, env) {
  const download = () => run('apt-get', ['download', ...packages], { cwd: folder, env });
  let { status, stderr } = download();
  if (status !== 0 && process.getuid?.() === 0 && run('apt-get', ['update'], { env }).status === 0)
    ({ status, stderr } = download());
  if (status !== 0) return `apt-get download failed (${lastLine(stderr)})`;
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.deb'))) {
    const unpacked = run('dpkg', ['-x', file, '.'], { cwd: folder, env });
    if (unpacked.status !== 0) return `dpkg -x ${file} failed (${lastLine(unpacked.stderr)})`;
    rmSync(join(folder, file));
  }
  return undefined;
}

export function run(command, args, options) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    ...options,
    encoding: 'utf8',
    timeout: 300_000,
  });
  return { status, stdout: stdout ?? '', stderr: stderr || (error ? error.message : '') };
}

export function lastLine(text) {
  return text.trim().split('\n').at(-1) ?? '';
}
