import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { findRedisServer, startDevRedis } from '../../src/producer/cli/stack/dev-redis.ts';
import { freePort } from '../support/scratch-redis.ts';

const root = join(import.meta.dirname, '../..');
const server = findRedisServer(process.env, root);

interface Machine {
  readonly project: string;
  readonly bin: string;
  readonly setup: (env?: Record<string, string>, args?: readonly string[]) => { code: number | null; output: string };
}

/** A project that holds nothing but the setup and a lock, on a machine with no programs but those put into `bin`. */
function machine(lockVersion = '1.0.0'): Machine {
  const project = mkdtempSync(join(tmpdir(), 'millrace-setup-'));
  onTestFinished(() => rmSync(project, { recursive: true, force: true }));
  const bin = join(project, 'machine-bin');
  mkdirSync(bin);
  cpSync(join(root, 'scripts'), join(project, 'scripts'), { recursive: true });
  writeLock(project, lockVersion);
  program(join(project, 'npm.cjs'), fakeNpm);
  return {
    project,
    bin,
    setup(env = {}, args = []) {
      const { status, stdout, stderr } = spawnSync(process.execPath, [join(project, 'scripts/setup.mjs'), ...args], {
        cwd: project,
        encoding: 'utf8',
        env: { PATH: bin, npm_execpath: join(project, 'npm.cjs'), npm_node_execpath: process.execPath, ...env },
      });
      return { code: status, output: stdout + stderr };
    },
  };
}

function writeLock(project: string, version: string): void {
  const packages = { '': {}, 'node_modules/a': { version }, 'node_modules/b-win32': { version, optional: true } };
  writeFileSync(join(project, 'package-lock.json'), JSON.stringify({ packages }));
}

/** Does what `npm ci` leaves behind, and notes how it was called. */
const fakeNpm = `
const fs = require('node:fs');
fs.appendFileSync('npm-calls', process.argv.slice(2).join(' ') + '\\n');
if (process.env.NPM_FAILS) process.exit(1);
if (process.argv[2] === 'install') {
  fs.mkdirSync('node_modules/c-needs-24');
  process.exit(0);
}
const { packages } = JSON.parse(fs.readFileSync('package-lock.json', 'utf8'));
delete packages['node_modules/b-win32'];
fs.rmSync('node_modules', { recursive: true, force: true });
fs.mkdirSync('node_modules');
fs.writeFileSync('node_modules/.package-lock.json', JSON.stringify({ packages }));
`;

function program(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  chmodSync(path, 0o755);
}

function npmCalls(project: string): string[] {
  const calls = join(project, 'npm-calls');
  return existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : [];
}

const redisElsewhere = { REDIS_URL: 'redis://elsewhere:6379' };

test('the first start installs the dependencies, and the next one has nothing to do and says nothing', () => {
  const { project, setup } = machine();
  expect(setup(redisElsewhere)).toMatchObject({ code: 0, output: expect.stringContaining('npm ci') as string });
  expect(setup(redisElsewhere)).toEqual({ code: 0, output: '' });
  expect(npmCalls(project)).toEqual(['ci --include=dev --include=optional --no-audit --no-fund --loglevel=error']);
});

test('a lock that has changed is installed anew', () => {
  const { project, setup } = machine();
  setup(redisElsewhere);
  writeLock(project, '1.0.1');
  setup(redisElsewhere);
  expect(npmCalls(project)).toHaveLength(2);
});

test('an installation that was made with npm ci is taken as it is', () => {
  const { project, setup } = machine();
  setup(redisElsewhere);
  rmSync(join(project, 'node_modules/.millrace-lock'));
  expect(setup(redisElsewhere)).toEqual({ code: 0, output: '' });
  expect(npmCalls(project)).toHaveLength(1);
});

test('an npm that fails stops the setup and says so', () => {
  const { setup } = machine();
  expect(setup({ ...redisElsewhere, NPM_FAILS: '1' })).toMatchObject({
    code: 1,
    output: expect.stringContaining('npm ci failed') as string,
  });
});

test('the dependencies alone can be asked for', () => {
  const { setup } = machine();
  expect(setup({}, ['dependencies']).code).toBe(0);
});

test('without any Redis and any way to get one, three ways out are named', () => {
  const { code, output } = machine().setup();
  expect(code).toBe(1);
  expect(output).toContain('apt-get install redis-server');
  expect(output).toContain('docker run');
  expect(output).toContain('export REDIS_URL=');
});

