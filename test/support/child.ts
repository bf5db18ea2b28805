import { fork, type ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { isRecord, jsonOr } from '../../src/shared/base/json.ts';
import { childEnv } from './child-env.ts';
import { builtEntry } from './entries.ts';

const readyMs = 90_000;
const keptBytes = 256 * 1024;

/** What a child said when it was ready; `port` or `healthPort` for those that listen. */
export type Ready = Readonly<Record<string, unknown>>;

/** A real process of the product, started from its entry file. It never outlives this one. */
export class Child implements AsyncDisposable {
  readonly name: string;
  readonly pid: number;
  /** Resolves when the process is gone. */
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  readonly #child: ChildProcess;
  /** The line that a stream has begun. */
  readonly #begun = new Map<Readable, string>();
  #output = '';

  private constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.#child = child;
    this.pid = child.pid as number;
    this.exited = new Promise((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })));
    const killWithParent = () => child.kill('SIGKILL');
    process.once('exit', killWithParent);
    child.once('exit', () => process.off('exit', killWithParent));
    // Chunks of both streams come in any order: only whole lines are put together.
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (chunk: string) => {
        const text = (this.#begun.get(stream) ?? '') + chunk;
        const end = text.lastIndexOf('\n') + 1;
        this.#output = (this.#output + text.slice(0, end)).slice(-keptBytes);
        this.#begun.set(stream, text.slice(end));
      });
    }
  }

  /** Starts a process without waiting for it. `env` is all it gets, besides the path. */
  static spawn(name: string, entry: string, env: Record<string, string>, args: readonly string[] = []): Child {
    const child = fork(builtEntry(entry), [...args], {
      env: childEnv(env),
      execArgv: [],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    return new Child(name, child);
  }

  /** Starts a process and waits for its ready message. Throws with its output when it ends before, or is silent. */
  static async start(name: string, entry: string, env: Record<string, string>, args: readonly string[] = []) {
    const child = Child.spawn(name, entry, env, args);
    return { child, ready: await child.#ready() };
  }

  /** The end of what it wrote to both of its outputs. */
  get output(): string {
    return this.#output + [...this.#begun.values()].join('');
  }

  /** The finished lines of its JSON log that `keep` accepts. */
  logLines(keep: (line: Record<string, unknown>) => boolean): Record<string, unknown>[] {
    // A pipe that is full may cut a line.
    const lines = this.#output.split('\n').map((line) => jsonOr(line));
    return lines.filter((line) => isRecord(line)).filter(keep);
  }

  get isAlive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** `kill -9`; resolves when the process is gone. */
  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await this.exited;
  }

  /** Calls back for every message the process sends. */
  onMessage(listener: (message: Ready) => void): void {
    this.#child.on('message', (message) => listener(message as Ready));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  async #ready(): Promise<Ready> {
    const { promise, resolve, reject } = Promise.withResolvers<Ready>();
    const fail = (why: string) => reject(new Error(`${this.name} ${why}:\n${this.#output}`));
    const timer = setTimeout(() => fail(`was not ready in ${readyMs} ms`), readyMs);
    this.onMessage((message) => message['type'] === 'ready' && resolve(message));
    void this.exited.then(({ code, signal }) => fail(`ended with ${signal ?? code} before it was ready`));
    try {
      return await promise;
    } catch (error) {
      this.signal('SIGKILL');
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }
}
