import { messageOf } from './errors.ts';
import type { Log } from './log.ts';

/** The status of a program whose arguments, settings or files are wrong, and of one that cannot reach Redis. */
export const exitUsage = 2;
export const exitUnreachable = 3;

/** The status of a program that did not do all of what it should. */
const exitFailed = 1;

/** Ends the process where Node is too old. */
export function checkNode(): void {
  if (Number(process.versions.node.split('.')[0]) < 24)
    stop(exitUsage, 'millrace needs Node 24: run it through npm or bin/millrace.mjs');
}

/** What is read, or the end of the process with everything that is wrong with it. */
export function orStop<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    return stop(exitUsage, messageOf(error));
  }
}

export function stop(code: number, message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(code);
}

/**
 * Ends the process once all of its output is written: data may still be on its way into a pipe. What lingers, connections and timers,
 * does not keep it alive.
 */
export function endAfterOutput(code: number): void {
  process.stdout.write('', (error) => {
    // The error of an earlier write comes here before it is emitted.
    const failure = process.stdout.errored ?? error;
    return failure ? endWithoutOutput(failure, code) : process.exit(code);
  });
}

/** Ends the process when what was to be printed cannot be, or not all of it. */
export function endWithoutOutput(error: NodeJS.ErrnoException, code = 0): never {
  // `millrace tail | head -3`: a reader that has seen enough is no failure.
  if (error.code === 'EPIPE') process.exit(code);
  return stop(exitFailed, `The output is not whole: ${error.message}`);
}

interface Program {
  readonly name: 'producer' | 'worker';
  readonly log: Log;
  /** After this, in milliseconds, the process ends whatever still hangs. */
  readonly forceExitMs: number;
  readonly facts?: Readonly<Record<string, unknown>>;
  readonly close: () => Promise<void>;
}

/** Ends the process in order: on a signal, once the parent is gone, and when the answer is called. Asked twice, at once. */
export function drainOnSignals({ name, log, forceExitMs, facts, close }: Program): (why: string) => void {
  let isDraining = false;
  const drain = (why: string) => {
    if (isDraining) process.exit(1);
    isDraining = true;
    log.info({ why, ...facts }, `${name} is draining`);
    setTimeout(() => process.exit(1), forceExitMs).unref();
    close().then(
      () => process.exit(0),
      (error: unknown) => {
        log.error({ err: error }, `${name} did not stop cleanly`);
        process.exit(1);
      },
    );
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => drain(signal));
  // Started with an IPC channel: a parent that is gone without a word must not leave this process behind, also not one
  // that went while it was starting.
  process.on('disconnect', () => drain('parent is gone'));
  if (process.send && !process.connected) drain('parent is gone');
  process.on('unhandledRejection', (error) => log.error({ err: error }, 'unhandled rejection'));
  return drain;
}