test.each(['redis-server', 'valkey-server'])('a %s on the path is enough', (name) => {
  const { bin, setup } = machine();
  program(join(bin, name), '#!/bin/sh\n');
  expect(setup().code).toBe(0);
});

/** Programs of a Debian machine whose packages hold the Redis of this one. */
function debian({ bin }: Machine, { downloads = true } = {}): void {
  const path = process.env['PATH'] ?? '';
  const calls = join(bin, '../apt-calls');
  program(
    join(bin, 'apt-get'),
    `#!/bin/sh\nPATH='${path}'\necho "$*" >> '${calls}'\n` +
      `case $1 in download) ${downloads ? 'for p in redis-tools libatomic1; do echo > $p.deb; done' : 'echo E: no lists >&2; exit 100'};; install) exit 100;; esac\n`,
  );
  const libraries = server?.libraryPath?.split(delimiter).map((folder) => `cp -r '${folder}' usr/lib/\n`) ?? [];
  const unpack = `mkdir -p usr/bin usr/lib\ncp -L '${server?.bin}' usr/bin/redis-check-rdb\n${libraries.join('')}`;
  program(join(bin, 'dpkg'), `#!/bin/sh\nPATH='${path}'\n${unpack}`);
}

test('on Debian the packages are unpacked into .cache, and what is there is the server that the stack finds', async () => {
  const world = machine();
  debian(world);
  const { code, output } = world.setup();
  expect(output).toContain("unpacking Debian's packages into .cache/redis");
  expect(code).toBe(0);
  expect(readFileSync(join(world.project, 'apt-calls'), 'utf8').trim()).toBe(
    'download redis-tools libatomic1 libjemalloc2 liblzf1',
  );
  expect(world.setup()).toEqual({ code: 0, output: '' });

  const env = { PATH: world.bin };
  expect(findRedisServer(env, world.project)?.bin).toBe(join(world.project, '.cache/redis/usr/bin/redis-server'));
  await using redis = await startDevRedis({
    dir: join(world.project, 'data'),
    env,
    root: world.project,
    port: await freePort(),
  });
  expect(redis.pid).toBeGreaterThan(0);
});

test('a download that fails leaves nothing behind, and without root the three ways out are named', () => {
  const world = machine();
  debian(world, { downloads: false });
  const { code, output } = world.setup();
  expect(output).toContain('apt-get download failed (E: no lists)');
  expect(code).toBe(1);
  expect(output).toContain('One of these helps');
  expect(existsSync(join(world.project, '.cache/redis'))).toBe(false);
  expect(existsSync(join(world.project, '.cache/redis.partial'))).toBe(false);
  const asRoot = process.getuid?.() === 0;
  expect(output.includes('installing redis-server with apt-get, as root')).toBe(asRoot);
});

test('packages whose server does not start are thrown away', () => {
  const world = machine();
  debian(world);
  program(
    join(world.bin, 'dpkg'),
    `#!/bin/sh\nPATH='${process.env['PATH']}'\nmkdir -p usr/bin && printf '#!/bin/sh\\nexit 127\\n' > usr/bin/redis-check-rdb && chmod +x usr/bin/redis-check-rdb\n`,
  );
  const { code, output } = world.setup();
  expect(output).toContain('the server does not start');
  expect(code).toBe(1);
  expect(existsSync(join(world.project, '.cache/redis'))).toBe(false);
});

/** Makes a process believe that it is older than it is. */
const pretend = (version: string) =>
  `--import=data:text/javascript,${encodeURIComponent(`Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`)}`;

test('a Node below 20 is refused', () => {
  const { setup } = machine();
  const { code, output } = setup({ ...redisElsewhere, NODE_OPTIONS: pretend('18.20.0') });
  expect(output).toContain('Node 20 or later is needed to set up, and this is 18.20.0');
  expect(code).toBe(1);
});

test('an old Node is enough when the installation brought the pinned one', () => {
  const { project, bin, setup } = machine();
  setup(redisElsewhere);
  mkdirSync(join(project, 'node_modules/.bin'), { recursive: true });
  program(join(project, 'node_modules/.bin/node'), '#!/bin/sh\necho v24.21.0\n');
  symlinkSync('/bin/sh', join(bin, 'sh'));
  expect(setup({ ...redisElsewhere, NODE_OPTIONS: pretend('20.9.0') })).toEqual({ code: 0, output: '' });
});

