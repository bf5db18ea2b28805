import { request, type ClientWorld } from '../cli/options/client.ts';

/** What erasures of these tests find runs by. */
export const metadata = { user: 'u1' };

/** A run that has ended, without a worker. */
export async function endedRun(
  { mill }: ClientWorld,
  more: Partial<Parameters<typeof mill.enqueue>[0]> = {},
): Promise<string> {
  const run = await mill.enqueue({ ...request, metadata, ...more });
  await run.cancel();
  return run.runId;
}

/** A run that has ended in a thread that nothing works in. */
export async function runInThread(world: ClientWorld, thread: string): Promise<string> {
  const { redis, keys } = world;
  const runId = await endedRun(world, { thread });
  await redis.hset(keys.thread('default', thread, 'manifest'), { lockOwner: '' });
  await redis.xadd(keys.thread('default', thread, 'log'), '*', 'e', JSON.stringify({ runId }));
  return runId;
}
