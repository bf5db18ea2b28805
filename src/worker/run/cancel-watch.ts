import type { CancelRequest } from '../../shared/contract/control.ts';
import type { Ports } from './ports.ts';

/** How often the durable flags are read, for the case that the channel is silent or its connection is down. */
const pollMs = 1_000;

/**
 * Notifies the runs of this process of cancel requests: at once over the control channel, within a second by reading the
 * flags, which costs one small read per process however many runs it has.
 */
export class CancelWatch implements Disposable {
  readonly #listeners = new Map<string, (cancel: CancelRequest) => void>();
  readonly #ports: Pick<Ports, 'runs' | 'control' | 'log'>;
  readonly #subscription: Disposable;
  readonly #timer: NodeJS.Timeout;
  #polling = false;

  constructor(ports: Pick<Ports, 'runs' | 'control' | 'log'>) {
    this.#ports = ports;
    this.#subscription = ports.control.onCancel((runId, cancel) => this.#listeners.get(runId)?.(cancel));
    this.#timer = setInterval(() => void this.#poll(), pollMs);
    this.#timer.unref();
  }

  /** Calls back for every cancel of this run, possibly more than once. One watcher per run. */
  watch(runId: string, listener: (cancel: CancelRequest) => void): Disposable {
    this.#listeners.set(runId, listener);
    return {
      [Symbol.dispose]: () => {
        if (this.#listeners.get(runId) === listener) this.#listeners.delete(runId);
      },
    };
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#subscription[Symbol.dispose]();
  }

  async #poll(): Promise<void> {
    if (this.#polling || this.#listeners.size === 0) return;
    this.#polling = true;
    try {
      for (const [runId, cancel] of await this.#ports.runs.pendingCancels()) this.#listeners.get(runId)?.(cancel);
    } catch (error) {
      this.#ports.log.debug({ err: error }, 'cancel flags could not be read');
    } finally {
      this.#polling = false;
    }
  }
}
