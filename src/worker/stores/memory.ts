import { systemClock, type Clock } from '../../shared/clock.ts';
import type { CancelRequest } from '../../shared/control.ts';
import type { RunEvent } from '../../shared/event.ts';
import { silentLog, type Log } from '../../shared/log.ts';
import { Redactor } from '../../shared/redact.ts';
import type { RunRecord } from '../../shared/run.ts';
import type { Observer, Ports } from '../ports.ts';
import { tenantsOf } from '../../shared/tenants.ts';
import { createListeners } from './listeners.ts';
import { memoryBreakers } from './memory-breakers.ts';
import { memoryGovernor } from './memory-governor.ts';
import { memoryMedia, type MemoryMedia } from './memory-media.ts';
import { memoryLedger } from './memory-ledger.ts';
import { memoryWaits } from './memory-waits.ts';
import { MemoryRuns, type EventsListener } from './memory-runs.ts';

export interface MemoryOptions {
  readonly clock?: Clock;
  readonly log?: Log;
  readonly redactor?: Redactor;
  readonly observe?: Observer;
}

/** Everything the run room asks of the outside, in memory, and what a producer does elsewhere. */
export interface MemoryPorts extends Ports {
  readonly media: MemoryMedia;
  /** Adds a run and its `run.queued`. A run id that is there already changes nothing. */
  create(record: RunRecord): void;
  /** Asks for the end of a run and wakes whoever holds it. False when there is no such run or it has ended. */
  cancel(runId: string, cancel: CancelRequest): boolean;
  /** The event log of a run as it is now: its newest 10,000 events, gone with the run. */
  events(runId: string): readonly RunEvent[];
  /** Calls back with the events of every run as they are added, until disposed. */
  onEvents(listener: EventsListener): Disposable;
}

/**
 * The ports of one process, without Redis. They pass the same contract suite as the Redis ones. The newest 1,000 runs
 * that have ended are kept. A listener that throws is logged and disturbs nobody.
 */
export function createMemoryPorts(options: MemoryOptions = {}): MemoryPorts {
  const { clock = systemClock, log = silentLog, redactor = new Redactor(), observe = () => {} } = options;
  const eventListeners = createListeners<Parameters<EventsListener>>(log);
  const cancelListeners = createListeners<[runId: string, cancel: CancelRequest]>(log);
  const runs = new MemoryRuns(clock, (runId, events) => eventListeners.call(runId, events));
  return {
    runs,
    waits: memoryWaits(runs, clock),
    media: memoryMedia(),
    ledger: memoryLedger({ clock, log, tenants: tenantsOf({}) }),
    governor: memoryGovernor({ clock }),
    breakers: memoryBreakers({ clock }),
    control: { onCancel: (listener) => cancelListeners.add(listener) },
    clock,
    log,
    redactor,
    observe,
    create: (record) => runs.create(record),
    cancel(runId, cancel) {
      const asked = runs.cancel(runId, cancel);
      if (asked) cancelListeners.call(runId, cancel);
      return asked;
    },
    events: (runId) => runs.events(runId),
    onEvents: (listener) => eventListeners.add(listener),
  };
}
