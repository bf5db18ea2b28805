import { z } from 'zod';
import { jsonText, storedJson } from '../../base/json.ts';
import type { KeySpace } from '../keys.ts';

/** As long as a program takes to repeat a request whose answer it did not get. */
const keptS = 3_600;

const kept = z.object({
  /** Digest of what was asked for. */
  asked: z.string(),
  answer: z.unknown(),
});
export type KeptAnswer = z.infer<typeof kept>;

/**
 * Keeps the answer of an erasure: it says what is nowhere any more. `key`: the digest of its idempotency key. Answers what is kept from
 * now on, which is an earlier answer where there is one.
 */
export async function keepAnswer(
  { redis, keys }: KeySpace,
  tenant: string,
  key: string,
  answer: KeptAnswer,
): Promise<KeptAnswer> {
  const before = await redis.set(keys.erasureAnswer(tenant, key), jsonText(answer), 'EX', keptS, 'NX', 'GET');
  return before === null ? answer : kept.parse(storedJson(before));
}

/** That of the last hour under this key. */
export async function keptAnswer(
  { redis, keys }: KeySpace,
  tenant: string,
  key: string,
): Promise<KeptAnswer | undefined> {
  const json = await redis.get(keys.erasureAnswer(tenant, key));
  return json === null ? undefined : kept.parse(storedJson(json));
}
