import { existsSync, globSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { referencePages } from '../scripts/docs.ts';
import { configSchema } from '../src/shared/contract/config.ts';
import { errorTable, toolErrorHints } from '../src/shared/base/errors.ts';
import { eventBodies } from '../src/shared/contract/event.ts';
import { anchors, firstCells, headings, localLinks, outsideLinks } from './support/markdown.ts';

const root = join(import.meta.dirname, '..');
const ignored = ['node_modules', 'dist', 'coverage', '.git', '.cache', '.millrace', '.vitest', 'bench/results'];

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

function files(pattern: string): string[] {
  const isIgnored = (path: string) => ignored.some((folder) => path === folder || path.startsWith(`${folder}/`));
  return globSync(pattern, {
    cwd: root,
    exclude: (path) => isIgnored(relative(root, join(root, path))),
  }).filter((path) => !isIgnored(path));
}

const pages = files('**/*.md');
const reference = await referencePages();

test('the check sees every page', () => {
  expect(pages).toEqual(
    expect.arrayContaining([
      'README.md',
      'CHANGELOG.md',
      'docs/how-a-run-flows.md',
      'docs/operations.md',
      'helm/millrace/README.md',
      ...reference.keys(),
    ]),
  );
});

test.each([...reference.keys()])('%s is what the code says now (else: npm run docs)', (path) => {
  expect(existsSync(join(root, path)) && read(path)).toBe(reference.get(path));
});

test('each promise has a test of the fast lane, which is there', () => {
  const page = read('docs/testing.md');
  const rows = page
    .slice(page.indexOf('## Which test guards what'))
    .matchAll(/^\|[^|]+\| `([^`]+)` *\| ([^|]+?) *\|$/gm);
  const guards = [...rows].map(([, file = '', name = '']) => ({ file, name }));
  expect(guards.length).toBeGreaterThan(20);
  expect(guards.filter(({ file }) => /\.(long|cluster|soak)\.test\.ts$|^test\/(deploy|browser)/.test(file))).toEqual(
    [],
  );
  expect(guards.filter(({ file, name }) => !existsSync(join(root, file)) || !read(file).includes(name))).toEqual([]);
});

test('the error page lists exactly the codes of the table and the kinds of tool errors', () => {
  const page = read('docs/reference/errors.md');
  const used = [...firstCells(page, 'Errors that end a run'), ...firstCells(page, 'Errors that a caller gets')];
  const reserved = firstCells(page, 'Reserved codes');
  expect(new Set([...used, ...reserved])).toEqual(new Set(Object.keys(errorTable)));
  const tables = ['src/shared/base/run-error.ts', 'src/shared/contract/reserved.ts'];
  const throwers = files('src/**/*.{ts,lua}').filter((path) => !tables.includes(path));
  const source = throwers.map(read).join('\n');
  expect(Object.keys(errorTable).filter((code) => !source.includes(`'${code}'`))).toEqual(reserved);
  expect(firstCells(page, 'Errors of tool calls')).toEqual(Object.keys(toolErrorHints));
});

test('the event page has one section for every type that the code emits, and lists the others as reserved', () => {
  const page = read('docs/reference/events.md');
  const emitters = files(
    'src/{worker/{run,orchestration,agents,admission,turn,tools},producer/client,shared/state}/**/*.ts',
  )
    .map(read)
    .join('\n');
  const [emitted, reserved] = [true, false].map((isEmitted) =>
    Object.keys(eventBodies).filter((type) => emitters.includes(`'${type}'`) === isEmitted),
  );
  expect(emitted).toContain('run.completed');
  expect(headings(page, 3).map((heading) => heading.replaceAll('`', ''))).toEqual(emitted);
  expect(firstCells(page, 'Reserved types')).toEqual(reserved);
});

test('the configuration page lists exactly the variables of the schema, each with a meaning', () => {
  expect(firstCells(read('docs/reference/configuration.md'))).toEqual(Object.keys(configSchema.shape));
  expect(Object.entries(configSchema.shape).filter(([, field]) => !field.description)).toEqual([]);
});

