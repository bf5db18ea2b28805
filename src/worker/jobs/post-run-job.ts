import type { PostrunJob } from '../../shared/contract/postrun.ts';
import type { ThreadEventBody } from '../../shared/contract/thread/thread-event.ts';
import type { Embedder } from './embedder.ts';
import type { AuxiliaryCall, AuxiliaryCallDeps } from './auxiliary-call.ts';

export interface PostRunDeps extends AuxiliaryCallDeps {
  /** Absent: nothing is embedded. */
  readonly embedder?: Embedder | undefined;
  /** Of one try of one job. Default 30,000. */
  readonly deadlineMs?: number;
}

export interface PostRunCall {
  readonly job: PostrunJob;
  readonly call: AuxiliaryCall;
  readonly deps: PostRunDeps;
  readonly signal: AbortSignal;
}

/** Returns the event for the thread; undefined where there was nothing to do. May be repeated after a crash. */
export type PostRunWork = (run: PostRunCall) => Promise<ThreadEventBody | undefined>;
