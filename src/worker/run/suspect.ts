import type { Activity } from '../../shared/contract/run.ts';
import type { SuspectWork } from '../turn/contract.ts';
import type { RunDeps, OpenRun } from './open-run.ts';
import type { Post } from './watch.ts';

/** Workers lost in a row with which a run is a suspect in its model calls, too: these are in the way of nearly every crash. */
const suspectAfter = 2;

/**
 * How a run works that may be what its last worker died of: watched, and with a note in the record that says so. Undefined
 * for all others, and where a run has its process to itself.
 */
export function suspectWork(
  run: Pick<OpenRun, 'record' | 'writer' | 'signals'>,
  { suspects }: Pick<RunDeps, 'suspects'>,
): SuspectWork | undefined {
  const { crashes, blame = 0, activity } = run.record;
  if (!suspects || activity === 'watched') return undefined;
  const { watch } = suspects;
  const calls = blame > 0;
  // Until one is over: then it was not that.
  let model = crashes >= suspectAfter;
  if (!calls && !model) return undefined;
  const note = async (now: Activity) => await run.writer.commit({ patch: { activity: now } });

  /** What takes longer than one may be watched goes on beside the others. */
  const watched = async <T>(post: Post, unwatched: Activity, work: () => Promise<T>): Promise<T> => {
    let over = false;
    const leave = async (next: Activity) => {
      if (over) return;
      over = true;
      // The record first: the next one must not be watched beside it. Where it cannot be written the run has another owner.
      await note(next).catch(() => {});
      await watch.tell(undefined).catch(() => {});
      post.leave();
    };
    try {
      // Before the record says so: the other runs of this process must not be blamed beside it.
      await watch.tell(run.record.runId);
      await note('watched');
      const timer = setTimeout(() => void leave(unwatched), watch.watchMs);
      try {
        return await work();
      } finally {
        clearTimeout(timer);
      }
    } finally {
      if (over) await note('idle').catch(() => {});
      else await leave('idle');
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
