import { newNonce } from '../../base/ids.ts';
import type { KeySpace } from '../keys.ts';

/** So long after a request its repeat is known as one. */
const repeatS = 600;

/**
 * The execution id of a request from a client that repeats requests without saying which. A first try gets a new one, which is noted
 * before the run is accepted; a repeat gets that of the first try with the same digest, as long as it is known. Repeats at the same
 * time get the same one.
 */
export async function executionIdOf(
  { redis, keys }: KeySpace,
  tenant: string,
  { digest, isRepeat }: { readonly digest: string; readonly isRepeat: boolean },
): Promise<string> {
  const key = keys.repeat(tenant, digest);
  const fresh = `wire-${newNonce()}`;
  if (isRepeat) return (await redis.set(key, fresh, 'EX', repeatS, 'NX', 'GET')) ?? fresh;
  await redis.set(key, fresh, 'EX', repeatS);
  return fresh;
}
