import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/shared/clock.ts';
import { PolledGovernor } from '../../src/worker/stores/governor.ts';
import { MemoryLimiters } from '../../src/worker/stores/memory-governor.ts';
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
