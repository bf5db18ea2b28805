import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { inject, onTestFinished } from 'vitest';
import { until } from '../../../support/redis.ts';

export const root = join(import.meta.dirname, '../../../..');
export const bin = join(root, 'bin/millrace.mjs');

export interface CliOptions {
  /** All that the process gets besides the path. */
  readonly env?: Record<string, string>;
  readonly cwd?: string;
  /** What it reads from stdin; absent: an empty stdin. */
  readonly input?: string;
  /** Its stdin stays open for what is typed later. */
  readonly keepsInput?: boolean;
  /** Arguments of Node itself. */
  readonly nodeArgs?: readonly string[];
  /** A process group of its own, as a terminal makes one for each command. */
  readonly ownGroup?: boolean;
}

/** The command line as a real process. Ends with its test at the latest. */
export class CliProcess {
  readonly pid: number;
  readonly exited: Promise<number>;
  readonly #child: ChildProcess;
  stdout = '';
  stderr = '';

  constructor(
    args: readonly string[],
    { env, cwd = root, input = '', keepsInput = false, nodeArgs = [], ownGroup = false }: CliOptions = {},
  ) {
    this.#child = spawn(process.execPath, [...nodeArgs, bin, ...args], {
      cwd,
      env: { PATH: process.env['PATH'], ...env },
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

  /** Waits until the output so far holds a text. */
  async says(text: string | RegExp, timeoutMs = 15_000): Promise<void> {
    const matches = () => (typeof text === 'string' ? this.#all.includes(text) : text.test(this.#all));
    try {
      await until(`the output to hold ${String(text)}`, matches, timeoutMs);
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${this.#all}`, { cause: error });
    }
  }

  get #all(): string {
    return `${this.stdout}\n${this.stderr}`;
  }
}

/** Runs a command to its end. */
export async function millrace(args: readonly string[], options: CliOptions = {}) {
  const child = new CliProcess(args, options);
  const code = await child.exited;
  return { code, stdout: child.stdout, stderr: child.stderr };
}

/** Settings that lead a command to the test Redis and a prefix of its own. */
export function settings(prefix: string, more: Record<string, string> = {}): Record<string, string> {
  return { REDIS_URL: inject('redisUrl'), MILLRACE_PREFIX: prefix, ...more };
}
