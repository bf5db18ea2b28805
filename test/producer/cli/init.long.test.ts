import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { withEnvFile } from '../../../src/producer/cli/options/env-file.ts';
import { configSchema, parseConfig } from '../../../src/shared/contract/config.ts';
import { loadAgents } from '../../../src/worker/agents/load-agents.ts';
import { millrace, millraceProcess, root } from './support/cli-process.ts';

function folder(files: Readonly<Record<string, string>> = {}): string {
  const path = mkdtempSync(join(tmpdir(), 'millrace-init-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(path, name, '..'), { recursive: true });
    writeFileSync(join(path, name), text);
  }
  return path;
}

/** Path to text of everything below. */
function contents(path: string): Record<string, string> {
  const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    files.map(({ parentPath, name }) => {
      const file = join(parentPath, name);
      return [file.slice(path.length + 1), readFileSync(file, 'utf8')];
    }),
  );
}

interface Made {
  readonly created: readonly string[];
  readonly leftAlone: readonly { readonly path: string; readonly note?: string }[];
}

async function init(cwd: string): Promise<Made> {
  const { code, stdout, stderr } = await millrace(['init', '--json'], { cwd });
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as Made;
}

const all = [
  '.env.example',
  '.gitignore',
  'agents/support.ts',
  'agents/tools/lookup_order.ts',
  'docker-compose.yml',
  'package.json',
  'test/support.test.ts',
  'tsconfig.json',
];

test('an empty folder gets agents, a test, settings and a compose file, and the command says what is next', async () => {
  const cwd = folder();
  const { code, stdout } = await millrace(['init', 'shop'], { cwd });
  expect(code).toBe(0);
  expect(Object.keys(contents(join(cwd, 'shop'))).sort()).toEqual(all);
  for (const path of all) expect(stdout).toContain(`  ${path}\n`);
  expect(stdout).not.toContain('Left alone');
  expect(stdout.slice(stdout.indexOf('Next')).split('\n').slice(1, 5)).toEqual([
    '  cd shop',
    '  npm install',
    expect.stringMatching(/^ {2}npx millrace dev {2,}/),
    expect.stringMatching(/^ {2}npx vitest run {2,}/),
  ]);
  const { name, dependencies, scripts } = JSON.parse(contents(join(cwd, 'shop'))['package.json'] ?? '') as {
    name: string;
    dependencies: Record<string, string>;
    scripts: Record<string, string>;
  };
  expect([name, Object.keys(dependencies), scripts['dev']]).toEqual(['shop', ['millrace', 'zod'], 'millrace dev']);
});

test('the second time nothing is new, and not a byte has changed', async () => {
  const cwd = folder();
  await init(cwd);
  const before = contents(cwd);
  const { created, leftAlone } = await init(cwd);
  expect(created).toEqual([]);
  expect(leftAlone.map(({ path }) => path).sort()).toEqual(all);
  expect(leftAlone.filter(({ note }) => note !== undefined)).toEqual([]);
  expect(contents(cwd)).toEqual(before);
});

test('what a project has already is left alone, and what could be done about it is named', async () => {
  const own = {
    'package.json': '{"name":"shop","type":"module","scripts":{"test":"jest"}}',
    '.gitignore': '/node_modules\n.env\n',
    'compose.yaml': 'services: {}\n',
    'tsconfig.json': '{}',
    'agents/mine.ts': 'export {};\n',
  };
  const cwd = folder(own);
  const { created, leftAlone } = await init(cwd);
  expect(created).toEqual(['.env.example']);
  expect(leftAlone).toEqual([
    { path: 'package.json', note: 'to have its scripts: npm pkg set scripts.dev="millrace dev"' },
    { path: 'agents/', note: 'it has files of yours, so there is no sample agent' },
    { path: 'compose.yaml' },
    { path: '.gitignore', note: 'add to it: .millrace/ api-keys.txt' },
    { path: 'tsconfig.json' },
  ]);
  expect(contents(cwd)).toMatchObject(own);
});

