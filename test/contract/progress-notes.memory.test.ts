import { systemClock } from '../../src/shared/clock.ts';
import { memoryProgress } from '../../src/worker/stores/memory-progress.ts';
import { progressContract } from './progress-notes.ts';

progressContract('Memory', async () => {
  const notes = memoryProgress(systemClock);
  return async () => notes;
});
