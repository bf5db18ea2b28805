import { spawn, type ChildProcess } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { findRedisServer } from '../../src/producer/cli/stack/dev-redis.ts';
import { docsPage } from '../support/docs-page.ts';
import { codeBlocks } from '../support/markdown.ts';
import { until } from '../support/redis.ts';
import { cloneInto, pack, root, run } from './packed.ts';

const { dependencies, devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
};
const zod = `zod@${dependencies['zod']}`;
/** From the first command to the answer on the terminal. */
const deadlineMs = 90_000;

const scratch = mkdtempSync(join(tmpdir(), 'millrace-first-hour-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true, maxRetries: 5 }));
const clone = join(scratch, 'clone');
cloneInto(clone);

/** What a terminal shows of a command that runs on. It ends with its test. */
class Terminal {
  output = '';
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;

  constructor(cwd: string, line: string, env: Record<string, string> = {}) {
    const PATH = [dirname(process.execPath), process.env['PATH']].join(delimiter);
    const given = Object.entries(process.env).filter(([name]) => /^(HOME|TMPDIR|LANG|npm_config_.*)$/.test(name));
    this.#child = spawn('/bin/sh', ['-c', line], {
      cwd,
      env: { ...Object.fromEntries(given), PATH, WORKER_PORT: '0', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    this.#exited = new Promise((resolve) => this.#child.once('close', () => resolve()));
    onTestFinished(() => this.interrupt());
  }

  async shows(text: string | RegExp, timeoutMs: number): Promise<void> {
    const matches = () => (typeof text === 'string' ? this.output.includes(text) : text.test(this.output));
    await until(`the terminal to show ${String(text)}`, matches, timeoutMs).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${this.output}`, { cause: error });
    });
  }

  /** A Ctrl-C: every process of the terminal gets it. */
  async interrupt(): Promise<void> {
    const { exitCode, signalCode, pid } = this.#child;
    if (exitCode === null && signalCode === null && pid !== undefined) process.kill(-pid, 'SIGINT');
    await this.#exited;
  }
}

/** The line of the banner that begins so. */
function printed(terminal: Terminal, start: RegExp): string {
  const line = terminal.output.split('\n').find((each) => start.test(each));
  if (line === undefined) throw new Error(`no line begins with ${String(start)}:\n${terminal.output}`);
  return line;
}

/** Pastes a line into another terminal of the folder. */
async function paste(cwd: string, line: string, timeoutMs: number): Promise<string> {
  const terminal = new Terminal(cwd, `${line}; echo "exit $?"`);
  await terminal.shows(/exit \d+\n$/, timeoutMs);
  return terminal.output;
}

/** The streamed answer of the pasted lines: on the terminal, and as events over HTTP. */
async function expectAnswers(cwd: string, dev: Terminal, answer: string, leftMs: () => number): Promise<void> {
  const shown = await paste(cwd, printed(dev, /^(npx millrace|node bin\/millrace\.mjs) run support /), leftMs());
  expect(shown).toContain('→ lookup_order');
  expect(shown).toContain(answer);
  expect(shown).toContain('completed');
  expect(shown).toMatch(/exit 0\n$/);
  const curl = printed(dev, /^curl /);
  const accepted = await paste(cwd, curl, leftMs());
  const [, runId = ''] = /"runId":"(\w+)"/.exec(accepted) ?? [];
  const url = /http:\/\/[^/]+/.exec(curl)?.[0];
  const events = await (await fetch(`${url}/v1/runs/${runId}/events`)).text();
  expect(events).toContain('event: text.delta');
  expect(events).toContain('event: run.completed');
}

/**
 * A Debian machine without a Redis: programs by these names hand out the server of this one, as the packages of the real
 * ones have it, so that the test needs no network.
 */
function debianWithoutRedis(): string {
  const server = findRedisServer(process.env, root);
  const bin = join(scratch, 'debian-bin');
  mkdirSync(bin, { recursive: true });
  const path = `PATH='/usr/bin:/bin'`;
  const program = (name: string, text: string) =>
    writeFileSync(join(bin, name), `#!/bin/sh\n${path}\n${text}`, { mode: 0o755 });
  program('apt-get', `[ "$1" = download ] && for p in redis-tools libatomic1; do echo > $p.deb; done\n`);
  const libraries = server?.libraryPath?.split(delimiter).map((folder) => `cp -r '${folder}' usr/lib/\n`) ?? [];
  program('dpkg', `mkdir -p usr/bin usr/lib\ncp -L '${server?.bin}' usr/bin/redis-check-rdb\n${libraries.join('')}`);
  return bin;
}

describe('from an empty folder and a tarball', () => {
  const folder = join(scratch, 'shop');

  test('npm i, init, dev and the pasted line are a streamed answer in 90 seconds', async () => {
    const tarball = pack(clone, scratch);
    mkdirSync(folder);
    const PATH = [debianWithoutRedis(), dirname(process.execPath), '/usr/local/bin:/usr/bin:/bin'].join(delimiter);
    const startedAt = performance.now();
    const leftMs = () => deadlineMs - (performance.now() - startedAt);
    const install = run(folder, 'npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', tarball, zod]);
    expect(install.code, install.stderr).toBe(0);
    const init = run(folder, 'npx', ['millrace', 'init']);
    expect(init.stdout).toContain('npx millrace dev');
    expect(init.code, init.stderr).toBe(0);
    const dev = new Terminal(folder, 'npx millrace dev', { PATH });
    await dev.shows('Ctrl-C stops everything', leftMs());
    await expectAnswers(folder, dev, 'Order 7 is with the carrier.', leftMs);

    // Without a server on its path it has unpacked one into the project.
    const isOnPath = findRedisServer({ PATH }, '/nowhere') !== undefined;
    const unpacked = existsSync(join(folder, '.millrace/.cache/redis/usr/bin/redis-server'));
    expect([unpacked, dev.output.includes("unpacking Debian's packages")]).toEqual([!isOnPath, !isOnPath]);
    await expectReload(folder, dev);
    await expectProgram(folder);
    await dev.interrupt();
    expect(dev.output).toContain('Stopping');
    expect(existsSync(join(folder, '.millrace/dev.json'))).toBe(false);
  }, 400_000);

  test('the test that init made passes, and its files are type-checked without a complaint', () => {
    const packages = ['vitest', 'typescript', '@types/node'].map((name) => `${name}@${devDependencies[name]}`);
    const install = run(folder, 'npm', ['install', '--save-dev', '--prefer-offline', '--no-audit', ...packages]);
    expect(install.code, install.stderr).toBe(0);
    const tests = run(folder, 'npm', ['test']);
    expect(tests.stdout).toContain('1 passed');
    expect(tests.code, tests.stdout + tests.stderr).toBe(0);
    const types = run(folder, 'npx', ['tsc', '--types', 'node']);
    expect([types.stdout, types.code]).toEqual(['', 0]);
  }, 200_000);

  test('the demo runs from the package', () => {
    const demo = run(folder, 'npx', ['millrace', 'demo']);
    expect(demo.stdout).toContain('Nothing was lost. Next: `npx millrace init && npx millrace dev`');
    expect(demo.code, demo.stdout + demo.stderr).toBe(0);
  }, 120_000);

  test('init of a new folder makes a package.json that depends on this version', () => {
    const other = join(scratch, 'other');
    const init = run(folder, 'npx', ['millrace', 'init', other]);
    expect(init.stdout).toContain('npm install');
    const made = JSON.parse(readFileSync(join(other, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>;
    };
    expect(made.dependencies['millrace']).toMatch(/^\^\d+\.\d+\.\d+$/);
  });
});

/** A changed tool answers the next run. */
async function expectReload(folder: string, dev: Terminal): Promise<void> {
  const file = join(folder, 'agents/tools/lookup_order.ts');
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll('is with the carrier', 'is on a boat'));
  await dev.shows(/\nagents {2}support/, 60_000);
  const shown = await paste(folder, 'npx millrace run support "Where is order 7?"', 60_000);
  expect(shown).toContain('Order 7 is on a boat.');
}

/** The program of the page about development finds the stack by itself. */
async function expectProgram(folder: string): Promise<void> {
  const [program = ''] = codeBlocks(docsPage('development.md'), 'ts');
  writeFileSync(join(folder, 'ask.ts'), program);
  expect(await paste(folder, `'${process.execPath}' ask.ts`, 60_000)).toContain('Order 7 is on a boat.');
}

test('a fresh clone with npm start, and the pasted line, are a streamed answer in 90 seconds', async () => {
  const startedAt = performance.now();
  const leftMs = () => deadlineMs - (performance.now() - startedAt);
  // What npm ci would fetch is linked; a Redis that this machine has unpacked already is not fetched again.
  if (existsSync(join(root, '.cache/redis')) && !existsSync(join(clone, '.cache/redis')))
    cpSync(join(root, '.cache/redis'), join(clone, '.cache/redis'), { recursive: true, verbatimSymlinks: true });
  const start = new Terminal(clone, 'npm start');
  await start.shows('Ctrl-C stops everything', leftMs());
  await expectAnswers(clone, start, 'Order 7 waits for a part', leftMs);
  await start.interrupt();
}, 200_000);
