import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { expect, test } from 'vitest';
import { anchors, localLinks, outsideLinks } from '../support/markdown.ts';

const root = join(import.meta.dirname, '../..');
const textOf = (path: string) => readFileSync(join(root, path), 'utf8');

interface Manifest {
  readonly homepage: string;
  readonly repository: { readonly url: string };
  readonly keywords: readonly string[];
  readonly scripts: Readonly<Record<string, string>>;
  readonly engines: { readonly node: string };
  readonly optionalDependencies: Readonly<Record<string, string>>;
}

const manifest = JSON.parse(textOf('package.json')) as Manifest;
const repository = manifest.repository.url.replace(/^git\+|\.git$/g, '');

/** What `npm pack` would take, without what a build makes. */
function packed(): ReadonlySet<string> {
  const args = ['pack', '--dry-run', '--ignore-scripts', '--json'];
  const { status, stdout, stderr } = spawnSync('npm', args, { cwd: root, encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }];
  return new Set(files.map(({ path }) => path).filter((path) => !path.startsWith('dist/')));
}

const files = packed();
const pages = [...files].filter((path) => path.endsWith('.md') && path !== 'CHANGELOG.md');

test('the package has the program, the docs and the examples, and nothing that only development needs', () => {
  const tops = new Set([...files].map((path) => path.split('/', 1)[0] ?? ''));
  expect([...tops].toSorted((a, b) => (a < b ? -1 : 1))).toEqual([
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'agents',
    'bin',
    'docs',
    'examples',
    'package.json',
    'scripts',
    'templates',
  ]);
  expect([...files].filter((path) => /^scripts\/(?!setup)/.test(path))).toEqual([]);
  expect(files).toContain('bin/millrace.mjs');
  expect(files).toContain('docs/reference/configuration.md');
  expect(files).toContain('examples/in-process.ts');
});

test('every link of a packed page leads to a packed page, with its heading', () => {
  const links = pages.flatMap((page) => localLinks(textOf(page)).map((link) => ({ page, ...link })));
  expect(links.length).toBeGreaterThan(100);
  const broken = links.filter(({ page, target }) => {
    const [path = '', anchor] = target.split('#');
    const file = path === '' ? page : posix.join(posix.dirname(page), path).replace(/\/$/, '');
    if (anchor !== undefined && files.has(file)) return !anchors(textOf(file)).has(anchor);
    return !files.has(file) && ![...files].some((each) => each.startsWith(`${file}/`));
  });
  expect(broken.map(({ page, line, target }) => `${page}:${line}: ${target}`)).toEqual([]);
});

test('every link of a packed page to a file of the repository leads to one that is there, with its heading', () => {
  const links = pages.flatMap((page) =>
    outsideLinks(textOf(page)).flatMap(({ target, line }) =>
      target.startsWith(repository) ? [{ page, line, target: target.slice(repository.length) }] : [],
    ),
  );
  expect(links.length).toBeGreaterThan(5);
  const broken = links.filter(({ target }) => {
    const [, path = '', anchor] = /^\/(?:blob|tree)\/main\/([^#]+)(?:#(.*))?$/.exec(target) ?? [];
    if (!existsSync(join(root, path))) return true;
    return path === '' || (anchor !== undefined && !anchors(textOf(path)).has(anchor));
  });
  expect(broken.map(({ page, line, target }) => `${page}:${line}: ${target}`)).toEqual([]);
});

test('the manifest says where the source is and what the package is about', () => {
  expect(repository).toMatch(/^https:\/\/github\.com\/[\w-]+\/millrace$/);
  expect(manifest.homepage).toBe(`${repository}#readme`);
  expect(manifest.keywords).toEqual(expect.arrayContaining(['agents', 'bullmq', 'jobs', 'llm', 'redis']));
});

test('packing builds first, in a clone without dependencies, too', () => {
  expect(manifest.scripts['prepack']).toBe('node scripts/setup.mjs dependencies && node scripts/build.mjs');
});

test('the Node that the package needs is the same in the manifest, the program and the README', () => {
  const [, major] = /^>=(\d+)$/.exec(manifest.engines.node) ?? [];
  expect(textOf('bin/millrace.mjs')).toContain(`const neededMajor = ${major};`);
  expect(textOf('README.md')).toContain(`Node ${major} or later`);
});

/** Makes a process believe that it is older than it is. */
const pretend = `--import=data:text/javascript,${encodeURIComponent(
  "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '22.12.0' } })",
)}`;

test.each(['millrace', 'millrace/worker', 'millrace/testing'])(
  '%s stops under an older Node with one sentence',
  (door) => {
    const load = `await import('${door}').catch(({ message }) => process.stdout.write(message))`;
    const args = [pretend, '--import=./scripts/resolve-source.mjs', '--input-type=module', '--eval', load];
    const { stdout } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' });
    expect(stdout).toBe(
      'millrace needs Node 24 or later and this is 22.12.0: https://nodejs.org, or `npm install --save-dev node@24`',
    );
  },
);

test('importing millrace loads no package that only servers, workers or the first enqueued run need', () => {
  const load = `
    import { registerHooks } from 'node:module';
    registerHooks({ load: (url, context, next) => (console.log(url), next(url, context)) });
    await import('millrace');
    process.exit();`;
  const args = ['--import=./scripts/resolve-source.mjs', '--input-type=module', '--eval', load];
  const { stdout } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' });
  const loaded = new Set([...stdout.matchAll(/.*node_modules\/((?:@[^/]+\/)?[^/]+)\//g)].map(([, name]) => name));
  expect(loaded).toContain('zod');
  const later = [...Object.keys(manifest.optionalDependencies), 'ajv', 'bullmq', 're2js'];
  expect(later).toContain('fastify');
  expect(later.filter((name) => loaded.has(name))).toEqual([]);
});
