import { fork, type ChildProcess } from 'node:child_process';
import type { Log } from '../../shared/log.ts';
import { quarantineQueue } from '../../shared/queues.ts';

/** How long lent children stay without being asked for again. */
const idleMs = 60_000;
/** A node that is lost again and again sends many innocent runs here; one process alone would keep them for minutes. */
const maxChildren = 4;

/**
 * Lends the quarantine processes of its own when no worker of the fleet serves it, each for one run at a time. Whatever
 * a poisonous run does to its process then happens to that child, and no neighbour is harmed. A deployment of its own
 * (WORKER_QUEUES=quarantine) makes this unnecessary.
 */
export class QuarantineChildren implements Disposable {
  readonly #entry: string;
  readonly #env: Readonly<Record<string, string | undefined>>;
  readonly #log: Log;
  readonly #children = new Set<ChildProcess>();
  #idle: NodeJS.Timeout | undefined;

  constructor(entry: string, env: Readonly<Record<string, string | undefined>>, log: Log) {
    this.#entry = entry;
    this.#env = env;
    this.#log = log;
  }

  /** Makes sure that enough children for so many waiting runs are there for a while. */
  lend(waiting: number): void {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this[Symbol.dispose](), idleMs).unref();
    const missing = Math.min(waiting, maxChildren) - this.#children.size;
    if (missing <= 0) return;
    this.#log.warn(
      { waiting, processes: missing },
      'runs wait in quarantine and no worker serves it: lending it processes',
    );
    for (let i = 0; i < missing; i++) this.#start();
  }

  /** Asks the children to leave; they hand over what they work on. */
  [Symbol.dispose](): void {
    clearTimeout(this.#idle);
    for (const child of this.#children) child.kill('SIGTERM');
  }

  #start(): void {
    const child = fork(this.#entry, [], {
      env: { ...this.#env, WORKER_QUEUES: quarantineQueue, WORKER_CONCURRENCY: '1', WORKER_PORT: '0' },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    child.once('error', (err) => this.#log.error({ err }, 'no process could be lent to the quarantine'));
    child.once('exit', () => this.#children.delete(child));
    this.#children.add(child);
  }
}
