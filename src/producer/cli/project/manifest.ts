import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { isRecord } from '../../../shared/base/json.ts';
import { isLinkNote, type Scaffold } from './scaffold.ts';

const scripts = { dev: 'millrace dev', test: 'vitest run' } as const;

const ownPackage = z.object({
  version: z.string(),
  dependencies: z.object({ zod: z.string() }),
  devDependencies: z.object({ vitest: z.string() }),
});

const manifest = z.looseObject({
  type: z.unknown().optional(),
  scripts: z.unknown().optional(),
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
  const problem = present ? problemOf(present.scripts) : 'it is no JSON object';
  if (!present || problem !== undefined) {
    scaffold.leave('package.json', `${problem}, so it has got no scripts`);
    return false;
  }
  const own = Object.keys(present.scripts ?? {});
  const isLink = scaffold.linkAt('package.json') !== undefined;
  if (own.length > 0 || isLink) {
    const missing = Object.entries(scripts).filter(([name]) => !own.includes(name));
    const settings = missing.map(([name, line]) => `scripts.${name}="${line}"`).join(' ');
    const notes = [isLink && `it ${isLinkNote}`, missing.length > 0 && `to have its scripts: npm pkg set ${settings}`];
    scaffold.leave('package.json', notes.filter((note) => note !== false).join('; ') || undefined);
  } else {
    const [, indent = '  '] = /^\uFEFF?\{\r?\n([ \t]+)/.exec(text) ?? [];
    writeFileSync(path, `${JSON.stringify({ ...present, scripts }, null, indent)}\n`);
    scaffold.created.push('package.json (its scripts)');
  }
  return false;
}

/** Why nothing is added to these scripts; undefined for none, and for those that npm can run. */
function problemOf(present: unknown): string | undefined {
  if (present === undefined) return undefined;
  if (!isRecord(present)) return 'its `scripts` is no object';
  const wrong = Object.keys(present).filter((name) => typeof present[name] !== 'string');
  return wrong.length > 0 ? `${wrong.map((name) => `scripts.${name}`).join(', ')} in it must be a text` : undefined;
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
