import type { NewRun } from './create-runs.ts';
import { RunError } from '../../base/errors.ts';
import { loadScript, runScript, type RunKeySpace, recordTtlS } from '../script.ts';

const script = loadScript(import.meta.url, './claim-request.lua');

type Space = Pick<RunKeySpace, 'keys' | 'redis'>;

/** Longer than a producer takes from here to the record of the run; it may die in between. */
const claimedMs = 300_000;

/**
 * - free: the run does not exist, and only this request may create it
 * - created: the run exists, made by this request
 * - steering: the message is meant for the run `listener`; `delivered` whether its inbox has it
 */
export type ClaimedRequest =
  | { readonly kind: 'free' | 'created' }
  | { readonly kind: 'steering'; readonly listener: string; readonly delivered: boolean };

/**
 * Takes the execution id of a request, before anything is done for it that others can see: no script reaches both the thread and
 * the record of the run. Throws `idempotency_conflict` for the id of another request.
 */
export async function claimRequest(
  { runId, request, bodyHash }: NewRun,
  { keys, redis }: Space,
): Promise<ClaimedRequest> {
  // An id that was made for this request belongs to no other.
  if (request.executionId === undefined) return { kind: 'free' };
  const own = [keys.run(runId), keys.claim(runId)];
  const doing = 'claim of an execution id';
  const reply = (await runScript(redis, script, own, [bodyHash, claimedMs], { doing })) as
    | [0 | 1 | 2]
    | [3, string, 0 | 1];
  if (reply[0] === 2) throw usedBefore(request.executionId);
  if (reply[0] === 3) return { kind: 'steering', listener: reply[1], delivered: reply[2] === 1 };
  return { kind: reply[0] === 0 ? 'free' : 'created' };
}

/**
 * Notes which run gets the message of a request: `meant` before it is sent, so that a repeat asks the same run, and `delivered`
 * once its inbox has it. `late`: that run does not read it any more.
 */
export async function noteListener(
  run: NewRun,
  listener: string,
  how: 'meant' | 'delivered' | 'late',
  space: Pick<RunKeySpace, 'keys' | 'redis' | 'resultTtlS'>,
): Promise<void> {
  const { keys, redis } = space;
  const key = keys.claim(run.runId);
  if (how === 'late') return void (await redis.hdel(key, 'listener', 'delivered'));
  const fields = { bodyHash: run.bodyHash, listener, delivered: how === 'delivered' ? 1 : 0 };
  await redis
    .multi()
    .hset(key, fields)
    .expire(key, recordTtlS(space, run.request.executionId !== undefined))
    .exec();
}

/** The request was refused, and its id is free again. */
export async function releaseRequest({ runId }: Pick<NewRun, 'runId'>, { keys, redis }: Space): Promise<void> {
  await redis.del(keys.claim(runId));
}

export function usedBefore(executionId: string | undefined): RunError {
  return new RunError('idempotency_conflict', `execution id ${executionId} was used before with another request`);
}
