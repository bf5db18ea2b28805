import { RunError } from '../../shared/base/errors.ts';

interface Lease {
  renewedAt: number;
  readonly controller: AbortController;
}

/**
 * Watches the leases of the jobs of this process. BullMQ does not stop a processor whose lock it could not renew, and emits
 * nothing while the network drops packets. So a lease that was not renewed for most of its duration aborts the run here,
 * before another worker may claim it.
 */
export class Leases implements Disposable {
  readonly #leases = new Map<string, Lease>();
  readonly #expireAfterMs: number;
  readonly #timer: NodeJS.Timeout;

  constructor(lockDurationMs: number) {
    this.#expireAfterMs = lockDurationMs * 0.8;
    this.#timer = setInterval(() => this.#expire(), Math.max(50, lockDurationMs / 60));
  }

  /** Begins a lease that aborts `controller` when it is lost. End it when the processor call ends. */
  begin(jobId: string, controller: AbortController): { end(): void } {
    const lease = { renewedAt: performance.now(), controller };
    this.#leases.set(jobId, lease);
    return {
      // A later delivery of the same job may have its own lease by now.
      end: () => void (this.#leases.get(jobId) === lease && this.#leases.delete(jobId)),
    };
  }

  renewed(jobIds: readonly string[]): void {
    const now = performance.now();
    for (const id of jobIds) {
      const lease = this.#leases.get(id);
      if (lease) lease.renewedAt = now;
    }
  }

  /** The lock is lost for certain. */
  lost(jobId: string): void {
    this.#leases.get(jobId)?.controller.abort(new RunError('lock_lost', 'the lock of the job could not be renewed'));
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #expire(): void {
    const oldest = performance.now() - this.#expireAfterMs;
    for (const [id, lease] of this.#leases) if (lease.renewedAt < oldest) this.lost(id);
  }
}
