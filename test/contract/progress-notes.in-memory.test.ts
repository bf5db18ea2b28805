import { systemClock } from '../../src/shared/base/clock.ts';
import { inMemoryProgress } from '../../src/worker/local/stores/in-memory-results.ts';
import { progressContract } from './progress-notes.ts';

progressContract('Memory', async () => {
  const notes = inMemoryProgress(systemClock);
  return async () => notes;
});
