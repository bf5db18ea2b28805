import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lookUp, toolFolder } from './go-tool.ts';
import { unpackDebianPackages } from './setup/debian.mjs';

/**
 * Path of Prometheus' promtool, which tries out alerts: from PATH, from `.cache/bin`, or unpacked there from Debian's
 * package. Answers with the reason instead when there is none. (Its module cannot be built with `go install`.)
 */
export function promtool(env: NodeJS.ProcessEnv): { path: string } | { missing: string } {
  const found = lookUp('promtool', env, toolFolder);
  if (found) return { path: found };
  if (!lookUp('apt-get', env, '/usr/bin')) return { missing: 'there is no promtool on this machine' };
  const folder = mkdtempSync(join(tmpdir(), 'millrace-promtool-'));
  try {
    const problem = unpackDebianPackages(['prometheus'], folder, env);
    if (problem) return { missing: `promtool could not be unpacked: ${problem}` };
    mkdirSync(toolFolder, { recursive: true });
    copyFileSync(join(folder, 'usr/bin/promtool'), join(toolFolder, 'promtool'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return { path: join(toolFolder, 'promtool') };
}
