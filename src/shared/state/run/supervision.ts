import type { RunError } from '../../base/errors.ts';
import type { AgentView } from '../../contract/agent/agent.ts';
import type { PendingItem } from '../../contract/event.ts';
import type { JobKind, RunStatus } from '../../contract/run.ts';

/** What the reconciler needs to know about a run that has not ended. */
export interface OpenRunInfo {
  readonly runId: string;
  /** There is a record that cannot be read, or the node that would have it cannot be asked. */
  readonly unread?: 'illegible' | RunError;
  /** Absent when there is no record: it expired, or its creation never finished. */
  readonly run?: {
    readonly status: RunStatus;
    readonly kind: JobKind;
    readonly queue: string;
    readonly segment: number;
    readonly putBacks: number;
    readonly tenant: string;
    readonly agentId: string;
    readonly thread?: string;
    /** What a suspended run waits for. */
    readonly pending: readonly PendingItem[];
    /** It is suspended although something came that its journal does not have, or a run that it waits for never began. */
    readonly mayGoOn: boolean;
  };
  /** Lifecycle events of it could not be told yet. */
  readonly untold: boolean;
  /** The time under which it was found. */
  readonly dueAt: string;
  /** Milliseconds since the record last changed, or since the entry was made when there is no record. */
  readonly ageMs: number;
}

/** One live worker process, as it announces itself. */
export interface WorkerInfo {
  readonly name: string;
  readonly queues: readonly string[];
  readonly concurrency: number;
  readonly active: number;
  readonly startedAt: string;
  readonly version: string;
}

/** The fleet's view of its runs and of itself; what the reconciler and the heartbeat use. */
export interface Supervision {
  /** Open runs whose time to be looked at has come, soonest first. Tells lifecycle events that they have left. */
  dueRuns(limit: number): Promise<readonly OpenRunInfo[]>;
  /** When these are looked at again, unless something has happened to them since. */
  lookAgain(
    runs: readonly { readonly runId: string; readonly dueAt: string; readonly nextMs: number }[],
  ): Promise<void>;
  /** How many runs are looked at within this time. */
  dueWithin(ms: number): Promise<number>;
  /** Makes sure that a page of the open runs, after an offset, is looked at. Answers the next offset; 0: begin again. */
  relist(offset: number, limit: number): Promise<number>;
  /** The same for threads that runs hold. */
  relistThreads(offset: number, limit: number): Promise<number>;
  /** How many of those are due by then. */
  threadsDueWithin(ms: number): Promise<number>;
  /**
   * Gives a run a new segment in a queue, so that a new job can be made for it. Answers the segment, or undefined when
   * the run has ended or is no longer at `fromSegment`: then somebody else was faster.
   */
  requeue(runId: string, fromSegment: number, queue: string): Promise<number | undefined>;
  /** Removes a run from the set of open runs. */
  forget(runId: string): Promise<void>;
  /** Adds to a counter that `doctor` shows. */
  count(counter: 'put_back' | 'given_up' | 'quarantined' | 'effects_failed', by: number): Promise<void>;
  /** Announces this worker; entries that were not renewed for 15 s count as gone. */
  heartbeat(worker: WorkerInfo): Promise<void>;
  /** Says that this process lives, for so many milliseconds by the clock of the store. */
  pulse(name: string, forMs: number): Promise<void>;
  /** Says which run this worker watches, or that it watches none. */
  watching(name: string, runId: string | undefined): Promise<void>;
  /** Did this run lose that worker by no doing of its own: it lives, or it died while it watched another run? */
  isExcused(name: string, runId: string): Promise<boolean>;
  farewell(name: string): Promise<void>;
  liveWorkers(): Promise<readonly WorkerInfo[]>;
  /** Publishes the public part of the loaded agents for producers. */
  announceAgents(agents: readonly AgentView[]): Promise<void>;
  /** Forgets agents that nobody has announced for seven days, and answers the queues of which that is true. */
  unannounced(): Promise<readonly string[]>;
  forgetQueue(queue: string): Promise<void>;
}
