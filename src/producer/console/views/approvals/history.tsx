import type { AuditEntry } from '../../../../shared/contract/audit.ts';
import { useQuery } from '../../query.ts';
import { useKeys } from '../../keys.ts';
import { may } from '../../session.ts';
import { Empty, Loading, Problem } from '../../ui/states.tsx';
import { Time } from '../../ui/time.tsx';
import { useUrlState } from '../../ui/url-state.ts';
import { Decided } from './decided.tsx';

type Decision = Extract<AuditEntry, { kind: 'decision' }> & { readonly id: string };

const verdicts: Readonly<Record<Decision['verdict'], string>> = {
  granted: '✓ Granted',
  denied: '✕ Denied',
  answered: '✓ Answered',
  approved: '✓ Passed once',
  rejected: '✕ Rejected',
};

function aboutWhat({ toolName, toolCallId }: Decision): string {
  return toolName ?? (toolCallId ? 'a question' : 'money');
}

/** Who decided what, newest first, from the audit log; beside it what the run of the chosen one knows of it: arguments and reason. */
export function History() {
  const isAdmin = may('admin');
  const path = isAdmin ? '/v1/audit?kind=decision&order=newest&limit=200' : undefined;
  const { data, error, loading, reload } = useQuery<{ entries: readonly Decision[] }>(path, 10_000);
  const [{ decision: chosen }, setUrl] = useUrlState();
  const entries = data?.entries ?? [];
  const at = entries.findIndex(({ id }) => id === chosen);
  const move = (by: number) => {
    const to = entries[Math.min(entries.length - 1, Math.max(0, at + by))];
    if (to) setUrl({ decision: to.id });
  };
  useKeys({
    j: { what: 'Next decision', run: () => move(1) },
    k: { what: 'The one before', run: () => move(-1) },
  });
  if (!isAdmin)
    return (
      <Empty title="The log of all decisions needs a key with the scope “admin”.">
        <p>
          Who decided about the calls of one run is on the page of that run: <a href="/runs">go to the runs</a>.
        </p>
      </Empty>
    );
  if (loading) return <Loading what="Reading who decided" />;
  if (error && !data) return <Problem error={error} retry={reload} />;
  if (entries.length === 0)
    return (
      <Empty title="No person has decided anything in the last 30 days.">
        <p>Decisions about calls, questions and money will be listed here with who made them.</p>
      </Empty>
    );
  const current = entries[at];
  return (
    <div class="inbox">
      <div>
        <ul class="inbox-list" aria-label="Decisions">
          {entries.map((entry) => (
            <Row
              key={entry.id}
              entry={entry}
              isCurrent={entry === current}
              onChoose={() => setUrl({ decision: entry.id })}
            />
          ))}
        </ul>
        <p class="soft small-text">
          The last 200 at most. <code>millrace audit --kind decision</code> has all of the last 30 days.
        </p>
      </div>
      {current ? (
        <article key={current.id} class="item card" aria-label="Decision">
          <div class="row between">
            <h2>
              {verdicts[current.verdict]}: {aboutWhat(current)}
            </h2>
            <span class="soft">{current.agent}</span>
          </div>
          {!current.toolCallId && (
            <p>
              {current.by ? `By ${current.by}` : 'Without a name'}, <Time at={current.at} />
            </p>
          )}
          <Decided runId={current.runId} toolCallId={current.toolCallId ?? ''} />
        </article>
      ) : (
        <p class="soft inbox-hint">Choose a decision to see its arguments and its reason. Keys: j and k move.</p>
      )}
    </div>
  );
}

function Row({ entry, isCurrent, onChoose }: { entry: Decision; isCurrent: boolean; onChoose: () => void }) {
  const { verdict, edited, by, at, agent } = entry;
  const isBad = verdict === 'denied' || verdict === 'rejected';
  return (
    <li>
      <button type="button" class="inbox-row" aria-current={isCurrent ? 'true' : undefined} onClick={onChoose}>
        <span class="row between">
          <strong class="clip">{aboutWhat(entry)}</strong>
          <Time at={at} />
        </span>
        <span class="row between">
          <span class={isBad ? 'clip tone-bad' : 'clip tone-good'}>
            {verdicts[verdict]}
            {edited && ', with other arguments'}
          </span>
          <span class="clip soft">{by ?? 'without a name'}</span>
        </span>
        {agent && <span class="clip soft small-text">{agent}</span>}
      </button>
    </li>
  );
}
