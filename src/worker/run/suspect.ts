import type { Activity } from '../../shared/contract/run.ts';
import type { SuspectWork } from '../turn/contract.ts';
import type { RunDeps, OpenRun } from './open-run.ts';
import type { Post } from './watch.ts';

/**
 * After so many lost workers in a row a run is a suspect in its model calls, too. Not before: most runs are in one when their
 * worker crashes.
 */
const suspectAfter = 2;

/**
 * Watches the work of a run that may have killed its last worker, and notes that in the record. Undefined for all other
 * runs, and where a run has its process to itself.
 */
export function suspectWork(
  run: Pick<OpenRun, 'record' | 'writer' | 'signals'>,
  { suspects }: Pick<RunDeps, 'suspects'>,
): SuspectWork | undefined {
  const { crashes, blame = 0, activity } = run.record;
  if (!suspects || activity === 'watched') return undefined;
  const { watch } = suspects;
  const calls = blame > 0;
  // Until one has ended: then it was not that.
  let model = crashes >= suspectAfter;
  if (!calls && !model) return undefined;
  const note = async (now: Activity) => await run.writer.commit({ patch: { activity: now } });

  /** Work that takes longer than `watchMs` goes on beside the other runs. */
  const watched = async <T>(post: Post, unwatched: Activity, work: () => Promise<T>): Promise<T> => {
    let ended = false;
    const endWatch = async (next: Activity) => {
      if (ended) return;
      ended = true;
      // The record first: the next suspect must not be watched beside it. Where it cannot be written the run has another owner.
      await note(next).catch(() => {});
      await watch.announce(undefined).catch(() => {});
      post.release();
    };
    try {
      // Before the record: the other runs of this process must not be blamed beside it.
      await watch.announce(run.record.runId);
      await note('watched');
      const timer = setTimeout(() => void endWatch(unwatched), watch.watchMs);
      try {
        return await work();
      } finally {
        clearTimeout(timer);
      }
    } finally {
      if (ended) await note('idle').catch(() => {});
      else await endWatch('idle');
    }
  };

  return {
    calls,
    async run(kind, work) {
      if (kind === 'calls' ? !calls : !model) return await work();
      const unwatched: Activity = kind === 'calls' ? 'calls' : 'idle';
      let post = watch.tryEnter();
      if (!post) {
        await note('waiting');
        post = await watch.enter(2 * blame + crashes, run.signals.signal);
      }
      if (!post) {
        await note(unwatched);
        return await work();
      }
      const done = await watched(post, unwatched, work);
      if (kind === 'model') model = false;
      return done;
    },
  };
}
