import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import { silentLog } from '../../src/shared/base/log.ts';
import { CachedBreakers } from '../../src/shared/state/limits/breakers.ts';
import { MemorySharedBreakers } from '../../src/worker/local/stores/memory-breakers.ts';
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
