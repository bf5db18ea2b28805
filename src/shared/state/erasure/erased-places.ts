import type { KeySpace } from '../keys.ts';

/** Longer than an erasure takes that has read a part of a file and has not written it yet. */
const keptS = 86_400;

/** Where a line of a file is: its offset, and its length. */
type Place = readonly [offset: number, length: number];

/** Names lines of a file that are to be overwritten, for others that overwrite lines of it at the same time. */
export async function noteErasedPlaces({ redis, keys }: KeySpace, id: string, places: readonly Place[]): Promise<void> {
  const key = keys.erasedPlaces(id);
  await redis
    .multi()
    .sadd(key, ...places.map(([offset, length]) => `${offset}:${length}`))
    .expire(key, keptS)
    .exec();
}

/** The lines that were named lately. */
export async function erasedPlaces({ redis, keys }: KeySpace, id: string): Promise<readonly Place[]> {
  const places = await redis.smembers(keys.erasedPlaces(id));
  return places.map((place) => {
    const [offset = 0, length = 0] = place.split(':').map(Number);
    return [offset, length];
  });
}
