import { fork, type ChildProcess } from 'node:child_process';
import type { Log } from '../../shared/base/log.ts';
import { quarantineQueue } from '../../shared/contract/queues.ts';

/** Starts an entry file as a worker that exits once it has been idle for a while. */
export const untilIdleArgument = 'until-idle';

/** A machine that is lost again and again may send several runs here; one process alone would take minutes for them. */
const maxWorkers = 4;

/**
 * Starts on-demand quarantine workers when no worker of the fleet serves that queue, each for one run at a time: a poisonous
 * run kills only its own process. Such a process exits when it is idle; one that was killed is replaced at once, because its
 * run is delivered again. They exit with this process: then another worker starts new ones within seconds. A deployment of
 * its own (WORKER_QUEUES=quarantine) makes this unnecessary.
 */
export function onDemandQuarantine(entry: string, env: Readonly<Record<string, string | undefined>>, log: Log) {
  const workers = new Set<ChildProcess>();
  let isStopping = false;

  function start(): void {
    const child = fork(entry, [untilIdleArgument], {
      env: { ...env, WORKER_QUEUES: quarantineQueue, WORKER_CONCURRENCY: '1', WORKER_PORT: '0' },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    let ready = false;
    child.once('message', () => (ready = true));
    child.once('error', (err) => log.error({ err }, 'an on-demand quarantine worker could not be started'));
    child.once('exit', (code, signal) => {
      workers.delete(child);
      // A process that could not start would not start the next time either.
      if (!ready || code === 0 || isStopping) return;
      log.warn({ exitCode: code, signal }, 'an on-demand quarantine worker was lost');
      start();
    });
    workers.add(child);
  }

  return {
    /** Makes sure that there are enough processes for so many waiting runs. */
    serve(waiting: number): void {
      const missing = Math.min(waiting, maxWorkers) - workers.size;
      if (missing <= 0 || isStopping) return;
      const message = 'runs wait in quarantine and no worker serves it: starting on-demand workers';
      log.warn({ waiting, processes: missing }, message);
      for (let i = 0; i < missing; i++) start();
    },
    /** Stops the processes; they hand over their runs. */
    [Symbol.dispose](): void {
      isStopping = true;
      for (const child of workers) child.kill('SIGTERM');
    },
  };
}
