import { spawn, type ChildProcess } from 'node:child_process';
import { PassThrough } from 'node:stream';
import { join } from 'node:path';
import { inject, onTestFinished } from 'vitest';
import type { Cli } from '../../../../src/producer/cli/cli.ts';
import { runCli } from '../../../../src/producer/cli/program.ts';
import { childEnv } from '../../../support/child-env.ts';
import { until } from '../../../support/redis.ts';

export const root = join(import.meta.dirname, '../../../..');
export const bin = join(root, 'bin/millrace.mjs');

export interface CliOptions {
  /** All that the command gets besides the path. */
  readonly env?: Record<string, string>;
  readonly cwd?: string;
  /** What it reads from stdin; absent: an empty stdin. */
  readonly input?: string;
  /** Its stdin stays open for what is typed later. */
  readonly keepsInput?: boolean;
}

export interface ProcessOptions extends CliOptions {
  /** Arguments of Node itself. */
  readonly nodeArgs?: readonly string[];
  /** A process group of its own, as a terminal makes one for each command. */
  readonly ownGroup?: boolean;
}

/** What a command has written so far. */
class Output {
  stdout = '';
  stderr = '';

  /** Waits until the output so far has a text. */
  async says(text: string | RegExp, timeoutMs = 60_000): Promise<void> {
    const all = () => `${this.stdout}\n${this.stderr}`;
    const matches = () => (typeof text === 'string' ? all().includes(text) : text.test(all()));
    try {
      await until(`the output to have ${String(text)}`, matches, timeoutMs);
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${all()}`, { cause: error });
    }
  }
}

/**
 * A command in this process, with streams that are no terminal. Ends with its test at the latest. Not for `worker`,
 * `producer` and `agents check`: they replace the process that they run in.
 */
export class CliCommand extends Output {
  readonly exited: Promise<number>;
  readonly #stdin = new PassThrough();
  readonly #interrupt = new AbortController();

  constructor(args: readonly string[], { env, cwd = root, input = '', keepsInput = false }: CliOptions = {}) {
    super();
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    stdout.on('data', (chunk: Buffer) => (this.stdout += chunk.toString()));
    stderr.on('data', (chunk: Buffer) => (this.stderr += chunk.toString()));
    this.#stdin.write(input);
    if (!keepsInput) this.#stdin.end();
    const streams = { stdin: this.#stdin, stdout, stderr } as unknown as Pick<Cli, 'stdin' | 'stdout' | 'stderr'>;
    const cli: Cli = { ...streams, env: childEnv(env), cwd, root, interrupted: this.#interrupt.signal };
    this.exited = runCli(args, cli);
    onTestFinished(async () => {
      this.signal('SIGTERM');
      await this.exited;
    });
  }

  /** Writes lines to its stdin, which has to be kept open. */
  type(...lines: readonly string[]): void {
    this.#stdin.write(lines.map((line) => `${line}\n`).join(''));
  }

  endInput(): void {
    this.#stdin.end();
  }

  /** The first one; a second would end a process. */
  signal(signal: NodeJS.Signals): void {
    this.#interrupt.abort(signal);
  }
}

/** The command line as a real process. Ends with its test at the latest. */
export class CliProcess extends Output {
  readonly pid: number;
  readonly exited: Promise<number>;
  readonly #child: ChildProcess;

  constructor(
    args: readonly string[],
    { env, cwd = root, input = '', keepsInput = false, nodeArgs = [], ownGroup = false }: ProcessOptions = {},
  ) {
    super();
    this.#child = spawn(process.execPath, [...nodeArgs, bin, ...args], {
      cwd,
      env: childEnv(env),
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: ownGroup,
    });
    this.pid = this.#child.pid as number;
    this.#child.stdout?.on('data', (chunk: Buffer) => (this.stdout += chunk.toString()));
    this.#child.stderr?.on('data', (chunk: Buffer) => (this.stderr += chunk.toString()));
    this.#child.stdin?.on('error', () => {});
    this.#child.stdin?.write(input);
    if (!keepsInput) this.#child.stdin?.end();
    this.exited = new Promise((resolve) =>
      this.#child.once('close', (code, signal) => resolve(code ?? (signal ? -1 : 0))),
    );
    onTestFinished(async () => {
      this.#child.kill('SIGKILL');
      await this.exited;
    });
  }

  /** Writes lines to its stdin, which has to be kept open. */
  type(...lines: readonly string[]): void {
    this.#child.stdin?.write(lines.map((line) => `${line}\n`).join(''));
  }

  endInput(): void {
    this.#child.stdin?.end();
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** What a terminal does: every process of the group gets the signal. */
  signalGroup(signal: NodeJS.Signals): void {
    process.kill(-this.pid, signal);
  }
}

/** Runs a command to its end, in this process. */
export async function millrace(args: readonly string[], options: CliOptions = {}) {
  return await ended(new CliCommand(args, options));
}

/** Runs a command to its end, as a process of its own. */
export async function millraceProcess(args: readonly string[], options: ProcessOptions = {}) {
  return await ended(new CliProcess(args, options));
}

async function ended(command: CliCommand | CliProcess) {
  const code = await command.exited;
  return { code, stdout: command.stdout, stderr: command.stderr };
}

/** Do the commands of this file speak HTTP? A key has one tenant then, and runs that real processes start have an event more. */
export const commands = { speakHttp: false };

/** Where a producer listens for a prefix, in the suites of the command line over HTTP. */
export const producers = new Map<string, string>();

/** Settings that lead a command to the test Redis and a prefix of its own, or to the producer there. */
export function settings(prefix: string, more: Record<string, string> = {}): Record<string, string> {
  const url = producers.get(prefix);
  if (url !== undefined) return { ...more, MILLRACE_URL: url, REDIS_URL: '' };
  return { REDIS_URL: inject('redisUrl'), MILLRACE_PREFIX: prefix, MODEL_ALLOWLIST: '*', ...more };
}
