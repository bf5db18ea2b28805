import { orLate } from '../../../shared/base/deadline.ts';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import {
  deserializeMessage,
  serializeMessage,
  type JSONRPCMessage,
  type Transport,
} from '@modelcontextprotocol/client';
import type { Clock } from '../../../shared/base/clock.ts';
import { depthOver } from '../../../shared/base/json.ts';
import { floodGate, floodWindowMs, maxMessageBytes, maxMessageDepth, maxWindowBytes } from './limits.ts';

export interface StdioCommand {
  readonly command: string;
  readonly args: readonly string[];
  /** All that the process sees. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string | undefined;
}

/** How long a server may take to end by itself once its input has ended, and once it was asked to, in milliseconds. */
const goodbyeMs = 500;
const termMs = 1_500;
const maxComplaintChars = 2_000;
const newline = 10;

const shell = '/bin/sh';
/**
 * A watcher in the server's process group reads from a pipe that ends with the worker, however the worker ends, and then
 * takes the group down. The server takes the shell's place, without that pipe.
 */
const guarded =
  '(trap "" TERM; read -r _ <&3; kill -TERM 0; sleep 1; kill -KILL 0) </dev/null >/dev/null 2>&1 & exec 3<&-; unset PWD OLDPWD; exec "$0" "$@"';

/**
 * A server as a child process, in a process group of its own: whatever it starts ends with it, also when the worker is
 * killed. A command that does not exist ends at once (see `problem`). Messages are lines of JSON; other lines are left out.
 * A message that is too long or nested too deeply, or too much of everything, ends the connection.
 */
export class StdioTransport implements Transport {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: Transport['onmessage'];
  readonly #command: StdioCommand;
  readonly #clock: Clock;
  readonly #isWithinBounds;
  #child: ChildProcess | undefined;
  #exited: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | undefined;
  #hasEnded = false;
  #isCloseReported = false;
  #pieces: Buffer[] = [];
  #size = 0;
  #complaint = '';
  #problem: string | undefined;

  constructor(command: StdioCommand, clock: Clock) {
    this.#command = command;
    this.#clock = clock;
    this.#isWithinBounds = floodGate(maxWindowBytes, floodWindowMs, clock);
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Why it has ended, in words of this system; undefined as long as it is not. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** The end of what it wrote to its error output. Text of a stranger, which may contain what it was given. */
  get complaint(): string {
    return this.#complaint;
  }

  async start(): Promise<void> {
    const { command, args, env, cwd } = this.#command;
    const [file, given] = existsSync(shell) ? [shell, ['-c', guarded, command, ...args]] : [command, [...args]];
    const child = spawn(file, given, { detached: true, env, stdio: ['pipe', 'pipe', 'pipe', 'pipe'], cwd });
    this.#child = child;
    this.#exited = once(child, 'exit').catch(() => {});
    child.on('error', (error) => this.#leave(startProblem(error, this.#command)));
    child.on('exit', (code, signal) => this.#leave(exitProblem(code, signal, command)));
    child.stdout?.on('data', (chunk: Buffer) => this.#onChunk(chunk));
    child.stderr?.on('data', (chunk: Buffer) => {
      this.#complaint = `${this.#complaint}${chunk.toString()}`.slice(-maxComplaintChars);
    });
    // A process that goes away takes its pipes along: `exit` reports its end.
    for (const stream of child.stdio) stream?.on('error', () => {});
    await once(child, 'spawn').catch(() => {});
    if (this.#problem !== undefined) throw new Error(this.#problem);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const input = this.#child?.stdin;
    if (!input?.writable || this.#hasEnded) throw new Error(this.#problem ?? 'it is not connected');
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    input.write(serializeMessage(message), (error) => (error ? reject(error) : resolve()));
    try {
      await promise;
    } catch (error) {
      // The pipes of a process that has ended report it before the process does.
      if (!(await this.#isGoneWithin(goodbyeMs))) this.#breakOff('it closed its input');
      throw new Error(this.#problem, { cause: error });
    }
  }

  /** Ends its input, then asks it to end, then ends it, with all that it has started. Never rejects. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    const child = this.#child;
    if (child?.pid !== undefined) {
      child.stdin?.end();
      if (!(await this.#isGoneWithin(goodbyeMs))) {
        this.#signal('SIGTERM');
        if (!(await this.#isGoneWithin(termMs))) this.#signal('SIGKILL');
        await this.#exited;
      }
    }
    this.#leave('it was closed');
  }

  async #isGoneWithin(ms: number): Promise<boolean> {
    const gone = this.#exited.then(() => true);
    return await orLate(ms, gone, () => false, { clock: this.#clock });
  }

  /** To the whole group, which is there as long as its watcher or any of its processes is. */
  #signal(signal: NodeJS.Signals): void {
    const pid = this.#child?.pid;
    if (pid === undefined) return;
    try {
      process.kill(-pid, signal);
    } catch {
      // The group has ended.
    }
  }

  #leave(problem: string): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#problem ??= problem;
    this.#signal('SIGKILL');
    for (const stream of this.#child?.stdio ?? []) stream?.destroy();
    [this.#pieces, this.#size] = [[], 0];
    this.#reportClosed();
  }

  /** No request waits for its answers any more, however long it takes to end. */
  #breakOff(problem: string): void {
    this.#problem ??= problem;
    this.onerror?.(new Error(problem));
    void this.close();
    this.#reportClosed();
  }

  #reportClosed(): void {
    if (this.#isCloseReported) return;
    this.#isCloseReported = true;
    this.onclose?.();
  }

  #onChunk(chunk: Buffer): void {
    if (this.#problem !== undefined) return;
    if (!this.#isWithinBounds(chunk.length)) return this.#breakOff('it sends more than can be read');
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      if (!this.#gather(chunk.subarray(start, end))) return;
      const line = Buffer.concat(this.#pieces).toString('utf8');
      [this.#pieces, this.#size] = [[], 0];
      this.#read(line);
      if (this.#problem !== undefined) return;
      start = end + 1;
    }
    this.#gather(chunk.subarray(start));
  }

  #gather(piece: Buffer): boolean {
    this.#size += piece.length;
    if (this.#size > maxMessageBytes) {
      this.#breakOff(`it sent a message of more than ${maxMessageBytes} bytes`);
      return false;
    }
    this.#pieces.push(piece);
    return true;
  }

  #read(line: string): void {
    // Some servers greet people on the same output.
    if (!line.trimStart().startsWith('{')) return;
    if (depthOver(line, maxMessageDepth))
      return this.#breakOff(`it sent a message nested deeper than ${maxMessageDepth} levels`);
    try {
      this.onmessage?.(deserializeMessage(line));
    } catch (error) {
      this.onerror?.(error instanceof Error ? error : new Error('it sent what is no message'));
    }
  }
}

function startProblem(error: Error, { command, cwd }: StdioCommand): string {
  const code = 'code' in error ? String(error.code) : error.name;
  // The shell is there, so that only the folder can be missing.
  if (code === 'ENOENT' && cwd !== undefined) return `its folder ${cwd} or its command ${command} is not there`;
  return code === 'ENOENT' ? notFound(command) : `its command ${command} could not be started (${code})`;
}

function exitProblem(code: number | null, signal: string | null, command: string): string {
  // The exit codes of shells for a command that is not there, or cannot be started.
  if (code === 127) return notFound(command);
  if (code === 126) return `its command ${command} is no program that may be started here`;
  return signal === null ? `it ended with exit code ${code}` : `it was ended by ${signal}`;
}

function notFound(command: string): string {
  return `its command ${command} was not found: give a full path, or install it where PATH leads`;
}
