import type { RedisConnection } from '../connect.ts';
import { loadScript, runScript } from '../script.ts';

const lookLaterScript = loadScript(import.meta.url, './look-later.lua');

/** A member of a sorted set, the time that it was found under, and when it is checked again; undefined: never. */
export type LookAgain = readonly [member: string, dueAt: string, nextMs: number | undefined];

/** Sets when they are checked again. A member for which another time was set since keeps that. */
export async function lookLater(redis: RedisConnection, key: string, again: readonly LookAgain[]): Promise<void> {
  if (again.length === 0) return;
  const args = again.flatMap(([member, dueAt, nextMs]) => [
    member,
    dueAt,
    nextMs === undefined ? '' : Math.round(nextMs),
  ]);
  await runScript(redis, lookLaterScript, [key], args, { doing: 'next look' });
}
