import type { ArtifactStore } from '../../contract/artifacts.ts';
import { erasedNotLongAgo } from '../erasure/erased-runs.ts';
import { eraseResults } from '../erasure/results.ts';
import { named } from '../errors.ts';
import type { KeySpace } from '../keys.ts';
import type { Artifacts } from './artifacts.ts';
import type { ProgressNotes } from './progress-notes.ts';

interface Kept {
  readonly artifacts: Artifacts;
  readonly progress: ProgressNotes;
}

/**
 * The same stores for a worker. One that was stopped in the middle of a call may write its result after the run was erased: that goes at
 * once, with all that is left of the run.
 */
export function afterErasure({ artifacts, progress }: Kept, store: ArtifactStore, space: KeySpace): Kept {
  const { redis, keys } = space;
  const reached = { keys, reach: <T>(work: (connection: typeof redis) => Promise<T>) => named('results', work(redis)) };
  const isErased = async (runId: string) => {
    const [erasedAt = null] = await erasedNotLongAgo(space, [runId]);
    return erasedAt !== null && (await redis.exists(keys.run(runId))) === 0;
  };
  return {
    artifacts: {
      ...artifacts,
      async put(runId, ...what) {
        await artifacts.put(runId, ...what);
        if (await named('artifacts', isErased(runId))) await artifacts.drop(runId);
      },
    },
    progress: {
      ...progress,
      async write(draft) {
        const note = await progress.write(draft);
        if (await named('progress', isErased(draft.runId))) await eraseResults(store, reached, draft);
        return note;
      },
    },
  };
}
