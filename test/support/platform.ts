import { onTestFinished } from 'vitest';
import type { World } from './world.ts';

/** Starts a new worker whenever one of the world has gone, as every platform does. */
export function keepAlive(world: World): { readonly restarts: number } {
  let open = true;
  let restarts = 0;
  const watch = async (worker: World['worker']) => {
    for (let alive = worker; ; restarts++) {
      await alive.exited;
      if (!open) return;
      alive = await world.addWorker();
    }
  };
  for (const worker of world.workers) void watch(worker);
  onTestFinished(() => void (open = false));
  return {
    get restarts() {
      return restarts;
    },
  };
}