test('the HTTP page has one section for exactly the routes that the source registers', () => {
  const sections = headings(read('docs/reference/http.md'), 3).filter((heading) => heading.startsWith('`'));
  // Those of the console are pages for people.
  const api = files('src/producer/http/routes/**/*.ts').filter((path) => !path.endsWith('/console.ts'));
  const routes = api.flatMap((path) => [...read(path).matchAll(/'(\/[a-z][^' ]*)'/g)].map(([, route]) => route));
  const documented = sections.map((heading) => heading.replace(/`\w+ (.*)`/, '$1').replaceAll(/\{(\w+)\}/g, ':$1'));
  const mentioned = ['/openapi.json'];
  expect(routes.length).toBeGreaterThan(5);
  expect(new Set([...documented, ...mentioned])).toEqual(new Set(routes));
  for (const route of mentioned) expect(read('docs/reference/http.md')).toContain(route);
});

test('the README lists exactly the commands that the program has', () => {
  const sources = files('src/producer/cli/{,audit/,batch/,fleet/,options/,record/}*.ts').map(read).join('\n');
  const commands = [...sources.matchAll(/(?:program\s*\.|export const add\w+ = )command\(\s*'([\w-]+)/g)].map(
    ([, name]) => name,
  );
  expect(commands).toContain('doctor');
  const listed = firstCells(read('README.md'), 'Command line').map((cell) => cell.split(' ')[1]);
  expect(new Set(listed)).toEqual(new Set(commands));
});

test('operations lists exactly the metrics that the processes serve', () => {
  const ofWorker = globSync('src/worker/ops/metrics/*.ts', { cwd: root });
  const sources = [...ofWorker, 'src/producer/http/metrics.ts'].map(read).join('\n');
  const served = [...sources.matchAll(/'(millrace_[a-z_]+[a-z])'/g)].map(([, name]) => name);
  expect(served.length).toBeGreaterThan(10);
  const listed = firstCells(read('docs/operations.md')).filter((name) => name.startsWith('millrace_'));
  expect(new Set(listed)).toEqual(new Set(served));
  const named = ['docs/operations.md', 'docs/alerts.yaml'].map(read).join('\n');
  const mentioned = [...named.matchAll(/\b(millrace_[a-z_]+[a-z])\b/g)].map(([, name]) => name);
  expect(mentioned.filter((name) => !served.includes(name))).toEqual([]);
});

test('operations explains exactly the lines that doctor prints', () => {
  const sources = files('src/producer/{cli/{doctor,doctor/*},client/diagnose/*}.ts').map(read).join('\n');
  const names = [...sources.matchAll(/(?:\b(?:ok|warn|fail)\)?\(|\bname = )['`]([a-z -]+)(\$\{\w+\})?['`]/g)].map(
    ([, name = '', varies]) => `${name}${varies ? 'NAME' : ''}`,
  );
  expect(names.length).toBeGreaterThan(15);
  expect(new Set(firstCells(read('docs/operations.md'), 'The first look: doctor'))).toEqual(new Set(names));
});

test('operations says of every alert what to do, and of no other', () => {
  const { groups } = parse(read('docs/alerts.yaml')) as { groups: { rules: { alert: string }[] }[] };
  const alerts = groups.flatMap(({ rules }) => rules.map(({ alert }) => alert));
  expect(firstCells(read('docs/operations.md'), 'Alerts worth having')).toEqual(alerts);
});

test('every relative link leads to a file and a heading that exist', () => {
  const dead = pages.flatMap((page) =>
    localLinks(read(page)).flatMap(({ target, line }) => {
      const [path = '', anchor] = target.split('#');
      const file = path === '' ? page : join(dirname(page), path);
      if (!existsSync(join(root, file))) return [`${page}:${line} ${target}`];
      return anchor === undefined || anchors(read(file)).has(anchor) ? [] : [`${page}:${line} ${target}`];
    }),
  );
  expect(dead).toEqual([]);
});

test('the index of the documentation leads to every page', () => {
  // Pages for contributors are not in the package, where the index is: it names them by their address.
  const repository = 'https://github.com/millrace/millrace/blob/main/docs/';
  const index = read('docs/README.md');
  const listed = [...localLinks(index), ...outsideLinks(index)].map(({ target }) =>
    join('docs', target.replace(repository, '').split('#')[0] ?? ''),
  );
  const missing = pages.filter(
    (page) => page.startsWith('docs/') && !page.startsWith('docs/decisions/') && page !== 'docs/README.md',
  );
  expect(missing.filter((page) => !listed.includes(page))).toEqual([]);
});

test('a link that is called like a source file leads to that file', () => {
  const called = /\[`?([\w./-]+\.(?:ts|lua))`?\]\(([^)#]+)/g;
  const links = pages.flatMap((page) =>
    [...read(page).matchAll(called)].map(([, label = '', target = '']) => ({ page, label, target })),
  );
  expect(links.length).toBeGreaterThan(100);
  expect(links.filter(({ label, target }) => !`/${target}`.endsWith(`/${label}`))).toEqual([]);
});

test('every npm script that a page names exists', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
  const named = pages.flatMap((page) =>
    [...read(page).matchAll(/\bnpm (?:run ([a-z:-]+)|(start|test)\b)/g)].map(([, run, short]) => run ?? short ?? ''),
  );
  expect(named).toContain('start');
  expect([...new Set(named)].filter((name) => !(name in scripts))).toEqual([]);
});

test('every environment variable that a page, the compose file, the image or the chart names is one that we read', () => {
  const foreign = new Set(
    (
      'NO_COLOR NODE_COMPILE_CACHE NODE_OPTIONS TEST_SEED TEST_LANE REDIS_SERVER_BIN CHROMIUM_BIN SHOP_TOKEN MCP_TOKEN ACME_KEY DEEP_KEY STUDIO_KEY CRM_TOKEN CRM_ACCOUNT ' +
      'MILLRACE_SECRET_CRM_TOKEN ANTHROPIC_API_KEY GEMINI_API_KEY OLLAMA_CONTEXT_LENGTH UNTRUSTED_CONTENT END_UNTRUSTED_CONTENT AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY RELEASE_IMAGE RELEASE_CHARTS'
    ).split(' '),
  );
  const paths = [...pages, 'Dockerfile', 'docker-compose.yml', ...files('helm/**/*.{yaml,tpl,txt}')];
  const unknown = paths.flatMap((path) =>
    [...read(path).matchAll(/(?<![\w/:.-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w])/g)]
      .map(([name]) => name)
      .filter((name) => !(name in configSchema.shape) && !foreign.has(name))
      .map((name) => `${path} ${name}`),
  );
  expect(paths.length).toBeGreaterThan(15);
  expect(unknown).toEqual([]);
});

test('nothing in the tree names a path of one machine or leaves work for later', () => {
  // Written with classes of one letter, so that this file does not hold what it looks for.
  const forbidden = /[/]work[/]|[/]tmp[/]\w|[/]root[/]|[/]home[/]\w|\b[T]ODO\b|\b[F]IXME\b/;
  const texts = files('**/*').filter(
    (path) =>
      /\.(ts|mjs|js|md|ya?ml|json|lua|tpl|txt|html)$|(^|\/)(Dockerfile|\.dockerignore|\.gitignore)$/.test(path) &&
      path !== 'package-lock.json',
  );
  expect(texts.length).toBeGreaterThan(100);
  const found = texts.flatMap((path) =>
    read(path)
      .split('\n')
      .flatMap((line, index) => (forbidden.test(line) ? [`${path}:${index + 1} ${line.trim().slice(0, 100)}`] : [])),
  );
  expect(found).toEqual([]);
});

test.each([
  ['a link to a file', '[a](b.md)', ['b.md']],
  ['a link to a heading of a file', '[a](b.md#c)', ['b.md#c']],
  ['a link whose text is code', '[`a`](b.md)', ['b.md']],
  ['a link between two pieces of code', '[`a`](b.md) and `c`, [`d`](e.md)', ['b.md', 'e.md']],
  ['a link whose text goes over two lines', '[a\nb](c.md)', ['c.md']],
  ['a reference', 'See [a][b].\n\n[b]: c.md', ['c.md']],
  ['an image', '![a](b.svg)', ['b.svg']],
  ['no link to another site', '[a](https://example.com)', []],
  ['no link inside code', '`[a](b.md)`\n```\n[c](d.md)\n```', []],
])('the link check finds %s', (_, markdown, targets) => {
  expect(localLinks(markdown).map((link) => link.target)).toEqual(targets);
});

test('the anchors of headings are those that GitHub makes', () => {
  expect([...anchors('# What is *it*?\n## `POST /v1/runs`\n## Twice\n## Twice')]).toEqual([
    'what-is-it',
    'post-v1runs',
    'twice',
    'twice-1',
  ]);
});

test('every number of a decision is used once, from 1 without gaps', () => {
  const numbers = readdirSync(join(root, 'docs/decisions')).map((name) => Number.parseInt(name, 10));
  expect(numbers.toSorted((a, b) => a - b)).toEqual(numbers.map((_, index) => index + 1));
});
