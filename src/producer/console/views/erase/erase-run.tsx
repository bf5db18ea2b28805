import { isTerminalStatus } from '../../../../shared/contract/plain/ends.ts';
import type { RunView } from '../../../../shared/contract/run.ts';
import { withQuery } from '../../api.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { Erase } from './erase.tsx';
import { runsText, useRunCount } from './run-count.ts';

interface EraseRunProps {
  readonly run: RunView;
  /** Runs that worked for it. */
  readonly childCount: number;
  readonly onClose: () => void;
}

/** Asks before a run is erased. One that works for another is erased with that, and one of a thread with the thread. */
export function EraseRun({ run, childCount, onClose }: EraseRunProps) {
  const { runId, thread, parentRunId, batch, status } = run;
  const runs = useRunCount(thread);
  if (parentRunId !== undefined)
    return (
      <Dialog title="Erase this run?" onClose={onClose}>
        <p>
          It worked for another run, which has its answer. The two are erased together:{' '}
          <a href={`/runs/${encodeURIComponent(parentRunId)}`}>{parentRunId}</a>
        </p>
      </Dialog>
    );
  const cancel = isTerminalStatus(status) ? undefined : true;
  const path = withQuery(`/v1/runs/${encodeURIComponent(runId)}`, { cancel, threads: thread && true });
  return (
    <Erase
      title="Erase this run?"
      act={thread === undefined ? undefined : `Erase the thread and ${runsText(runs)}`}
      home="/runs"
      {...{ path, onClose }}
    >
      {cancel && <p class="tone-wait">It has not ended: it is cancelled first.</p>}
      <p>What goes:</p>
      <ul>
        <li>its request, steps, answer, decisions and events, here and in the archive</li>
        {childCount > 0 && (
          <li>
            {childCount === 1 ? 'and the run that worked for it' : `and the ${childCount} runs that worked for it`}
          </li>
        )}
        <li>kept results, progress notes, and files that nothing else refers to</li>
        {batch !== undefined && <li>its lines in the files of the batch {batch}</li>}
      </ul>
      {thread !== undefined && (
        <p class="tone-wait">
          This run can only go together with its thread <strong>{thread}</strong>: with {runsText(runs)}. What it said
          is in the thread, and summaries may have it in other words.
        </p>
      )}
    </Erase>
  );
}
