import { type FilesWorld, filesWorld } from './files-world.ts';

/** Files in Redis itself: the test Redis, or the one at `url`. */
export async function redisFilesWorld(url?: string): Promise<FilesWorld & { leftovers(): Promise<string[]> }> {
  const world = await filesWorld({ kind: 'redis' }, url);
  const leftovers = async () =>
    (await world.redis.keys(world.keys.blobs('*'))).map((key) => /\{blobs:([^}]+)\}/.exec(key)?.[1] ?? key);
  return { ...world, leftovers };
}
