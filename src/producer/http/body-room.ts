import { orLate } from '../../shared/base/deadline.ts';
import { RunError } from '../../shared/base/errors.ts';

/** What every request may keep without asking: a full room never delays a small body. */
const freeBytes = 64 * 1024;
const retryAfterS = 5;

export interface BodyRoomOptions {
  readonly limitBytes?: number;
  /** Longest wait of a request for room, in milliseconds. */
  readonly maxWaitMs?: number;
}

/**
 * Bounds the bytes of request bodies that this process keeps, over all requests. When the room is full, one request may go on
 * beyond it, so that large bodies never wait for each other without end; the others stop reading until there is room.
 * At most `limitBytes` and one largest body are kept.
 */
export class BodyRoom {
  readonly #limitBytes: number;
  readonly #maxWaitMs: number;
  readonly #waiters = new Set<() => void>();
  #usedBytes = 0;
  #beyond: BodyShare | undefined;

  constructor({ limitBytes = 32 * 1024 * 1024, maxWaitMs = 60_000 }: BodyRoomOptions = {}) {
    this.#limitBytes = limitBytes;
    this.#maxWaitMs = maxWaitMs;
  }

  /** The share of one request. Dispose it when the body is no longer kept. */
  open(): BodyShare {
    return new BodyShare(this);
  }

  /** Answers how many of the bytes count: none of those that a request takes beyond the limit. */
  async take(share: BodyShare, bytes: number, signal: AbortSignal | undefined): Promise<number> {
    const deadlineMs = performance.now() + this.#maxWaitMs;
    for (;;) {
      if (this.#usedBytes + bytes <= this.#limitBytes) {
        this.#usedBytes += bytes;
        return bytes;
      }
      this.#beyond ??= share;
      if (this.#beyond === share) return 0;
      await this.#change(deadlineMs - performance.now(), signal);
    }
  }

  release(share: BodyShare, bytes: number): void {
    this.#usedBytes -= bytes;
    if (this.#beyond === share) this.#beyond = undefined;
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const wake of waiters) wake();
  }

  async #change(waitMs: number, signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const abandon = () => {
      const message = 'this producer is busy with other large requests; try again';
      throw new RunError('overloaded', message, { details: { retryAfterS } });
    };
    this.#waiters.add(resolve);
    try {
      await orLate(Math.max(0, waitMs), promise, abandon, { signal });
    } finally {
      this.#waiters.delete(resolve);
    }
  }
}

/** The bytes of one request. */
export class BodyShare implements Disposable {
  readonly #room: BodyRoom;
  #bytes = 0;
  #countedBytes = 0;
  #isReleased = false;

  constructor(room: BodyRoom) {
    this.#room = room;
  }

  /** Resolves when there is room for more. Throws `overloaded` after `maxWaitMs`, and the signal's reason. */
  async take(bytes: number, signal?: AbortSignal): Promise<void> {
    const paidBytes = Math.max(0, Math.min(bytes, this.#bytes + bytes - freeBytes));
    this.#bytes += bytes;
    if (paidBytes === 0) return;
    const countedBytes = await this.#room.take(this, paidBytes, signal);
    if (!this.#isReleased) return void (this.#countedBytes += countedBytes);
    // Its client went away while it waited: nothing else would release these bytes.
    this.#room.release(this, countedBytes);
    throw new RunError('invalid_json', 'the client broke off before the body was complete');
  }

  [Symbol.dispose](): void {
    this.#isReleased = true;
    this.#room.release(this, this.#countedBytes);
    this.#countedBytes = 0;
  }
}
