import type { RunView } from '../../../../shared/contract/run.ts';
import { withQuery } from '../../api.ts';
import { useQuery } from '../../query.ts';
import type { MessagesPage } from '../threads/known.ts';
import { tooLongFor, type TooLongFor } from './record/too-long.ts';

/** What was said before, if that is why the run failed. Undefined: it is not, or that is not known yet. */
export function useTooLong(run: RunView | undefined): TooLongFor | undefined {
  const found = run && tooLongFor(run);
  const path = found && withQuery(`/v1/threads/${encodeURIComponent(run.thread ?? '')}/messages`, { limit: 1 });
  const [first] = useQuery<MessagesPage>(path).data?.messages ?? [];
  const isTold = (run?.request?.history?.length ?? 0) > 0;
  return isTold || (first && first.runId !== run?.runId) ? found : undefined;
}

/** Why turns of a thread fail from now on, and what helps. */
export function ThreadTooLong({ what }: { what: TooLongFor }) {
  return (
    <p>
      With each turn a model reads all that was said in the thread, and {reasons[what]} fail as well.{' '}
      <a href="/threads?new=1">Start a new thread</a>, {remedies[what]}
    </p>
  );
}

const reasons = {
  cap: 'that costs more by now than the cap of this run allows: later turns with this cap',
  window: 'that is longer by now than its context window: later turns',
} as const;

const remedies = {
  cap: (
    <>
      or raise the cap (<code>budget</code> of the agent or of the request). An agent with <code>compaction</code> and a
      small enough context window summarises what is older before it costs as much.
    </>
  ),
  window: (
    <>
      or give the agent <code>compaction</code>, which summarises what is older, or a model with a larger window. Where
      it has <code>compaction</code>, the log of the worker says why there was no summary.
    </>
  ),
} as const;
