import { isDelta } from '../../contract/event.ts';

/** An event as a run's log has it. */
export interface LoggedEvent {
  readonly type: string;
  readonly text: string;
}

/** The end of an ended run's log, as this process wrote it. */
export interface LogTail {
  readonly endedAt: string;
  /** The number of its first event. */
  readonly from: number;
  /** Of deltas that follow each other, only the first. */
  readonly events: readonly LoggedEvent[];
}

interface Written {
  readonly from: number;
  /** The number of its last event. */
  to: number;
  readonly events: LoggedEvent[];
  chars: number;
  /** Set once this process has written the end of the run. `sinceMs`: of a clock that never runs backwards. */
  ended?: { readonly at: string; readonly sinceMs: number };
}

export interface TailBounds {
  readonly maxRuns: number;
  /** Of all runs together, and of one. */
  readonly maxChars: number;
  readonly maxRunChars: number;
}

/** Long after its turn: another process has taken an ended run by then. */
const keptMs = 30_000;

const usual: TailBounds = { maxRuns: 2_000, maxChars: 16_000_000, maxRunChars: 250_000 };

/**
 * What this process wrote to the logs of runs: to read it again from Redis costs more than all else that the archive does. It is no more
 * than a shortcut: what is not in here is read.
 */
export class LogTails {
  readonly #bounds: TailBounds;
  /** The run that was written to longest ago comes first. */
  readonly #runs = new Map<string, Written>();
  #chars = 0;

  constructor(bounds: TailBounds = usual) {
    this.#bounds = bounds;
  }

  /** These events are in the log of a run, after the number `seq`. */
  add(runId: string, seq: number, events: readonly LoggedEvent[]): void {
    if (events.length === 0) return;
    const found = this.#runs.get(runId);
    this.#remove(runId);
    // Another process has written in between.
    const follows = found?.to === seq && found.ended === undefined;
    const run: Written = follows ? found : { from: seq + 1, to: seq, events: [], chars: 0 };
    for (const event of events) {
      run.to += 1;
      if (isDelta(event.type) && isDelta(run.events.at(-1)?.type ?? '')) continue;
      run.events.push(event);
      run.chars += event.text.length;
    }
    if (run.chars > this.#bounds.maxRunChars) return;
    this.#runs.set(runId, run);
    this.#chars += run.chars;
    this.#makeRoom();
  }

  /** This process has written the end of the run. */
  end(runId: string, endedAt: string): void {
    const run = this.#runs.get(runId);
    if (run) run.ended = { at: endedAt, sinceMs: performance.now() };
  }

  /** Undefined: this process has not ended the run, or does not know any more what it wrote. */
  ended(runId: string): LogTail | undefined {
    const run = this.#runs.get(runId);
    return run?.ended && { endedAt: run.ended.at, from: run.from, events: run.events };
  }

  /**
   * Runs that this process has ended, at most so many, first those to which it wrote longest ago; without those of which another process
   * has taken care by now.
   */
  endedRuns(limit: number): readonly string[] {
    const now = performance.now();
    const found: string[] = [];
    for (const [runId, { ended }] of this.#runs) {
      if (found.length === limit) break;
      if (ended && now - ended.sinceMs <= keptMs) found.push(runId);
      else if (ended) this.#remove(runId);
    }
    return found;
  }

  /** These are in the archive, or are another process's. */
  forget(runIds: readonly string[]): void {
    for (const runId of runIds) this.#remove(runId);
  }

  #remove(runId: string): void {
    this.#chars -= this.#runs.get(runId)?.chars ?? 0;
    this.#runs.delete(runId);
  }

  #makeRoom(): void {
    for (const runId of this.#runs.keys()) {
      if (this.#runs.size <= this.#bounds.maxRuns && this.#chars <= this.#bounds.maxChars) return;
      this.#remove(runId);
    }
  }
}
