import { fork, type ChildProcess } from 'node:child_process';
import type { Log } from '../../shared/base/log.ts';
import { quarantineQueue } from '../../shared/contract/queues.ts';

/** Makes an entry file a worker that leaves once it has had nothing to do for a while. */
export const untilIdleArgument = 'until-idle';

/** A node that is lost again and again may send several runs here; one process alone would keep them for minutes. */
const maxChildren = 4;

/**
 * Lends the quarantine processes of its own when no worker of the fleet serves it, each for one run at a time. Whatever
 * a poisonous run does to its process then happens to that child, and no neighbour is harmed. A child leaves by itself when
 * it is idle; one that was killed is replaced at once, because its run comes back. They leave when this process does: then
 * another worker lends new ones within seconds. A deployment of its own (WORKER_QUEUES=quarantine) makes this unnecessary.
 */
export class OnDemandQuarantine implements Disposable {
  readonly #entry: string;
  readonly #env: Readonly<Record<string, string | undefined>>;
  readonly #log: Log;
  readonly #children = new Set<ChildProcess>();
  #leaving = false;

  constructor(entry: string, env: Readonly<Record<string, string | undefined>>, log: Log) {
    this.#entry = entry;
    this.#env = env;
    this.#log = log;
  }

  /** Makes sure that enough children for so many waiting runs are there. */
  lend(waiting: number): void {
    const missing = Math.min(waiting, maxChildren) - this.#children.size;
    if (missing <= 0 || this.#leaving) return;
    this.#log.warn(
      { waiting, processes: missing },
      'runs wait in quarantine and no worker serves it: lending it processes',
    );
    for (let i = 0; i < missing; i++) this.#start();
  }

  /** Asks the children to leave; they hand over what they work on. */
  [Symbol.dispose](): void {
    this.#leaving = true;
    for (const child of this.#children) child.kill('SIGTERM');
  }

  #start(): void {
    const child = fork(this.#entry, [untilIdleArgument], {
      env: { ...this.#env, WORKER_QUEUES: quarantineQueue, WORKER_CONCURRENCY: '1', WORKER_PORT: '0' },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    let ready = false;
    child.once('message', () => (ready = true));
    child.once('error', (err) => this.#log.error({ err }, 'no process could be lent to the quarantine'));
    child.once('exit', (code, signal) => {
      this.#children.delete(child);
      // One that cannot start would not start the next time either.
      if (!ready || code === 0 || this.#leaving) return;
      this.#log.warn({ exitCode: code, signal }, 'a process lent to the quarantine was lost');
      this.#start();
    });
    this.#children.add(child);
  }
}
