import { ArgumentChecks } from '../../../shared/base/argument-checks.ts';
import { systemClock, type Clock } from '../../../shared/base/clock.ts';
import type { CancelRequest, DecisionInput, SteeringMessage } from '../../../shared/contract/control.ts';
import type { RunEvent } from '../../../shared/contract/event.ts';
import { checkUpdatedArgs } from '../../../shared/contract/updated-args.ts';
import { deadlineOf } from '../../../shared/contract/deadline.ts';
import { silentLog, type Log } from '../../../shared/base/log.ts';
import { Redactor } from '../../../shared/base/redact.ts';
import type { RunRecord } from '../../../shared/contract/run.ts';
import type { Observer, Ports } from '../../run/ports.ts';
import type { ProgressNotes } from '../../../shared/state/results/progress-notes.ts';
import type { Artifacts } from '../../../shared/state/results/artifacts.ts';
import { createListeners } from '../../../shared/state/run/control/control-channel.ts';
import type { ToolPins } from '../../../shared/state/pins/tool-pins.ts';
import { noFiles } from '../../../shared/state/inputs/uploaded-files.ts';
import { inMemoryToolPins } from './in-memory-pins.ts';
import { inMemoryArtifacts, inMemoryMedia, type InMemoryMedia, inMemoryProgress } from './in-memory-results.ts';
import { childrenOf } from '../../../shared/state/run/children/children.ts';
import { inMemoryChildren, inMemoryTimers, inMemoryWaits, type InMemoryTimers } from './in-memory-waits.ts';
import { InMemoryLedger, inMemoryRateLimiter, noBreakers } from './in-memory-admission.ts';
import { inMemoryThreads } from './in-memory-threads.ts';
import { checkedDecision, decideOf, firstDue, hasResumed } from './in-memory-decisions.ts';
import type { SavedRun } from './in-memory-row.ts';
import { InMemoryRuns, type EventsListener } from './in-memory-runs.ts';
import { maxInbox, type Inbox } from '../../../shared/state/run/control/inbox.ts';

export interface InMemoryOptions {
  readonly clock?: Clock;
  readonly log?: Log;
  readonly redactor?: Redactor;
  readonly observe?: Observer;
}

/** Everything the run room asks of the outside, in memory, and what a producer does elsewhere. */
export interface InMemoryPorts extends Ports {
  readonly artifacts: Artifacts;
  readonly progress: ProgressNotes;
  readonly pins: ToolPins;
  readonly media: InMemoryMedia;
  readonly inbox: InMemoryInbox;
  readonly waits: Ports['waits'] & InMemoryTimers;
  readonly deadlines: InMemoryTimers;
  /** Adds a run and its `run.queued`. A run id that is there already changes nothing. */
  create(record: RunRecord): void;
  /** Asks for the end of a run and wakes its worker. False when there is no such run or it has ended. */
  cancel(runId: string, cancel: CancelRequest): boolean;
  /**
   * Decides about what a suspended run waits for, as `Millrace.decide` does; top-ups are for budgets in Redis. Answers false
   * when the run does not go on yet: more people have to agree, or it works on what was decided before. Throws
   * `approval_not_pending`, `approval_expired`, `already_terminal`, `run_not_found`, `secret_in_payload`, `validation`.
   */
  decide(runId: string, decision: DecisionInput, by?: string): boolean;
  /** What a run needs to go on in another process; undefined when there is no such run. */
  save(runId: string): SavedRun | undefined;
  /** Adds a run that was saved, replacing one of the same id. A run that waits for a time is woken at that time. */
  restore(saved: SavedRun): Promise<void>;
  /** The event log of a run as it is now: its newest 10,000 events, gone with the run. */
  events(runId: string): readonly RunEvent[];
  /** Calls back with the events of every run as they are added, until disposed. */
  onEvents(listener: EventsListener): Disposable;
}

const maxArtifactBytes = 16 * 1024 ** 2;

/**
 * The ports of one process, without Redis. Runs, waits, threads and children pass the same contract suites as in Redis;
 * money and limits are what one process can count. The newest 1,000 runs that have ended are kept.
 */
export function createInMemoryPorts(options: InMemoryOptions = {}): InMemoryPorts {
  const { clock = systemClock, log = silentLog, redactor = new Redactor(), observe = () => {} } = options;
  const eventListeners = createListeners<Parameters<EventsListener>>(log);
  const cancelListeners = createListeners<[runId: string, cancel: CancelRequest]>(log);
  const runs = new InMemoryRuns(clock, (runId, events) => eventListeners.call(runId, events));
  const waits = inMemoryWaits(runs, clock);
  const deadlines = inMemoryTimers(clock);
  const children = inMemoryChildren(runs, clock, (runId, cancel) => cancelListeners.call(runId, cancel));
  const argumentChecks = new ArgumentChecks();
  const keepDeadline = (record: RunRecord) => {
    const atMs = deadlineOf(record);
    if (atMs !== undefined) void deadlines.at(record.runId, atMs);
  };
  return {
    runs,
    waits,
    deadlines,
    children,
    threads: inMemoryThreads(clock),
    inbox: inMemoryInbox(),
    media: inMemoryMedia(),
    files: noFiles,
    artifacts: inMemoryArtifacts({ maxBytes: maxArtifactBytes, maxRunBytes: 4 * maxArtifactBytes }, clock),
    progress: inMemoryProgress(clock),
    pins: inMemoryToolPins(clock),
    ledger: new InMemoryLedger(log),
    rateLimiter: inMemoryRateLimiter(clock),
    breakers: noBreakers,
    control: { onCancel: (listener) => cancelListeners.add(listener) },
    clock,
    log,
    redactor,
    observe,
    create(record) {
      runs.create(record);
      keepDeadline(record);
    },
    cancel(runId, cancel) {
      const asked = runs.cancel(runId, cancel);
      if (asked) {
        cancelListeners.call(runId, cancel);
        const pending = runs.record(runId)?.pending ?? [];
        void children.stop(childrenOf({ pending }), cancel);
      }
      return asked;
    },
    decide(runId, decision, by) {
      const request = checkedDecision(decision);
      checkUpdatedArgs(runId, request, runs.record(runId)?.pending ?? [], argumentChecks);
      const outcome = runs.decide(runId, decideOf(request, by, clock.now()));
      if (outcome.kind === 'resumed') void waits.clear(runId);
      return hasResumed(runId, outcome);
    },
    save: (runId) => runs.save(runId),
    async restore(saved) {
      runs.restore(saved);
      keepDeadline(saved.record);
      const dueMs = firstDue(saved, clock.now());
      if (dueMs !== undefined) await waits.at(saved.record.runId, dueMs);
    },
    events: (runId) => runs.events(runId),
    onEvents: (listener) => eventListeners.add(listener),
  };
}

/** Messages to running runs of this process. */
export interface InMemoryInbox extends Inbox {
  /** False when too much waits already. */
  steer(runId: string, message: SteeringMessage): boolean;
}

export function inMemoryInbox(): InMemoryInbox {
  const inboxes = new Map<string, SteeringMessage[]>();
  return {
    steer(runId, message) {
      const waiting = inboxes.get(runId) ?? [];
      if (waiting.length >= maxInbox) return false;
      inboxes.set(runId, [...waiting, message]);
      return true;
    },
    read: async (runId) => inboxes.get(runId) ?? [],
    async drop(runId, ids) {
      const dropped = new Set(ids);
      const left = inboxes.get(runId)?.filter(({ id }) => !dropped.has(id)) ?? [];
      if (left.length > 0) inboxes.set(runId, left);
      else inboxes.delete(runId);
    },
  };
}
