import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';
import { requireProcessPackages } from './process-packages.ts';
import type { StackPart } from './supervise.ts';
import { constants } from 'node:os';
import type { Cli } from '../cli.ts';
import {
  type ChildMessage,
  childMessage,
  type parentMessage,
  standbyArgument,
} from '../../../shared/contract/child-messages.ts';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What a worker has read: the ids of its agents, and the files they are made of. */
export type LoadedFiles = Pick<MessageOf<'loaded'>, 'agents' | 'files'>;

const startTimeoutMs = 60_000;
/** Time that a process may take to end after its grace. */
const killAfterMs = 6_000;
/** Lines kept to explain a start that failed. */
const keptLines = 30;

interface ChildOptions {
  readonly role: Role;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Longest time that the process takes to stop, by its own configuration. */
  readonly graceMs: number;
  /** Every line that the process writes. */
  readonly onLine: (line: string) => void;
}

interface WorkerOptions extends Omit<ChildOptions, 'role'> {
  /** Called once it serves. */
  readonly onLoaded: (loaded: LoadedFiles) => void;
}

/**
 * Starts a role as a process of its own and resolves when it serves. It ends with this process, however that ends: the
 * entries exit when their IPC channel closes. Rejects with `invalid_config`, and the last lines of the process, when it ends
 * instead of serving.
 */
export async function startChild(options: ChildOptions): Promise<StackPart> {
  const launched = launch(options, []);
  await launched.says('ready');
  return launched.part;
}

/**
 * The same for a worker, which first reads its agents and stands by until `whenLoaded` resolves: so another one can work
 * until then. Rejects with `agent_manifest_invalid` and every problem of the agents before it calls `whenLoaded`, and ends a process
 * that still reads when `stopping` aborts: code of an author that never yields hears no other signal.
 */
export async function startWorkerChild(
  options: WorkerOptions,
  whenLoaded: () => Promise<void>,
  stopping: AbortSignal,
): Promise<StackPart> {
  const launched = launch({ ...options, role: 'worker' }, [standbyArgument]);
  const loaded = await launched.says('loaded', stopping);
  await whenLoaded();
  launched.send({ type: 'go' });
  await launched.says('ready');
  options.onLoaded(loaded);
  return launched.part;
}

type MessageOf<T extends ChildMessage['type']> = Extract<ChildMessage, { type: T }>;

interface Launched {
  readonly part: StackPart;
  /** Resolves with the message of this type. Rejects, and ends the process, when that cannot come any more. */
  readonly says: <T extends ChildMessage['type']>(type: T, stopping?: AbortSignal) => Promise<MessageOf<T>>;
  readonly send: (order: z.infer<typeof parentMessage>) => void;
}

function launch({ role, env, graceMs, onLine }: ChildOptions, args: readonly string[]): Launched {
  const child = spawn(process.execPath, [entryOf(role), ...args], {
    env,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    // A Ctrl-C in the terminal must reach this process alone: it ends its children itself, in order.
    detached: true,
  });
  const lastLines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    if (!stream) continue;
    createInterface({ input: stream }).on('line', (line) => {
      lastLines.push(line);
      if (lastLines.length > keptLines) lastLines.shift();
      onLine(line);
    });
  }
  const ended = endOf(child);
  return {
    says: (type, stopping) => {
      const explained = (why: string) => `the ${role} ${why}\n${lastLines.join('\n')}`.trimEnd();
      return said(child, type, ended, { explained, stopping });
    },
    send: (order) => void child.send(order, () => {}),
    part: {
      pid: child.pid as number,
      ended,
      async stop() {
        child.kill('SIGTERM');
        const force = setTimeout(() => child.kill('SIGKILL'), graceMs + killAfterMs);
        await ended;
        clearTimeout(force);
      },
    },
  };
}

function endOf(child: ChildProcess): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  child.once('error', (error) => resolve(error.message));
  child.once('close', (code, signal) => resolve(signal ?? `exit code ${code}`));
  return promise;
}

async function said<T extends ChildMessage['type']>(
  child: ChildProcess,
  type: T,
  ended: Promise<string>,
  { explained, stopping }: { readonly explained: (why: string) => string; readonly stopping: AbortSignal | undefined },
): Promise<MessageOf<T>> {
  const { promise, resolve, reject } = Promise.withResolvers<MessageOf<T>>();
  const fail = (why: string) => reject(new RunError('invalid_config', explained(why)));
  const timer = setTimeout(() => fail(`did not start within ${startTimeoutMs / 1_000} s`), startTimeoutMs);
  const read = (given: unknown) => {
    const { data } = childMessage.safeParse(given);
    if (data?.type === type) resolve(data as MessageOf<T>);
    if (data?.type === 'problems')
      reject(new RunError('agent_manifest_invalid', data.problems.join('\n'), { details: data.problems }));
  };
  const onStop = () => fail('was stopped');
  // Also when a second Ctrl-C ends this process without a word.
  const onExit = () => void child.kill('SIGKILL');
  stopping?.addEventListener('abort', onStop, { once: true });
  process.once('exit', onExit);
  child.on('message', read);
  if (stopping?.aborted) onStop();
  void ended.then((how) => fail(`ended before it was ready (${how})`));
  try {
    return await promise;
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  } finally {
    clearTimeout(timer);
    child.off('message', read);
    stopping?.removeEventListener('abort', onStop);
    process.off('exit', onExit);
  }
}

/**
 * Turns this process into one of the roles: same process id, so signals and exit codes are the role's own. Where a
 * process cannot be replaced (Windows) a child takes its place. Never returns.
 */
export async function become(cli: Cli, role: Role, args: readonly string[] = []): Promise<never> {
  requireProcessPackages(cli);
  const command = [process.execPath, entryOf(role), ...args];
  if (process.platform !== 'win32' && process.execve) {
    const env = Object.fromEntries(
      Object.entries(cli.env).filter((entry): entry is [string, string] => entry[1] !== undefined),
    );
    process.execve(process.execPath, command, env);
  }
  const child = spawn(process.execPath, command.slice(1), { stdio: 'inherit', env: cli.env });
  cli.interrupted.addEventListener('abort', () => child.kill('SIGTERM'), { once: true });
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  child.once('error', reject);
  child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal as NodeJS.Signals]));
  return process.exit(await promise);
}

/** The processes that Millrace consists of. */
type Role = 'producer' | 'worker' | 'testing';

/** The entry file of a role, in the source of a checkout or in what was built from it. */
function entryOf(role: Role): string {
  return fileURLToPath(new URL(`../../../${role}/main${extname(import.meta.url)}`, import.meta.url));
}
