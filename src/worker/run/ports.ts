import type { Clock } from '../../shared/base/clock.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Redactor } from '../../shared/base/redact.ts';
import type { EventBody } from '../../shared/contract/event.ts';
import type { Breakers } from '../../shared/state/limits/breakers.ts';
import type { RateLimiter } from '../../shared/state/limits/rate/rate-limiter.ts';
import type { Ledger } from '../../shared/state/money/ledger.ts';
import type { UploadedFiles } from '../../shared/state/inputs/uploaded-files.ts';
import type { MediaStore } from '../../shared/state/results/media-store.ts';
import type { Children } from '../../shared/state/run/children/children.ts';
import type { ControlChannel } from '../../shared/state/run/control/control-channel.ts';
import type { Inbox } from '../../shared/state/run/control/inbox.ts';
import type { RunStore } from '../../shared/state/run/run-store.ts';
import type { Timers, Waits } from '../../shared/state/run/waits/waits.ts';
import type { ThreadStore } from '../../shared/state/thread/threads.ts';

/** Sees every event body before it is written; metrics are made from it. Must not throw and must not block. */
export type Observer = (
  event: EventBody,
  /** `queueWaitMs`: with `run.started`, from the acceptance of the run, or the end of its delay, to its start. */
  context: { readonly agentId: string; readonly kind: string; readonly queueWaitMs?: number | undefined },
) => void;

/** Everything the run room asks of the outside. */
export interface Ports {
  readonly runs: RunStore;
  readonly waits: Waits;
  /** The deadlines of runs. */
  readonly deadlines: Timers;
  readonly children: Children;
  readonly threads: ThreadStore;
  readonly inbox: Inbox;
  readonly ledger: Ledger;
  readonly rateLimiter: RateLimiter;
  readonly breakers: Breakers;
  readonly control: ControlChannel;
  readonly media: MediaStore;
  /** What tenants have uploaded. */
  readonly files: UploadedFiles;
  readonly clock: Clock;
  readonly log: Log;
  readonly redactor: Redactor;
  readonly observe: Observer;
}
