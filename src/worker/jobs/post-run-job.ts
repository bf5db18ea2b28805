import { asRunError, assertNever, RunError } from '../../shared/base/errors.ts';
import type { PostrunJob } from '../../shared/contract/queues.ts';
import { systemAgent } from '../../shared/contract/money.ts';
import { cutText } from '../../shared/base/redact.ts';
import type { ThreadEventBody } from '../../shared/contract/thread/thread.ts';
import type { AuxiliaryCall } from './auxiliary-call.ts';
import { embedMessages, type EmbeddingDeps } from './embeddings.ts';
import { makeTitle } from './title.ts';

const defaultDeadlineMs = 30_000;
const maxErrorBytes = 2_048;

export interface PostRunDeps extends EmbeddingDeps {
  /** Of one try of one job. Default 30,000. */
  readonly deadlineMs?: number;
}

export interface PostRunDelivery {
  /** It was begun before, and may have come to any point. */
  readonly isRepeat: boolean;
  /** There is no retry after this one. */
  readonly isLast: boolean;
}

/**
 * Runs a post-run job within its time, and emits its event on the thread. Throws what is worth a retry. A final failure is
 * emitted as `postrun.failed` and returned as `failed`; for a thread that is gone nothing is emitted.
 */
export async function runPostRunJob(
  job: PostrunJob,
  { isRepeat, isLast }: PostRunDelivery,
  deps: PostRunDeps,
  stop: AbortSignal,
): Promise<'done' | 'failed'> {
  const { postRun, runId, tenant, agentId, threadId, batch } = job;
  const name = `${postRun}:${runId}`;
  const emit = async (body: ThreadEventBody) =>
    await deps.ports.threads.emit({ tenant, threadId }, { agentId, runId }, `${name}:${body.type}`, body);
  // A title is the operator's wish, not the work of the agent.
  const accounts = { runId: name, tenant, agentId: postRun === 'title' ? systemAgent : agentId, batch };
  const { deadlineMs = defaultDeadlineMs } = deps;
  const late = AbortSignal.timeout(deadlineMs);
  const signal = AbortSignal.any([stop, late]);
  try {
    const event = await work(job, { accounts, agentId, requestId: name, isRepeat }, deps, signal);
    if (event) await emit(event);
    return 'done';
  } catch (thrown) {
    const error = late.aborted
      ? new RunError('provider_unavailable', `it took longer than ${deadlineMs} ms`, { cause: thrown })
      : asRunError(thrown);
    if (error.code === 'not_found') return 'done';
    if (stop.aborted || error.code === 'queue_unavailable' || (error.retryable && !isLast)) throw error;
    await fail(job, error, deps, emit);
    return 'failed';
  }
}

async function fail(
  { postRun, runId }: PostrunJob,
  error: RunError,
  { ports }: PostRunDeps,
  emit: (body: ThreadEventBody) => Promise<void>,
): Promise<void> {
  const { code, retryable } = error;
  ports.log.warn({ runId, postRun, code, err: error }, 'post-run job failed');
  const message = cutText(ports.redactor.text(error.message), maxErrorBytes);
  await emit({ type: 'postrun.failed', effect: postRun, error: { code, message, retryable } });
}

/** Returns the event for the thread; undefined where there was nothing to do. May be repeated after a crash. */
async function work(job: PostrunJob, call: AuxiliaryCall, deps: PostRunDeps, signal: AbortSignal) {
  switch (job.postRun) {
    case 'title':
      return await makeTitle(job, call, deps, signal);
    case 'embeddings':
      return await embedMessages(job, call, deps, signal);
    default:
      return assertNever(job.postRun);
  }
}
