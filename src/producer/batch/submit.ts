import { asRunError, RunError, type ErrorCode, type ErrorInfo } from '../../shared/base/errors.ts';
import type { RunRequestInput } from '../../shared/contract/run.ts';
import type { BulkAnswer } from '../client/enqueue.ts';
import { pause } from './outstanding.ts';

/** What submitting needs of a client. */
export interface Submitting {
  enqueueMany(requests: readonly unknown[]): Promise<readonly BulkAnswer[]>;
}

/** Codes that pass by themselves: the queue drains, Redis comes back. */
const passing: ReadonlySet<ErrorCode> = new Set(['queue_full', 'queue_unavailable']);

const firstDelayMs = 500;
const maxDelayMs = 15_000;
/** Nothing was accepted for this long: then an operator should look. */
const maxWaitMs = 600_000;

/**
 * Enqueues a group and answers for each request what became of it. A full queue and a Redis that is away are waited
 * out; the execution ids make it safe to ask again. Throws the last refusal after 10 minutes without any progress, and
 * the signal's reason.
 */
export async function submit(
  client: Submitting,
  requests: readonly RunRequestInput[],
  watcher: { waiting(reason: ErrorInfo, delayMs: number): void },
  signal: AbortSignal,
): Promise<readonly BulkAnswer[]> {
  const answers: (BulkAnswer | undefined)[] = requests.map(() => undefined);
  let open = [...requests.keys()];
  let delayMs = firstDelayMs;
  let waitedMs = 0;
  for (;;) {
    signal.throwIfAborted();
    const asked = open.map((index) => requests[index] as RunRequestInput);
    const given = await ask(client, asked);
    const refused = open.filter((_, at) => isPassing(given[at]));
    for (const [at, index] of open.entries()) answers[index] = given[at];
    if (refused.length === 0) return answers as BulkAnswer[];
    if (refused.length < open.length) [delayMs, waitedMs] = [firstDelayMs, 0];
    const reason = errorOf(answers[refused[0] as number]);
    if (waitedMs >= maxWaitMs) throw new RunError(reason.code, reason.message);
    const waitMs = Math.round(delayMs * (0.75 + Math.random() / 2));
    watcher.waiting(reason, waitMs);
    await pause(waitMs, signal);
    waitedMs += waitMs;
    delayMs = Math.min(delayMs * 2, maxDelayMs);
    open = refused;
  }
}

/** Answers like `enqueueMany`, also when nothing at all could be accepted. */
async function ask(client: Submitting, requests: readonly RunRequestInput[]): Promise<readonly BulkAnswer[]> {
  try {
    return await client.enqueueMany(requests);
  } catch (thrown) {
    const { code, message, retryable } = asRunError(thrown);
    if (!passing.has(code)) throw thrown;
    return requests.map(() => ({ error: { code, message, retryable } }));
  }
}

function isPassing(answer: BulkAnswer | undefined): boolean {
  return answer !== undefined && 'error' in answer && passing.has(answer.error.code);
}

function errorOf(answer: BulkAnswer | undefined): ErrorInfo {
  if (answer && 'error' in answer) return answer.error;
  throw new RunError('internal', 'a refused request has no error');
}
