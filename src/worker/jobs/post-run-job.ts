import type { PostrunJob } from '../../shared/contract/postrun.ts';
import type { ThreadEventBody } from '../../shared/contract/thread/thread-event.ts';
import type { Embedder } from './embedder.ts';
import type { AuxiliaryCall, AuxiliaryCallDeps } from './auxiliary-call.ts';

/** What post-run jobs work with. */
export interface PostRunDeps extends AuxiliaryCallDeps {
  /** Absent: nothing is embedded. */
  readonly embedder?: Embedder | undefined;
  /** Of one try of one job. Default 30,000. */
  readonly deadlineMs?: number;
}

/** One post-run job. */
export interface PostRunCall {
  readonly job: PostrunJob;
  readonly call: AuxiliaryCall;
  readonly deps: PostRunDeps;
  readonly signal: AbortSignal;
}

/** Answers what to tell the thread; nothing where there was nothing to do. May be made again after a crash. */
export type PostRunWork = (run: PostRunCall) => Promise<ThreadEventBody | undefined>;
