import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';
import type { StackPart } from './supervise.ts';
import { constants } from 'node:os';
import type { Cli } from '../cli.ts';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What an entry sends over its IPC channel once it serves. */
const readyMessage = z.object({ type: z.literal('ready') });

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

/**
 * Starts a role as a process of its own and resolves when it serves. It ends with this process, however that ends: the
 * entries exit when their IPC channel closes. Rejects with `invalid_config`, and the last lines of the process, when it ends
 * instead of serving.
 */
export async function startChild({ role, env, graceMs, onLine }: ChildOptions): Promise<StackPart> {
  const child = spawn(process.execPath, [entryOf(role)], {
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
  await untilReady(child, ended, role, lastLines);
  return {
    pid: child.pid as number,
    ended,
    async stop() {
      child.kill('SIGTERM');
      const force = setTimeout(() => child.kill('SIGKILL'), graceMs + killAfterMs);
      await ended;
      clearTimeout(force);
    },
  };
}

function endOf(child: ChildProcess): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  child.once('error', (error) => resolve(error.message));
  child.once('close', (code, signal) => resolve(signal ?? `exit code ${code}`));
  return promise;
}

async function untilReady(
  child: ChildProcess,
  ended: Promise<string>,
  role: Role,
  lastLines: readonly string[],
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const fail = (why: string) =>
    reject(new RunError('invalid_config', `the ${role} ${why}\n${lastLines.join('\n')}`.trimEnd()));
  const timer = setTimeout(() => fail(`did not start within ${startTimeoutMs / 1_000} s`), startTimeoutMs);
  child.on('message', (message) => void (readyMessage.safeParse(message).success && resolve()));
  void ended.then((how) => fail(`ended before it was ready (${how})`));
  try {
    await promise;
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Turns this process into one of the roles: same process id, so signals and exit codes are the role's own. Where a
 * process cannot be replaced (Windows) a child takes its place. Never returns.
 */
export async function become(cli: Cli, role: Role, args: readonly string[] = []): Promise<never> {
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
type Role = 'producer' | 'worker';

/** The entry file of a role, in the source of a checkout or in what was built from it. */
function entryOf(role: Role): string {
  return fileURLToPath(new URL(`../../../${role}/main${extname(import.meta.url)}`, import.meta.url));
}
