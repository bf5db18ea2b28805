import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/shared/clock.ts';
import { silentLog } from '../../src/shared/log.ts';
import { CachedBreakers } from '../../src/worker/stores/breakers.ts';
import { MemorySharedBreakers } from '../../src/worker/stores/memory-breakers.ts';
import { breakersContract } from './breakers.ts';

breakersContract('Memory', () => {
  const shared = new MemorySharedBreakers(systemClock);
  return {
    async breakers() {
      const breakers = new CachedBreakers({ shared, clock: systemClock, log: silentLog });
      onTestFinished(() => breakers[Symbol.asyncDispose]());
      return breakers;
    },
  };
});
