import { systemClock } from '../../src/shared/base/clock.ts';
import { memoryProgress } from '../../src/worker/local/stores/in-memory-results.ts';
import { progressContract } from './progress-notes.ts';

progressContract('Memory', async () => {
  const notes = memoryProgress(systemClock);
  return async () => notes;
});
