import type { RunKeySpace } from '../../src/shared/state/script.ts';
import { redisChildren } from '../../src/shared/state/run/children/children.ts';
import type { ChildrenWorld } from './children-world.ts';
import { redisWaitsWorld } from './waits-redis-world.ts';

/** Children in the test Redis, or in the one at `url`. Jobs are not added here. */
export async function redisChildrenWorld(url?: string): Promise<ChildrenWorld & { readonly space: RunKeySpace }> {
  const world = await redisWaitsWorld(url);
  const children = redisChildren({
    space: world.options,
    threads: world.options,
    onAccepted: () => {},
    onEnded: () => {},
    addJob: async () => {},
  });
  return { ...world, space: world.options, children };
}
