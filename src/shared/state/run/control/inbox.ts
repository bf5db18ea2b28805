import type { SteeringMessage } from '../../../contract/control.ts';

/** What users say to runs that are at work. Kept in Redis and in memory; both pass `test/contract/inbox.ts`. */
export interface Inbox {
  /** All that was said and not dropped, oldest first, at most 100. */
  heard(runId: string): Promise<readonly SteeringMessage[]>;
  /** Forgets these, once the journal has them or runs of their own do. Others stay, also when it is asked again. */
  drop(runId: string, ids: Iterable<string>): Promise<void>;
}