test('a package.json without scripts gets them and keeps all that it has', async () => {
  const cwd = folder({ 'package.json': '{\n    "dependencies": {\n        "millrace": "file:x.tgz"\n    }\n}\n' });
  const { created } = await init(cwd);
  expect(created).toContain('package.json (its scripts)');
  const text = readFileSync(join(cwd, 'package.json'), 'utf8');
  expect(JSON.parse(text)).toEqual({
    dependencies: { millrace: 'file:x.tgz' },
    scripts: { dev: 'millrace dev', test: 'vitest run' },
  });
  expect(text).toContain('\n    "scripts": {\n        "dev"');
});

test.each([
  ['a new project', {}],
  ['a project of CommonJS', { 'package.json': '{"type":"commonjs","scripts":{"test":"jest"}}' }],
])('the agent of %s has no problem', async (_, files) => {
  const cwd = folder(files);
  await init(cwd);
  const { agents, problems, warnings } = await loadAgents(join(cwd, 'agents'));
  expect([[...agents.keys()], problems, warnings]).toEqual([['support'], [], []]);
  const check = await millraceProcess(['agents', 'check', 'agents'], { cwd });
  expect([check.code, check.stdout, check.stderr]).toEqual([
    0,
    expect.stringContaining('support  model gpt-5.2-mini  tools lookup_order'),
    '',
  ]);
});

