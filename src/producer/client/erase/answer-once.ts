import { repeat, systemClock } from '../../../shared/base/clock.ts';
import { asRunError, RunError } from '../../../shared/base/errors.ts';
import { newNonce, sha256 } from '../../../shared/base/ids.ts';
import { keepAnswer, keptAnswer } from '../../../shared/state/erasure/answers.ts';
import { claimMs, endClaim, type ErasureClaim, keepClaim, takeClaim } from '../../../shared/state/erasure/claims.ts';
import type { KeySpace } from '../../../shared/state/keys.ts';
import { reach, type TenantClient } from '../client-core.ts';
import { erasureAnswer, type ErasureAnswer } from './request.ts';

/** How long a request waits for another one under its key. */
const maxWaitMs = 180_000;
const lookMs = 200;

/** Keeps the answer of a request, and answers the one that is kept. */
export type Keep = (answer: ErasureAnswer) => Promise<ErasureAnswer>;

/** A request under an idempotency key; `asked` is the digest of all that it says. */
export interface NamedRequest {
  readonly idempotencyKey: string;
  readonly asked: string;
}

/**
 * The answer that the same request had within the last hour, or gets now: of those at the same time one does the work, and the others
 * wait for its answer. Where that one fails, or its process is lost, the next does the work. Throws what `work` throws,
 * `idempotency_conflict` for another request under the key, and `concurrent_run` when the wait is too long.
 */
export async function answerOnce(
  { idempotencyKey, asked }: NamedRequest,
  work: (keep: Keep) => Promise<ErasureAnswer>,
  client: TenantClient,
): Promise<ErasureAnswer> {
  const { tenant, core } = client;
  const claim: ErasureClaim = { tenant, key: sha256(idempotencyKey), nonce: newNonce(), asked };
  await waitForClaim(claim, client);
  const keeping = repeat(
    claimMs / 3,
    () => inSpace(client, (space) => keepClaim(space, claim)),
    (error) => core.onError(asRunError(error)),
  );
  try {
    return (await answeredBefore(claim, client)) ?? (await work((answer) => keptAs(answer, claim, client)));
  } finally {
    await keeping[Symbol.asyncDispose]();
    // Where this fails it ends by itself, only later.
    await inSpace(client, (space) => endClaim(space, claim)).catch(core.onError);
  }
}

async function waitForClaim(claim: ErasureClaim, client: TenantClient): Promise<void> {
  const until = performance.now() + maxWaitMs;
  for (;;) {
    const other = await inSpace(client, (space) => takeClaim(space, claim));
    if (other === undefined) return;
    if (other !== claim.asked) throw usedBefore();
    if (performance.now() > until)
      throw new RunError('concurrent_run', 'the same erasure is still under way: ask again in a minute');
    await systemClock.sleep(lookMs, client.core.closing);
  }
}

async function answeredBefore(
  { tenant, key, asked }: ErasureClaim,
  client: TenantClient,
): Promise<ErasureAnswer | undefined> {
  const found = await inSpace(client, (space) => keptAnswer(space, tenant, key));
  if (!found) return undefined;
  if (found.asked === asked) return erasureAnswer.parse(found.answer);
  throw usedBefore();
}

/** The first answer stays, should a process that was taken for lost have another one. */
async function keptAs(
  answer: ErasureAnswer,
  { tenant, key, asked }: ErasureClaim,
  client: TenantClient,
): Promise<ErasureAnswer> {
  const kept = await inSpace(client, (space) => keepAnswer(space, tenant, key, { asked, answer }));
  return erasureAnswer.parse(kept.answer);
}

function usedBefore(): RunError {
  return new RunError('idempotency_conflict', 'the idempotency key was used before for another erasure');
}

async function inSpace<T>(client: TenantClient, work: (space: KeySpace) => Promise<T>): Promise<T> {
  return await reach(client, ({ core, redis }) => work({ redis, keys: core.keys }));
}
