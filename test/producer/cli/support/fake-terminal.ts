import { PassThrough } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { inject, onTestFinished } from 'vitest';
import type { Cli, ExitCode } from '../../../../src/producer/cli/cli.ts';
import { runCli } from '../../../../src/producer/cli/program.ts';
import { until } from '../../../support/redis.ts';
import { root, settings } from './cli-process.ts';

export const ctrlC = '\u0003';
export const ctrlD = '\u0004';

/** A command in this process whose streams say that they are a terminal: keys go in one by one, all output is one text. */
export class FakeTerminal {
  readonly exited: Promise<ExitCode>;
  readonly #keys = Object.assign(new PassThrough(), { isTTY: true });
  #raw = '';

  constructor(args: readonly string[], prefix: string, redisUrl = inject('redisUrl')) {
    const shown = () => {
      const stream = Object.assign(new PassThrough(), { isTTY: true, columns: 200, getColorDepth: () => 1 });
      stream.on('data', (chunk: Buffer) => (this.#raw += chunk.toString()));
      return stream;
    };
    const gone = new AbortController();
    const cli = {
      env: settings(prefix, { REDIS_URL: redisUrl, NO_COLOR: '1' }),
      cwd: root,
      root,
      stdin: this.#keys,
      stdout: shown(),
      stderr: shown(),
      interrupted: gone.signal,
    };
    this.exited = runCli(args, cli as unknown as Cli);
    onTestFinished(async () => {
      gone.abort('SIGTERM');
      await this.exited;
    });
  }

  /** All that was written, without what moves the cursor. */
  get screen(): string {
    return stripVTControlCharacters(this.#raw).replaceAll('\r', '');
  }

  press(keys: string): void {
    this.#keys.write(keys);
  }

  type(line: string): void {
    this.press(`${line}\r`);
  }

  async shows(text: string | RegExp): Promise<void> {
    const matches = () => (typeof text === 'string' ? this.screen.includes(text) : text.test(this.screen));
    try {
      await until(`the screen to show ${String(text)}`, matches);
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${this.screen}`, { cause: error });
    }
  }
}
