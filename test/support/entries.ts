import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inject } from 'vitest';

const root = join(import.meta.dirname, '../..');
const source = join(root, 'src');
const shelf = join(root, '.cache/entries');

/** What processes are started from, and what their agents import by name: where each is in the bundle and in the source. */
const entries = new Map([
  ...['worker/main', 'worker/index', 'producer/main', 'producer/index', 'testing/index'].map(
    (name) => [name, join(source, `${name}.ts`)] as const,
  ),
  ['odd-server', join(root, 'test/fixtures/mcp/odd-server.ts')] as const,
]);

/** Modules that name one of the entries by where they are themselves. */
const namesEntries = ['worker/main', 'worker/agents/load-agents', 'producer/http/register-agents'];

/**
 * Bundles the entries, with all packages but `zod`, which agents share: a process is ready in less than half of the time
 * that more than a thousand files take. Done once for each state of the source. Answers the folder.
 */
export async function buildEntries(): Promise<string> {
  const folder = join(shelf, stateOf([...filesBelow(source), ...entries.values()]));
  if (existsSync(folder)) return folder;
  mkdirSync(shelf, { recursive: true });
  const old = readdirSync(shelf);
  const made = mkdtempSync(join(shelf, 'making-'));
  const { build } = await import('vite');
  await build({
    root,
    configFile: false,
    logLevel: 'error',
    plugins: [{ name: 'where-modules-are', enforce: 'pre', transform: (code, id) => placed(code, id, folder) }],
    ssr: { noExternal: true, external: ['zod', '@aws-sdk/client-s3', 'msgpackr-extract'] },
    build: {
      ssr: true,
      target: 'node24',
      outDir: made,
      minify: false,
      rolldownOptions: {
        input: Object.fromEntries(entries),
        output: { entryFileNames: '[name].js', chunkFileNames: 'shared/[name].js' },
      },
    },
  });
  try {
    renameSync(made, folder);
  } catch (error) {
    // Another test run was faster.
    if (!existsSync(folder)) throw error;
  }
  for (const name of old) rmSync(join(shelf, name), { recursive: true, force: true });
  return folder;
}

/** The file to start for an entry of the source: the bundled one where there is one. */
export function builtEntry(entry: string): string {
  const [name] = [...entries].find(([, file]) => file === entry) ?? [];
  return name === undefined ? entry : join(inject('entries'), `${name}.js`);
}

/** A bundled module finds its scripts and data beside its source, and the entries beside the bundle. */
function placed(code: string, id: string, folder: string): string | undefined {
  if (!id.startsWith(source) || !code.includes('import.meta.')) return undefined;
  const name = relative(source, id).replace(/\.ts$/, '');
  const file = namesEntries.includes(name) ? join(folder, `${name}.js`) : id;
  return code
    .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(file).href))
    .replaceAll('import.meta.filename', JSON.stringify(file))
    .replaceAll('import.meta.dirname', JSON.stringify(dirname(file)));
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name));
}

/** The same as long as nothing has changed that the bundle is made of. */
function stateOf(files: readonly string[]): string {
  const hash = createHash('sha256').update(root);
  for (const file of [...files.toSorted(), join(root, 'package-lock.json'), import.meta.filename])
    hash.update(`\0${relative(root, file)}\0`).update(readFileSync(file));
  return hash.digest('hex').slice(0, 16);
}
