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
export class OnDemandQuarantine implements Disposable {
  readonly #entry: string;
  readonly #env: Readonly<Record<string, string | undefined>>;
  readonly #log: Log;
  readonly #workers = new Set<ChildProcess>();
  #stopping = false;

  constructor(entry: string, env: Readonly<Record<string, string | undefined>>, log: Log) {
    this.#entry = entry;
    this.#env = env;
    this.#log = log;
  }

  /** Makes sure that there are enough processes for so many waiting runs. */
  serve(waiting: number): void {
    const missing = Math.min(waiting, maxWorkers) - this.#workers.size;
    if (missing <= 0 || this.#stopping) return;
    this.#log.warn(
      { waiting, processes: missing },
      'runs wait in quarantine and no worker serves it: starting on-demand workers',
    );
    for (let i = 0; i < missing; i++) this.#start();
  }

  /** Stops the processes; they hand over their runs. */
  [Symbol.dispose](): void {
    this.#stopping = true;
    for (const child of this.#workers) child.kill('SIGTERM');
  }

  #start(): void {
    const child = fork(this.#entry, [untilIdleArgument], {
      env: { ...this.#env, WORKER_QUEUES: quarantineQueue, WORKER_CONCURRENCY: '1', WORKER_PORT: '0' },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    let ready = false;
    child.once('message', () => (ready = true));
    child.once('error', (err) => this.#log.error({ err }, 'an on-demand quarantine worker could not be started'));
    child.once('exit', (code, signal) => {
      this.#workers.delete(child);
      // A process that could not start would not start the next time either.
      if (!ready || code === 0 || this.#stopping) return;
      this.#log.warn({ exitCode: code, signal }, 'an on-demand quarantine worker was lost');
      this.#start();
    });
    this.#workers.add(child);
  }
}
