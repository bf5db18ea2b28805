import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import type { Scaffold } from './scaffold.ts';

const scripts = { dev: 'millrace dev', test: 'vitest run' } as const;

const ownPackage = z.object({
  version: z.string(),
  dependencies: z.object({ zod: z.string() }),
  devDependencies: z.object({ vitest: z.string() }),
});

const manifest = z.looseObject({
  type: z.string().optional(),
  scripts: z.record(z.string(), z.string()).optional(),
});

/**
 * A package.json where there is none, and scripts in one that has none: nothing in it is replaced. Answers whether it is new, so
 * that nothing of it is installed yet.
 */
export function addManifest(scaffold: Scaffold, root: string): boolean {
  if (scaffold.write('package.json', newManifest(scaffold.target, root))) return true;
  const path = join(scaffold.target, 'package.json');
  const text = scaffold.read('package.json');
  const present = parsed(text);
  if (!present) scaffold.leave('package.json', 'it is no JSON object, so it has got no scripts');
  else if (present.scripts && Object.keys(present.scripts).length > 0) {
    const missing = Object.entries(scripts).filter(([name]) => present.scripts?.[name] === undefined);
    const settings = missing.map(([name, line]) => `scripts.${name}="${line}"`).join(' ');
    scaffold.leave('package.json', missing.length > 0 ? `to have its scripts: npm pkg set ${settings}` : undefined);
  } else {
    const [, indent = '  '] = /^\uFEFF?\{\r?\n([ \t]+)/.exec(text) ?? [];
    writeFileSync(path, `${JSON.stringify({ ...present, scripts }, null, indent)}\n`);
    scaffold.created.push('package.json (its scripts)');
  }
  return false;
}

/** Are `.ts` and `.js` files in this folder modules? */
export function isModulePackage(folder: string): boolean {
  return parsed(readFileSync(join(folder, 'package.json'), 'utf8'))?.type === 'module';
}

function newManifest(folder: string, root: string): string {
  const own = ownPackage.parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')));
  const made = {
    name: nameFor(folder),
    private: true,
    type: 'module',
    scripts,
    dependencies: { millrace: `^${own.version}`, zod: `^${own.dependencies.zod}` },
    devDependencies: { vitest: `^${own.devDependencies.vitest}` },
  };
  return `${JSON.stringify(made, null, 2)}\n`;
}

/** A name that npm takes; `millrace` itself could not depend on the package of this name. */
function nameFor(folder: string): string {
  const name = basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .replace(/^[._-]+|-+$/g, '');
  return name === '' || name === 'millrace' ? 'my-agents' : name;
}

function parsed(text: string): z.infer<typeof manifest> | undefined {
  try {
    // Editors begin files with a mark of their encoding, which npm reads over.
    return manifest.parse(JSON.parse(text.replace(/^\uFEFF/, '')));
  } catch {
    return undefined;
  }
}
