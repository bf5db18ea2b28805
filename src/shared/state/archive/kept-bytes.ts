import type { Clock } from '../../base/clock.ts';
import type { ReachedKeys } from '../keys.ts';
import { loadScript, runScript } from '../script.ts';

const noteScript = loadScript(import.meta.url, './note-kept.lua');
const forgetScript = loadScript(import.meta.url, './forget-kept.lua');

/** What Redis needs for a run beside the bytes of its blob: two keys, an expiry and an entry of the list, about. */
const overheadBytes = 350;
/** What the size of a run is below, see `note-kept.lua`. */
const sizes = 2 ** 21;
/** The most that one run may take there. */
export const maxBytesInRedis = sizes - 1 - overheadBytes;

type Deps = ReachedKeys & { readonly clock: Clock; readonly maxRedisBytes: number };

/** A run whose bytes Redis keeps. */
export interface KeptRun {
  readonly runId: string;
  readonly bytes: number;
  readonly untilMs: number;
}

/** Counts runs among those that Redis keeps. Answers those that have to leave for them, oldest first; empty: there is room. */
export async function noteKept(
  { reach, keys, clock, maxRedisBytes }: Deps,
  runs: readonly KeptRun[],
): Promise<readonly string[]> {
  const seconds = (ms: number) => Math.ceil(ms / 1_000);
  const each = runs.flatMap(({ runId, bytes, untilMs }) => [runId, seconds(untilMs), bytes + overheadBytes]);
  const args = [seconds(clock.now()), maxRedisBytes, ...each];
  const own = [keys.archived, keys.archivedBytes];
  const doing = 'count of archived runs';
  return (await reach((redis) => runScript(redis, noteScript, own, args, { doing }))) as readonly string[];
}

/** The bytes of these runs are gone. */
export async function forgetKept({ reach, keys }: ReachedKeys, runIds: readonly string[]): Promise<void> {
  const own = [keys.archived, keys.archivedBytes];
  await reach((redis) => runScript(redis, forgetScript, own, runIds, { doing: 'count of archived runs' }));
}

export interface KeptInRedis {
  readonly runs: number;
  readonly bytes: number;
  readonly coversMs: number;
}

/** What Redis keeps for the archive. */
export async function keptInRedis({
  reach,
  keys,
  clock,
  ttlS,
}: Deps & { readonly ttlS: number }): Promise<KeptInRedis> {
  const [runs, bytes, [, oldest]] = await reach((redis) =>
    Promise.all([
      redis.zcard(keys.archived),
      redis.get(keys.archivedBytes),
      redis.zrange(keys.archived, 0, '0', 'WITHSCORES'),
    ]),
  );
  const endMs = oldest === undefined ? clock.now() + ttlS * 1_000 : Math.floor(Number(oldest) / sizes) * 1_000;
  return { runs, bytes: Number(bytes ?? 0), coversMs: Math.max(0, clock.now() + ttlS * 1_000 - endMs) };
}