test('the settings are those that there are, and the ones that are on change nothing', async () => {
  const cwd = folder();
  await init(cwd);
  const text = contents(cwd)['.env.example'] ?? '';
  writeFileSync(join(cwd, '.env'), text);
  expect(parseConfig(withEnvFile({}, cwd))).toEqual(parseConfig({}));
  const names = [...text.matchAll(/^(?:# )?([A-Z_]+)=/gm)].map(([, name = '']) => name);
  expect(names.length).toBeGreaterThan(3);
  expect(names.filter((name) => !(name in configSchema.shape))).toEqual([]);
});

test('the compose file starts programs of this package with settings that they take', async () => {
  const cwd = folder();
  await init(cwd);
  const { services } = parse(contents(cwd)['docker-compose.yml'] ?? '', { merge: true }) as {
    services: Record<string, { command: string[]; environment: Record<string, string>; ports?: string[] }>;
  };
  const { redis, ...ours } = services;
  expect(redis?.command.join(' ')).toContain('--appendonly yes');
  expect(redis?.command.join(' ')).toContain('--maxmemory-policy noeviction');
  expect(Object.keys(ours)).toEqual(['producer', 'worker', 'quarantine']);
  for (const { command, environment } of Object.values(ours)) {
    expect(readFileSync(join(root, (command[1] ?? '').replace('node_modules/millrace/', '')), 'utf8')).toBeTruthy();
    expect(['producer', 'worker']).toContain(command[2]);
    const { MILLRACE_API_KEYS, ...settings } = environment;
    expect(MILLRACE_API_KEYS).toBe(command[2] === 'producer' ? '/run/secrets/api-keys' : undefined);
    expect(() => parseConfig({ ...settings, OPENAI_API_KEY: 'k' })).not.toThrow();
  }
  const published = Object.values(services).flatMap(({ ports = [] }) => ports);
  expect(published).toEqual(['127.0.0.1:8080:8080']);
});

test('a file in the way is an error that names it', async () => {
  const cwd = folder({ shop: 'a file', 'other/agents': 'a file' });
  for (const [given, named] of [
    ['shop', 'shop'],
    ['other', 'other/agents'],
  ] as const) {
    const { code, stderr } = await millrace(['init', given], { cwd });
    expect(stderr).toContain(`the folder ${join(cwd, named)} cannot be made (EEXIST)`);
    expect(code).toBe(2);
  }
});

test.each([
  ['a folder', (path: string) => mkdirSync(path)],
  ['a link that leads nowhere', (path: string) => symlinkSync('/nowhere/package.json', path)],
])('a package.json that is %s is refused before anything is made', async (_, make) => {
  const cwd = folder();
  make(join(cwd, 'package.json'));
  const { code, stderr } = await millrace(['init'], { cwd });
  expect([code, stderr]).toEqual([
    2,
    `invalid_config: ${join(cwd, 'package.json')} is no file: remove it, or name another folder\n`,
  ]);
  expect(readdirSync(cwd)).toEqual(['package.json']);
});

test('a package.json that begins with a byte order mark is read', async () => {
  const cwd = folder({ 'package.json': '\uFEFF{"type":"module"}' });
  const { created } = await init(cwd);
  expect(created).toContain('package.json (its scripts)');
  expect(created).not.toContain('agents/package.json');
});

test('what is next can be pasted where the folder has an odd name, which no terminal obeys', async () => {
  const cwd = folder();
  const { stdout } = await millrace(['init', "it's $(here)\u001b[31m"], { cwd });
  expect(stdout).toContain(`cd 'it'\\''s $(here)[31m'`);
  expect(stdout).not.toContain('\u001b');
});

test('the command says how to get what runs the test in a project of its own, unless it has that', async () => {
  const cwd = folder({ 'package.json': '{"type":"module"}' });
  const line = 'npm install --save-dev vitest';
  expect((await millrace(['init'], { cwd })).stdout).toContain(line);
  mkdirSync(join(cwd, 'node_modules/vitest'), { recursive: true });
  expect((await millrace(['init'], { cwd })).stdout).not.toContain(line);
});

test('a package.json that is no JSON object stays as it is, and is named', async () => {
  const cwd = folder({ 'package.json': '{"type":"module",' });
  const { leftAlone } = await init(cwd);
  expect(leftAlone).toContainEqual({ path: 'package.json', note: 'it is no JSON object, so it has got no scripts' });
  expect(contents(cwd)['package.json']).toBe('{"type":"module",');
});

test('hidden files in the folder of agents are no agents', async () => {
  const { created } = await init(folder({ 'agents/.gitkeep': '' }));
  expect(created).toContain('agents/support.ts');
});

test('a folder with the name of the package gets another one as its package', async () => {
  const cwd = folder();
  await millrace(['init', 'millrace'], { cwd });
  expect(JSON.parse(contents(join(cwd, 'millrace'))['package.json'] ?? '')).toMatchObject({ name: 'my-agents' });
});

test.each([
  ['agents', 'agents/', 'it is a link, and nothing is written through one, so there is no sample agent'],
  ['agents/tools', 'agents/tools/', 'it is a link, and nothing is written through one, so there is no sample agent'],
  ['test', 'test/support.test.ts', 'test is a link, and nothing is written through one'],
])('nothing is written through a link at %s, which is named', async (link, path, note) => {
  const elsewhere = folder();
  const cwd = folder(link === 'agents/tools' ? { 'agents/.keep': '' } : {});
  symlinkSync(elsewhere, join(cwd, link));
  const { leftAlone } = await init(cwd);
  expect(leftAlone).toEqual([{ path, note }]);
  expect(readdirSync(elsewhere)).toEqual([]);
});

test('a link at agents that leads nowhere is left alone, too', async () => {
  const cwd = folder();
  symlinkSync('/nowhere/agents', join(cwd, 'agents'));
  expect((await init(cwd)).leftAlone).toMatchObject([{ path: 'agents/' }]);
});

test('a package.json that is a link gets no scripts, and is named with how to add them', async () => {
  const elsewhere = folder({ 'package.json': '{"type":"module"}' });
  const cwd = folder();
  symlinkSync(join(elsewhere, 'package.json'), join(cwd, 'package.json'));
  const { leftAlone } = await init(cwd);
  const how = 'npm pkg set scripts.dev="millrace dev" scripts.test="vitest run"';
  const note = `it is a link, and nothing is written through one; to have its scripts: ${how}`;
  expect(leftAlone).toEqual([{ path: 'package.json', note }]);
  expect(contents(elsewhere)).toEqual({ 'package.json': '{"type":"module"}' });
});

test.each([
  ['{"type":"module","scripts":{"build":7,"test":"jest"}}', 'scripts.build in it must be a text'],
  ['{"type":"module","scripts":["jest"]}', 'its `scripts` is no object'],
  ['["jest"]', 'it is no JSON object'],
])('a package.json %s stays as it is, and its problem is named', async (text, problem) => {
  const cwd = folder({ 'package.json': text });
  const { created, leftAlone } = await init(cwd);
  expect(leftAlone).toEqual([{ path: 'package.json', note: `${problem}, so it has got no scripts` }]);
  expect(created.includes('agents/package.json')).toBe(!text.includes('module'));
  expect(contents(cwd)['package.json']).toBe(text);
});
