import type { RedisConnection } from './connect.ts';
import { loadScript, runScript } from './script.ts';

const script = loadScript(import.meta.url, './look-later.lua');

/** A member of a sorted set, the time that it was found under, and when it is checked again. */
export type LookAgain = readonly [member: string, dueAt: string, nextMs: number];

/** Sets when they are checked again. A member for which another time was set since keeps that. */
export async function lookLater(redis: RedisConnection, key: string, again: readonly LookAgain[]): Promise<void> {
  if (again.length === 0) return;
  const args = again.flatMap(([member, dueAt, nextMs]) => [member, dueAt, Math.round(nextMs)]);
  await runScript(redis, script, [key], args, { doing: 'next look' });
}

/** Lists a page of one set for checks: what has no time yet is due now. Returns where the next page begins. */
export async function relist(
  redis: RedisConnection,
  { listed, checks }: { readonly listed: string; readonly checks: string },
  offset: number,
  limit: number,
): Promise<number> {
  const members = await redis.zrange(listed, offset, String(offset + limit - 1));
  if (members.length > 0) await redis.zadd(checks, 'NX', ...members.flatMap((member) => [Date.now(), member]));
  return members.length < limit ? 0 : offset + limit;
}
