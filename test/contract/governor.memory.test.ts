import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import { PolledGovernor } from '../../src/shared/state/limits/rate/polled-limiter.ts';
import { MemoryLimiters } from '../../src/worker/local/stores/memory-governor.ts';
import { governorContract } from './governor.ts';

governorContract('Memory', async () => {
  const limiters = new MemoryLimiters(systemClock);
  return {
    async governor(observe = {}) {
      const governor = new PolledGovernor({ limiters, clock: systemClock, observe });
      onTestFinished(() => governor[Symbol.asyncDispose]());
      return governor;
    },
  };
});
