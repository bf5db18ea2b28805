import { randomBytes } from 'node:crypto';
import { erasureKeyOf, type ErasureKey } from '../../contract/erasure/receipt.ts';
import type { KeySpace } from '../keys.ts';

/** The key that receipts are signed with: the one of the setting, else one that is made once and kept in Redis, for all producers. */
export async function erasureKey({ redis, keys }: KeySpace, setting: string | undefined): Promise<ErasureKey> {
  if (setting !== undefined) return erasureKeyOf(setting);
  const made = randomBytes(32).toString('base64');
  return erasureKeyOf((await redis.set(keys.erasureKey, made, 'NX', 'GET')) ?? made);
}
