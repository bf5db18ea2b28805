import { z } from 'zod';
import { errorInfo } from '../../base/errors.ts';
import { postRunKind } from '../queues.ts';

export const threadEventVersion = 1;
/** Events that a thread keeps; the oldest go first. */
export const maxThreadEvents = 1_000;

/** What happens to a thread after the runs in it, beside its log. */
export const threadEventBody = z.discriminatedUnion('type', [
  z.object({ type: z.literal('thread.title_generated'), title: z.string() }),
  z.object({ type: z.literal('thread.embedding_done'), model: z.string(), messages: z.int().min(1) }),
  z.object({ type: z.literal('postrun.failed'), effect: postRunKind, error: errorInfo }),
]);
export type ThreadEventBody = z.infer<typeof threadEventBody>;

const envelope = z.object({
  v: z.literal(threadEventVersion),
  /** From 1 without gaps, by thread. */
  sequenceNumber: z.int().min(1),
  timestamp: z.string(),
  threadId: z.string(),
  agentId: z.string(),
  /** The run that it followed. */
  runId: z.string(),
});

export const threadEvent = z.intersection(envelope, threadEventBody);
export type ThreadEvent = z.infer<typeof threadEvent>;

/** Which run an event is about. */
export interface ThreadEventOrigin {
  readonly agentId: string;
  readonly runId: string;
}

/** Which events: numbers above `after`, at most `limit`. */
export interface ThreadEventsRange {
  readonly after?: number;
  readonly limit: number;
}

/** `more`: there are others beyond the last of these. */
export interface ThreadEventsPage {
  readonly events: readonly ThreadEvent[];
  readonly more: boolean;
}
