import type { KeySpace } from '../keys.ts';
import { loadScript, runScript } from '../script.ts';

/** How long a claim lasts that its process does not keep. */
export const claimMs = 30_000;

/** Says that one process works on the erasure of an idempotency key. `nonce` is the process's own for this. */
export interface ErasureClaim {
  readonly tenant: string;
  /** Digest of the idempotency key. */
  readonly key: string;
  readonly nonce: string;
  /** Digest of what is asked for. */
  readonly asked: string;
}

const script = loadScript(import.meta.url, './keep-claim.lua');

/** Undefined: the caller has the claim. Else what the one who has it asks for. */
export async function takeClaim({ redis, keys }: KeySpace, claim: ErasureClaim): Promise<string | undefined> {
  const value = valueOf(claim);
  const key = keys.erasureClaim(claim.tenant, claim.key);
  const found = await redis.set(key, value, 'PX', claimMs, 'NX', 'GET');
  // Its own: the answer to the first try got lost.
  return found === null || found === value ? undefined : found.split(' ')[1];
}

/** Lets a claim last for another `claimMs`. */
export async function keepClaim(space: KeySpace, claim: ErasureClaim): Promise<void> {
  await lastFor(claimMs, space, claim);
}

export async function endClaim(space: KeySpace, claim: ErasureClaim): Promise<void> {
  await lastFor(0, space, claim);
}

async function lastFor(ms: number, { redis, keys }: KeySpace, claim: ErasureClaim): Promise<void> {
  const key = keys.erasureClaim(claim.tenant, claim.key);
  await runScript(redis, script, [key], [valueOf(claim), ms], { doing: 'claim on an erasure' });
}

function valueOf({ nonce, asked }: ErasureClaim): string {
  return `${nonce} ${asked}`;
}
