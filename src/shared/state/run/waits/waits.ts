import type { Resumed } from '../children/children-port.ts';

/** What ends the wait of a suspended run. */
export interface Resumption {
  /** In words, for `run.resumed`. */
  readonly summary: string;
  /** A person's decision, for the entry `decided` that every resumption adds to the journal. */
  readonly budget?: 'approve' | 'reject' | undefined;
  readonly by?: string | undefined;
}

/** Times at which something is to happen to runs: one for each run. */
export interface Timers {
  /** In milliseconds since the epoch. Replaces an earlier one. */
  at(runId: string, dueMs: number): Promise<void>;
  /** Forgets that time. */
  clear(runId: string): Promise<void>;
  /**
   * Runs whose time has come, at most `limit`, each given to one caller only. One whose time is neither changed nor cleared is
   * due again a little later, because that caller may die.
   */
  due(limit: number): Promise<readonly string[]>;
}

/** Runs that wait without a worker for a time to come, at which they are woken, and the end of such waits. */
export interface Waits extends Timers {
  /**
   * Ends the wait of a suspended run: queued at its next segment, with `run.resumed` in its log and `decided` in its journal,
   * which holds every decision about its calls that came since the last one. Answers where its new job belongs, or
   * undefined when it is not suspended: somebody else was faster, or it has ended.
   */
  resume(runId: string, resumption: Resumption): Promise<Resumed | undefined>;
  /** Are there decisions about calls of this run that its journal does not have yet? They came while it was at work. */
  hasDecisions(runId: string): Promise<boolean>;
}
