import type { RunStatus } from '../../../../shared/contract/run.ts';
import { api } from '../../api.ts';

/** What becomes of a message while the thread answers another one. */
export type WhileBusy = 'queue' | 'steer' | 'interrupt';

export interface Message {
  readonly agent: string;
  readonly threadId: string;
  readonly text: string;
  readonly onBusy: WhileBusy;
  /** The same message under the same id, sent again, is said once. */
  readonly executionId: string;
}

export interface Sent {
  readonly runId: string;
  readonly status: RunStatus;
  /** A running answer got the message; no run was made for it. */
  readonly attached: boolean;
}

/** Says something in a thread. Throws `ApiError`. */
export async function sendMessage({ agent, threadId, text, onBusy, executionId }: Message): Promise<Sent> {
  return await api<Sent>('/v1/runs', {
    method: 'POST',
    body: { agent, input: text, thread: threadId, onBusy, executionId },
  });
}