test('what npm leaves out under an old Node is installed with the pinned one', () => {
  const { project, bin, setup } = machine();
  writeFileSync(join(project, 'package.json'), '{"optionalDependencies":{"c-needs-24":"1.0.0"}}');
  setup(redisElsewhere);
  mkdirSync(join(project, 'node_modules/.bin'), { recursive: true });
  const pinned = `[ "$1" = --version ] && echo v24.21.0 || { echo pinned >> npm-calls; exec '${process.execPath}' "$@"; }`;
  program(join(project, 'node_modules/.bin/node'), `#!/bin/sh\n${pinned}\n`);
  rmSync(join(project, 'node_modules/c-needs-24'), { recursive: true, force: true });
  symlinkSync('/bin/sh', join(bin, 'sh'));
  const old = { ...redisElsewhere, NODE_OPTIONS: pretend('20.9.0') };
  expect(setup(old)).toMatchObject({ code: 0, output: expect.stringContaining('what needs Node 24') as string });
  expect(npmCalls(project).slice(-2)).toEqual(['pinned', expect.stringMatching(/^install --no-save /)]);
  expect(existsSync(join(project, 'node_modules/c-needs-24'))).toBe(true);
  expect(setup(old)).toEqual({ code: 0, output: '' });
});

test('the same is installed with the Node of the setup when npm runs under an older one', () => {
  const { project, bin, setup } = machine();
  writeFileSync(join(project, 'package.json'), '{"optionalDependencies":{"c-needs-24":"1.0.0"}}');
  program(join(bin, 'old-node'), '#!/bin/sh\necho old >> npm-calls\n');
  mkdirSync(join(project, 'node_modules'));
  writeFileSync(join(project, 'node_modules/.package-lock.json'), readFileSync(join(project, 'package-lock.json')));
  expect(setup({ ...redisElsewhere, npm_node_execpath: join(bin, 'old-node') })).toMatchObject({ code: 0 });
  expect(npmCalls(project)).toEqual([expect.stringMatching(/^install --no-save /)]);
});

test('a pinned Node whose install script did not run is installed again, and a missing one is an error', () => {
  const { project, setup } = machine();
  setup(redisElsewhere);
  const { code, output } = setup({ ...redisElsewhere, NODE_OPTIONS: pretend('20.9.0') });
  expect(npmCalls(project).at(-1)).toBe('rebuild node --ignore-scripts=false');
  expect(output).toContain('Node 24 could not be installed');
  expect(code).toBe(1);
});

test('a browser is installed only for tests, only by root, and without one they are skipped with a word', () => {
  const { bin, setup } = machine();
  program(join(bin, 'redis-server'), '#!/bin/sh\n');
  expect(setup().output).not.toContain('Chromium');
  const without = setup({}, ['tests']);
  expect(without).toMatchObject({ code: 0, output: expect.stringContaining('are skipped: there is no Chromium') });
  program(join(bin, 'chromium'), '#!/bin/sh\n');
  expect(setup({}, ['tests']).output).not.toContain('Chromium');
});

test('the console is built when there is none, and again when its source has changed', () => {
  const { project, setup } = machine();
  const source = join(project, 'src/producer/console/main.tsx');
  program(source, 'one');
  // Stands in for Vite.
  program(
    join(project, 'scripts/console.mjs'),
    `import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
     mkdirSync(process.argv[3], { recursive: true });
     writeFileSync(process.argv[3] + '/index.html', '');
     appendFileSync('builds', 'x');`,
  );
  const builds = () => readFileSync(join(project, 'builds'), 'utf8').length;
  const build = () => expect(setup({}, ['console']).code).toBe(0);
  build();
  build();
  expect(builds()).toBe(1);
  program(source, 'two');
  build();
  expect(builds()).toBe(2);
  rmSync(join(project, '.cache/console'), { recursive: true });
  build();
  expect(builds()).toBe(3);
});

test('a console that cannot be built says so, and is tried again', () => {
  const { project, setup } = machine();
  program(join(project, 'src/producer/console/main.tsx'), 'one');
  program(join(project, 'scripts/console.mjs'), 'process.exit(1);');
  for (const _ of [1, 2])
    expect(setup({}, ['console'])).toMatchObject({ code: 1, output: expect.stringContaining('could not be built') });
});
