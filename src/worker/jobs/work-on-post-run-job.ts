import { asRunError, assertNever, RunError } from '../../shared/base/errors.ts';
import type { PostRunKind, PostrunJob } from '../../shared/contract/postrun.ts';
import { cutText } from '../../shared/base/redact.ts';
import type { ThreadEventBody } from '../../shared/contract/thread/thread-event.ts';
import type { PostRunWork, PostRunDeps } from './post-run-job.ts';
import { embedMessages } from './embeddings.ts';
import { makeTitle } from './title.ts';

const defaultDeadlineMs = 30_000;
const maxErrorBytes = 2_048;

/** Where a delivery of the job stands. */
export interface PostRunDelivery {
  /** It was begun before, and nobody knows how far it came. */
  readonly isRepeat: boolean;
  /** No other will follow if this one fails. */
  readonly isLast: boolean;
}

/**
 * Does what follows a run, within its time, and tells the thread. Throws what is worth another try. A failure that is final is told
 * as `postrun.failed` and answered as `failed`; a thread that is gone has nobody to tell.
 */
export async function runPostRunJob(
  job: PostrunJob,
  { isRepeat, isLast }: PostRunDelivery,
  deps: PostRunDeps,
  stop: AbortSignal,
): Promise<'over' | 'failed'> {
  const { postRun, runId, tenant, agentId, threadId, batch } = job;
  const name = `${postRun}:${runId}`;
  const tell = async (body: ThreadEventBody) =>
    await deps.ports.threads.emit({ tenant, threadId }, { agentId, runId }, `${name}:${body.type}`, body);
  const accounts = { runId: name, tenant, agentId, batch };
  const { deadlineMs = defaultDeadlineMs } = deps;
  const late = AbortSignal.timeout(deadlineMs);
  const signal = AbortSignal.any([stop, late]);
  try {
    const done = await workOf(postRun)({ job, call: { accounts, requestId: name, isRepeat }, deps, signal });
    if (done) await tell(done);
    return 'over';
  } catch (thrown) {
    const error = late.aborted
      ? new RunError('provider_unavailable', `it took longer than ${deadlineMs} ms`, { cause: thrown })
      : asRunError(thrown);
    if (error.code === 'not_found') return 'over';
    if (stop.aborted || error.code === 'queue_unavailable' || (error.retryable && !isLast)) throw error;
    await fail(job, error, deps, tell);
    return 'failed';
  }
}

async function fail(
  { postRun, runId }: PostrunJob,
  error: RunError,
  { ports }: PostRunDeps,
  tell: (body: ThreadEventBody) => Promise<void>,
): Promise<void> {
  const { code, retryable } = error;
  ports.log.warn({ runId, postRun, code, err: error }, 'a post-run job failed');
  const message = cutText(ports.redactor.text(error.message), maxErrorBytes);
  await tell({ type: 'postrun.failed', effect: postRun, error: { code, message, retryable } });
}

function workOf(postRun: PostRunKind): PostRunWork {
  switch (postRun) {
    case 'title':
      return makeTitle;
    case 'embeddings':
      return embedMessages;
    default:
      return assertNever(postRun);
  }
}
