import { execFile } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

/** Where tools are kept that no package of npm holds. */
export const toolFolder = join(import.meta.dirname, '../.cache/bin');
const installTimeoutMs = 600_000;

/**
 * Path of a program that is written in Go: from PATH, from `.cache/bin`, or built there, which takes a minute or two the
 * first time. Answers with the reason instead when there is none. `module` is its module path with a version.
 */
export async function goTool(
  name: string,
  module: string,
  env: NodeJS.ProcessEnv,
): Promise<{ path: string } | { missing: string }> {
  const found = lookUp(name, env, toolFolder);
  if (found) return { path: found };
  const go = lookUp('go', env, '/usr/local/go/bin');
  if (!go) return { missing: `neither ${name} nor go is on this machine` };
  process.stderr.write(`building ${name} into .cache/bin with go, once\n`);
  mkdirSync(toolFolder, { recursive: true });
  try {
    const options = { env: { ...env, GOBIN: toolFolder }, timeout: installTimeoutMs };
    await promisify(execFile)(go, ['install', '-trimpath', '-ldflags=-s -w', module], options);
  } catch (error) {
    return { missing: `go could not build ${name}: ${lastLine(error)}` };
  }
  return { path: join(toolFolder, name) };
}

/** Path of a program on PATH, or in one more folder. */
export function lookUp(name: string, env: NodeJS.ProcessEnv, alsoIn: string): string | undefined {
  const folders = [...(env['PATH'] ?? '').split(delimiter), alsoIn];
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

function lastLine(error: unknown): string {
  const { stderr, message } = error as { stderr?: string; message: string };
  return (stderr?.trim().split('\n').at(-1) || message).slice(0, 300);
}
