import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { RunError } from '../../../shared/base/errors.ts';
import type { Cli } from '../cli.ts';

/**
 * Throws `invalid_config` where packages are missing that only producers' servers and workers need: an installation may
 * leave them out, and npm leaves out what it cannot fetch of them without an error.
 */
export function requireProcessPackages({ root }: Pick<Cli, 'root'>): void {
  const manifest = join(root, 'package.json');
  const { optionalDependencies = {} } = JSON.parse(readFileSync(manifest, 'utf8')) as {
    optionalDependencies?: Record<string, string>;
  };
  const { resolve } = createRequire(manifest);
  const isInstalled = (name: string) => resolve.paths(name)?.some((folder) => existsSync(join(folder, name)));
  const missing = Object.keys(optionalDependencies).filter((name) => !isInstalled(name));
  if (missing.length === 0) return;
  throw new RunError(
    'invalid_config',
    `producers and workers need packages that are not installed here: ${missing.join(', ')}. Install them with: npm install --include=optional`,
  );
}
