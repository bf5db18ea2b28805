import type { ThreadView as Thread } from '../../../../shared/contract/thread/thread-items.ts';
import { withQuery } from '../../api.ts';
import { Erase } from './erase.tsx';
import { runsText, useRunCount } from './run-count.ts';

/** Asks before a thread is erased with its runs. */
export function EraseThread({ thread, onClose }: { thread: Thread; onClose: () => void }) {
  const { threadId, title, lockOwner, suspendedBy, waiting } = thread;
  const runs = useRunCount(threadId);
  const isOpen = lockOwner !== undefined || suspendedBy !== undefined || waiting > 0;
  const path = withQuery(`/v1/threads/${encodeURIComponent(threadId)}`, { runs: true, cancel: isOpen || undefined });
  return (
    <Erase title="Erase this thread?" home="/threads" {...{ path, onClose }}>
      {isOpen && <p class="tone-wait">Runs of it have not ended: they are cancelled first.</p>}
      <p>What goes:</p>
      <ul>
        <li>
          <strong>{title ?? threadId}</strong>, with everything that was said in it
        </li>
        <li>{runsText(runs)}, with requests, steps, decisions and events, here and in the archive</li>
        <li>kept results, progress notes, and files that nothing else refers to</li>
      </ul>
    </Erase>
  );
}
