import { fork, type ChildProcess } from 'node:child_process';
import type { Log } from '../../shared/log.ts';
import { quarantineQueue } from '../../shared/redis.ts';

/** How long a lent child stays without being asked for again. */
const idleMs = 60_000;

/**
 * Lends the quarantine a process of its own when no worker of the fleet serves it. Whatever a poisonous run does to its
 * process then happens to that child, and no neighbour is harmed. A deployment of its own (WORKER_QUEUES=quarantine)
 * makes this unnecessary.
 */
export class QuarantineChild implements Disposable {
  readonly #entry: string;
  readonly #env: Readonly<Record<string, string | undefined>>;
  readonly #log: Log;
  #child: ChildProcess | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(entry: string, env: Readonly<Record<string, string | undefined>>, log: Log) {
    this.#entry = entry;
    this.#env = env;
    this.#log = log;
  }

  /** Makes sure that the child runs for a while. */
  lend(): void {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this[Symbol.dispose](), idleMs).unref();
    if (this.#child) return;
    this.#log.warn('runs wait in quarantine and no worker serves it: lending it a process');
    const child = fork(this.#entry, [], {
      env: { ...this.#env, WORKER_QUEUES: quarantineQueue, WORKER_CONCURRENCY: '1', WORKER_PORT: '0' },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    child.once('exit', () => {
      this.#child = undefined;
    });
    this.#child = child;
  }

  /** Asks the child to leave; it hands over what it works on. */
  [Symbol.dispose](): void {
    clearTimeout(this.#idle);
    this.#child?.kill('SIGTERM');
  }
}
