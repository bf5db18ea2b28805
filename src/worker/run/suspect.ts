import { orLate } from '../../shared/base/deadline.ts';
import type { Activity, RunRecord } from '../../shared/contract/run.ts';
import type { SuspectWork } from '../turn/turn-ports.ts';
import type { RunSignals } from './signals.ts';
import type { RunWriter } from './writer.ts';

/**
 * After so many lost workers in a row a run is a suspect in its model calls, too. Not before: most runs are in one when their
 * worker crashes.
 */
const suspectAfter = 2;

/** How a worker deals with runs that may have killed another worker. */
export interface Suspects {
  /** Lets them work one after the other. */
  readonly watch: Watch;
  /** Is this run not to blame for the loss of this worker? */
  readonly isExcused: (worker: string, runId: string) => Promise<boolean>;
}

/**
 * Watches the work of a run that may have killed its last worker, and notes that in the record. Undefined for all other
 * runs, and where a run has its process to itself.
 */
export function suspectWork(
  run: { readonly record: RunRecord; readonly writer: RunWriter; readonly signals: RunSignals },
  suspects: Suspects | undefined,
): SuspectWork | undefined {
  const { crashes, blame = 0, excuses = 0, activity } = run.record;
  if (!suspects || activity === 'watched') return undefined;
  const { watch } = suspects;
  // One that was excused for its calls may have been the cause all the same: where workers are lost for other causes as well, each
  // of them watches a suspect, and a run that kills could hide behind one after the other.
  const calls = blame > 0 || excuses > 0;
  // Until one has ended: then it was not that.
  let model = crashes >= suspectAfter;
  if (!calls && !model) return undefined;
  const note = async (now: Activity) => await run.writer.commit({ patch: { activity: now } });

  /** Work that takes longer than `watchMs` goes on beside the other runs. */
  const watched = async <T>(slot: WatchSlot, unwatched: Activity, work: () => Promise<T>): Promise<T> => {
    let ended = false;
    const endWatch = async (next: Activity) => {
      if (ended) return;
      ended = true;
      // The record first: the next suspect must not be watched beside it. Where it cannot be written the run has another owner.
      await note(next).catch(() => {});
      await watch.announce(undefined).catch(() => {});
      slot.release();
    };
    try {
      // Before the record: the other runs of this process must not be blamed beside it.
      await watch.announce(run.record.runId);
      await note('watched');
      const timer = setTimeout(() => void endWatch(unwatched), watch.watchMs);
      try {
        return await work();
      } finally {
        clearTimeout(timer);
      }
    } finally {
      if (ended) await note('idle').catch(() => {});
      else await endWatch('idle');
    }
  };

  return {
    calls,
    async run(kind, work) {
      if (kind === 'calls' ? !calls : !model) return await work();
      const unwatched: Activity = kind === 'calls' ? 'calls' : 'idle';
      let slot = watch.tryEnter();
      if (!slot) {
        await note('waiting');
        slot = await watch.enter(2 * blame + crashes, run.signals.signal);
      }
      if (!slot) {
        await note(unwatched);
        return await work();
      }
      const done = await watched(slot, unwatched, work);
      if (kind === 'model') model = false;
      return done;
    },
  };
}

/** The exclusive right to be the one watched suspect of this process. */
interface WatchSlot {
  release(): void;
}

interface Waiter {
  readonly suspicion: number;
  readonly enter: (slot: WatchSlot) => void;
}

/**
 * Lets the suspects of this process work one after the other, each for a short time without the others: if the process
 * dies then, it is known which of them did it. The most suspected works first, so that the others lose little.
 */
export class Watch {
  /** How long one is watched. What has not killed the process by then continues beside the next. */
  readonly watchMs: number;
  readonly announce: (runId: string | undefined) => Promise<void>;
  readonly #waiting = new Set<Waiter>();
  #taken = false;

  /** `announce` takes the run that this process watches now, undefined for none. */
  constructor(watchMs: number, announce: (runId: string | undefined) => Promise<void>) {
    this.watchMs = watchMs;
    this.announce = announce;
  }

  /** The slot, when it is free. */
  tryEnter(): WatchSlot | undefined {
    if (this.#taken) return undefined;
    this.#taken = true;
    return this.#slot();
  }

  /** Waits for the slot. Undefined when `signal` aborts, or after `20 * watchMs`: then the run works unwatched. */
  async enter(suspicion: number, signal: AbortSignal): Promise<WatchSlot | undefined> {
    const free = this.tryEnter();
    if (free) return free;
    const { promise, resolve } = Promise.withResolvers<WatchSlot | undefined>();
    const waiter: Waiter = { suspicion, enter: resolve };
    this.#waiting.add(waiter);
    // The slot all the same if it came before that: it must not go to a waiter that has left.
    const abandon = () => {
      this.#waiting.delete(waiter);
      resolve(undefined);
      return promise;
    };
    return await orLate(20 * this.watchMs, promise, abandon, { signal }).catch(abandon);
  }

  #slot(): WatchSlot {
    let isReleased = false;
    return {
      release: () => {
        if (isReleased) return;
        isReleased = true;
        this.#releaseToNext();
      },
    };
  }

  #releaseToNext(): void {
    const [next] = [...this.#waiting].toSorted((a, b) => b.suspicion - a.suspicion);
    this.#taken = next !== undefined;
    if (!next) return;
    this.#waiting.delete(next);
    next.enter(this.#slot());
  }
}
