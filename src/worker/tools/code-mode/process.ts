import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, lstatSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import { setPriority } from 'node:os';
import { extname, join, sep } from 'node:path';
import { jsonText } from '../../../shared/base/json.ts';
import {
  FrameReader,
  frameOf,
  maxChildFrameBytes,
  maxErrorChars,
  maxLogLineChars,
  maxLogLines,
  type HostMessage,
} from './protocol.ts';
import { z } from 'zod';

const scriptFailure = z.enum([
  /** Over its length. */
  'source',
  /** The source does not compile. */
  'syntax',
  /** It threw, and did not catch it. */
  'threw',
  /** It waits for something that nothing will ever bring. */
  'stuck',
  /** What it returned is no JSON, or too large. */
  'result',
  'timeout',
  'calls',
  'memory',
  /** Its process died under it, or did what no script can make it do. */
  'crashed',
  'aborted',
  /** No process could be started. */
  'unavailable',
  /** All processes were busy for too long. */
  'busy',
]);
export type ScriptFailure = z.infer<typeof scriptFailure>;

const outcome = z.union([
  /** Without `json` it returned nothing. */
  z.strictObject({ ok: z.literal(true), json: z.string().optional() }),
  z.strictObject({ ok: z.literal(false), reason: scriptFailure, message: z.string().max(2 * maxErrorChars) }),
]);

/** What a script process sends to the worker. It is trusted with nothing: all of it is checked, and none of it is code. */
export const processMessage = z.discriminatedUnion('t', [
  z.strictObject({ t: z.literal('ready') }),
  z.strictObject({ t: z.literal('call'), id: z.int().min(1), name: z.string().max(64), args: z.string() }),
  z.strictObject({
    t: z.literal('done'),
    outcome,
    logs: z.array(z.string().max(maxLogLineChars + 1)).max(maxLogLines + 1),
    /** The process shall run no other script. */
    isSpent: z.boolean(),
  }),
]);
export type ProcessMessage = z.infer<typeof processMessage>;
export type ReportedOutcome = z.infer<typeof outcome>;

/** Receives what a process sends. A process without a listener must not send anything. */
export interface ProcessListener {
  message(message: ProcessMessage): void;
  /** It has ended, or sent a message out of turn and was killed for it. `why` is for the log. */
  gone(why: string): void;
}

const maxComplaintChars = 2_000;

/** The worker's end of one script process. */
export class ScriptProcess {
  readonly tenant: string;
  /** Scripts that it was given. */
  scripts = 0;
  readonly #child: ChildProcess;
  readonly #channel: Socket;
  readonly #exited: Promise<unknown>;
  #listener: ProcessListener | undefined;
  #isGone = false;
  #complaint = '';

  /** Starts one; its listener gets `ready` or `gone`. */
  constructor(tenant: string, listener: ProcessListener) {
    this.tenant = tenant;
    const child = spawn(process.execPath, [...confinement(), childFile], {
      cwd: '/',
      env: {},
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    this.#channel = child.stdio[3] as Socket;
    giveWay(child.pid);
    this.#exited = once(child, 'exit').catch(() => {});
    child.on('error', (error) => this.#leave(error.message));
    // `close` comes when its last words are read.
    child.on('close', (code, signal) => this.#leave(`exit ${signal ?? code} ${this.#complaint}`));
    this.#channel.on('error', () => child.kill('SIGKILL'));
    this.#channel.on('close', () => child.kill('SIGKILL'));
    const reader = new FrameReader(maxChildFrameBytes);
    this.#channel.on('data', (chunk: Buffer) => {
      if (this.#isGone) return;
      try {
        for (const text of reader.push(chunk)) this.#onMessage(processMessage.parse(JSON.parse(text)));
      } catch {
        this.kill('it sent what no script process sends');
      }
    });
    // Until it is ready it may write here why it cannot start; later output is ignored.
    child.stderr?.on('data', (chunk: Buffer) => {
      this.#complaint = `${this.#complaint}${chunk.toString()}`.slice(0, maxComplaintChars);
    });
    this.listen(listener);
  }

  get id(): number | undefined {
    return this.#child.pid;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** Only while there is a listener does the process keep the worker alive. */
  listen(listener: ProcessListener | undefined): void {
    this.#listener = listener;
    const reference = listener ? 'ref' : 'unref';
    this.#child[reference]();
    this.#channel[reference]();
  }

  send(message: HostMessage): void {
    if (!this.#isGone) this.#channel.write(frameOf(jsonText(message)));
  }

  /** At once, whatever it does. */
  kill(why: string): void {
    this.#child.kill('SIGKILL');
    this.#channel.destroy();
    this.#leave(why);
  }

  /** Resolves when the process is no more. */
  async exited(): Promise<void> {
    if (this.#child.pid === undefined || this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.ref();
    await this.#exited;
  }

  #onMessage(message: ProcessMessage): void {
    if (this.#isGone) return;
    if (!this.#listener) throw new Error('a message without a script');
    if (message.t === 'ready') this.#child.stderr?.destroy();
    this.#listener.message(message);
  }

  #leave(why: string): void {
    if (this.#isGone) return;
    this.#isGone = true;
    const listener = this.#listener;
    this.#listener = undefined;
    listener?.gone(why.trim());
  }
}

/** Scripts get what the worker leaves of the processor: a worker that cannot renew its locks loses its runs. */
function giveWay(pid: number | undefined): void {
  try {
    if (pid !== undefined) setPriority(pid, 5);
  } catch {
    // Not everywhere is that allowed, or the process is gone already.
  }
}

const childFile = join(import.meta.dirname, `child${extname(import.meta.filename)}`);

/** The arguments of Node that keep a script process from files, other programs and the machine's memory. */
export function confinement(): string[] {
  return [
    '--permission',
    ...readableFolders().map((folder) => `--allow-fs-read=${folder}/`),
    '--max-old-space-size=128',
    // Deep recursion of a script is to end at the engine's own limit, which it survives.
    '--stack-size=3900',
    '--disable-sigusr1',
    '--no-addons',
    '--no-warnings',
  ];
}

/** What a script process loads: its own folder, and the engine. Packages may be links to where they really are. */
function readableFolders(): string[] {
  const core = packageFolder('quickjs-emscripten-core', import.meta.filename);
  const engine = packageFolder('@jitl/quickjs-wasmfile-release-sync', import.meta.filename);
  const bindings = packageFolder('@jitl/quickjs-ffi-types', join(realpathSync(core), 'package.json'));
  const packages = [core, engine, bindings].flatMap((folder) => [folder, realpathSync(folder), ...linksOn(folder)]);
  // A longer path before a shorter one of the same folder hides the shorter one from Node.
  return [...new Set([import.meta.dirname, ...packages])].toSorted((a, b) => a.length - b.length);
}

/** Every part of the path that is a link: to follow one, it has to be read. */
function linksOn(path: string): string[] {
  const parts = path.split(sep);
  const ways = parts.map((_, index) => parts.slice(0, index + 1).join(sep)).filter((way) => way !== '');
  return ways.filter((way) => lstatSync(way).isSymbolicLink());
}

function packageFolder(name: string, importer: string): string {
  const folders = (createRequire(importer).resolve.paths(name) ?? []).map((folder) => join(folder, name));
  const found = folders.find((folder) => existsSync(folder));
  if (!found) throw new Error(`the package ${name} is not installed`);
  return found;
}
