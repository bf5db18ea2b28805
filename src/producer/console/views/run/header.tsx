import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import type { RunSteps } from '../../../../shared/contract/archive/run-steps.ts';
import type { EventOf } from '../../../../shared/contract/event.ts';
import { isTerminalStatus } from '../../../../shared/contract/plain/ends.ts';
import type { RunView } from '../../../../shared/contract/run.ts';
import { withQuery } from '../../api.ts';
import { useQuery } from '../../query.ts';
import { CopyButton } from '../../ui/copy.tsx';
import { formatCount, Money } from '../../ui/money.tsx';
import { Status } from '../../ui/status.tsx';
import { Duration, formatDuration, Since, Time } from '../../ui/time.tsx';
import { LongText } from './long-text.tsx';
import { rerunKey } from './record/again.ts';
import { adviceFor, callCounts, culpritOf } from './record/failure.ts';
import { totalsOf, workedMsOf } from './record/totals.ts';
import { waitLabels } from './record/waterfall.ts';
import { ThreadTooLong, useTooLong } from './thread-too-long.tsx';

/** What comes below is to be in sight, too. */
const cardLines = 8;
const mostOnOneLine = 200;

export interface HeaderProps {
  readonly run: RunView;
  readonly steps: RunSteps | undefined;
  /** Of a run that was cancelled: its last event. */
  readonly cancelled: EventOf<'run.cancelled'> | undefined;
  readonly onGo: (anchor: string) => void;
  /** Stands before the facts. */
  readonly note?: ComponentChildren;
  /** What can be done, above all that grows. */
  readonly actions: ComponentChildren;
  /** Of a run that works: what its model writes. */
  readonly live?: ComponentChildren;
}

/** What a run is: its state, what it was asked, what it took, and where it belongs. */
export function Header({ run, steps, cancelled, onGo, note, actions, live }: HeaderProps) {
  const { runId, agent, status, error, result, unfinished } = run;
  return (
    <header class="stack">
      <div class="view-head">
        <h1>
          <a href={`/agents/${encodeURIComponent(agent)}`}>{agent}</a>
        </h1>
        <Status status={status} label={run.cancelling ? 'cancelling' : status} />
        <span class="row run-id">
          <code>{runId}</code>
          <CopyButton text={runId} label="Copy id" />
        </span>
      </div>
      {error && <Failure {...{ run, steps, onGo }} />}
      {status === 'suspended' && <Waiting run={run} />}
      {cancelled?.reason && (
        <p class="waiting" role="status">
          Cancelled: {cancelled.reason}
        </p>
      )}
      {note}
      <Facts run={run} steps={steps} />
      {actions}
      <section class="grid">
        <div class="card stack-small">
          <h2>Asked</h2>
          <LongText text={run.request?.input ?? ''} label="input" lines={cardLines} />
          {run.files && <p class="soft">with {run.files.map(({ name }) => name).join(', ')}</p>}
        </div>
        {live}
        {unfinished && unfinished.text !== '' && (
          <div class="card stack-small">
            <h2>
              Text so far{' '}
              <span class="tone-wait">· {status === 'cancelled' ? 'stopped' : 'it failed'} before the end</span>
            </h2>
            <LongText text={unfinished.text} label="text so far" lines={cardLines} />
          </div>
        )}
        {result && (
          <div class="card stack-small">
            <h2>
              Answer
              {result.incomplete && (
                <span class="tone-wait"> · incomplete: {result.incomplete.reason} was reached</span>
              )}
            </h2>
            {result.text === '' ? (
              <p class="soft">It has no text.</p>
            ) : (
              <LongText text={result.text} label="answer" lines={cardLines} />
            )}
          </div>
        )}
      </section>
    </header>
  );
}

/** Why it failed, what to do about that, and the way to the call or step where it happened. */
function Failure({ run, steps, onGo }: Pick<HeaderProps, 'run' | 'steps' | 'onGo'>) {
  const { error } = run;
  const tooLong = useTooLong(run);
  if (!error) return null;
  const culprit = steps && culpritOf(steps);
  const advice = adviceFor(error.code);
  return (
    <div class="problem problem-block" role="alert">
      {culprit?.kind === 'call' && (
        <p>
          <b>{culprit.call.toolName}</b>
          {culprit.call.args !== undefined && <> with {onOneLine(culprit.call.args)}</>}: {culprit.call.error?.message}
        </p>
      )}
      <p>
        <code>{error.code}</code> {error.message}
      </p>
      {tooLong ? <ThreadTooLong what={tooLong} /> : advice && <p>{advice}</p>}
      <div class="row">
        {culprit && (
          <button type="button" onClick={() => onGo(culprit.anchor)}>
            {culprit.kind === 'call'
              ? `Show the call that failed: ${culprit.call.toolName}`
              : `Show step ${culprit.step.stepNumber}, which has no answer`}
          </button>
        )}
        {error.retryable && <span class="soft">The same run may succeed when it is tried again.</span>}
      </div>
    </div>
  );
}

function onOneLine(value: unknown): string {
  const text = JSON.stringify(value) ?? '';
  return text.length <= mostOnOneLine ? text : `${text.slice(0, mostOnOneLine)}…`;
}

/** What a run waits for, and where people end that. */
function Waiting({ run: { pending, children = [] } }: { run: RunView }) {
  const items = [...pending, ...children.flatMap((child) => child.pending)];
  const needsPeople = items.some(({ kind }) => ['approval', 'user_input', 'unknown_outcome', 'budget'].includes(kind));
  return (
    <div class="waiting" role="status">
      <ul class="plain-list">
        {items.map(({ kind, toolCallId, id, toolName, requestedAt, expiresAt, reason }) => (
          <li key={`${kind} ${toolCallId ?? id}`}>
            ‖ It {waitLabels[kind]}
            {toolName && (
              <>
                {' '}
                of <code>{toolName}</code>
              </>
            )}
            {reason && `: ${reason}`} <span class="soft">since</span> <Time at={requestedAt} />
            {expiresAt && (
              <>
                {' '}
                <span class="soft">until</span> <Time at={expiresAt} />
              </>
            )}
          </li>
        ))}
      </ul>
      {needsPeople && <a href="/approvals">Decide in the inbox</a>}
    </div>
  );
}

function Facts({ run, steps }: { run: RunView; steps: RunSteps | undefined }) {
  const { createdAt, endedAt, recoveries, worker, queue, deadlineAt } = run;
  const { [rerunKey]: repeated, ...metadata } = run.metadata ?? {};
  // Runs that work for a run have its metadata.
  const origin = run.parentRunId === undefined ? repeated : undefined;
  const counts = useMemo(() => steps && callCounts(steps), [steps]);
  const { costMicrocents, usage, stepCount } = useMemo(() => totalsOf(run, steps), [run, steps]);
  const isOver = isTerminalStatus(run.status);
  return (
    <>
      <dl class="figures">
        <Spent run={run} steps={steps} />
        <Figure name="Cost">
          <Money microcents={costMicrocents} />
          {run.childCostMicrocents ? (
            <span class="soft">
              {' '}
              of it <Money microcents={run.childCostMicrocents} /> by other runs
            </span>
          ) : null}
        </Figure>
        <Figure name="Tokens">
          {usage ? (
            <span
              class="number"
              title={`read ${usage.input}, from the cache ${usage.cached}, into the cache ${usage.cacheWrite}, written ${usage.output}`}
            >
              {formatCount(usage.input + usage.cached + usage.cacheWrite)} in · {formatCount(usage.output)} out
            </span>
          ) : (
            '—'
          )}
        </Figure>
        <Figure name="Steps">{formatCount(stepCount)}</Figure>
        <Figure name="Calls">
          {counts ? formatCount(counts.calls) : '—'}
          {counts && counts.failed > 0 && <span class="tone-bad"> {counts.failed} failed</span>}
        </Figure>
        {recoveries > 0 && (
          <Figure name="Recovered">
            <span class="tone-wait">{recoveries === 1 ? 'once' : `${recoveries} times`}</span>
          </Figure>
        )}
        <Figure name="Accepted">
          <Time at={createdAt} />
        </Figure>
        <Figure name="Ended">{isOver ? <Time at={endedAt} /> : '—'}</Figure>
      </dl>
      <dl class="run-facts">
        <Fact name="Deadline">{deadlineAt && <Time at={deadlineAt} />}</Fact>
        <Fact name="Thread">
          {run.thread && <a href={`/threads/${encodeURIComponent(run.thread)}`}>{run.thread}</a>}
        </Fact>
        <Fact name="Batch">{run.batch && <a href={`/batches/${encodeURIComponent(run.batch)}`}>{run.batch}</a>}</Fact>
        <Fact name="Part of">
          {run.parentRunId && <a href={`/runs/${encodeURIComponent(run.parentRunId)}`}>{run.parentRunId}</a>}
        </Fact>
        <Fact name="Run again from">{origin && <a href={`/runs/${encodeURIComponent(origin)}`}>{origin}</a>}</Fact>
        <Reruns run={run} />
        <Fact name="Worker">{worker && <code>{worker}</code>}</Fact>
        <Fact name="Queue">{queue !== 'runs' && queue}</Fact>
        <Fact name="Execution id">{run.executionId && <code>{run.executionId}</code>}</Fact>
        {Object.entries(metadata).map(([key, value]) => (
          <Fact key={key} name={key}>
            <a href={`/runs?metadata=${encodeURIComponent(`${key}=${value}`)}`}>{value}</a>
          </Fact>
        ))}
      </dl>
    </>
  );
}

/** The runs that asked the same once more. Looked for once: to find runs by metadata costs the producer a look at all that came after. */
function Reruns({ run: { runId, createdAt } }: { run: RunView }) {
  const path = withQuery('/v1/runs', { [`metadata.${rerunKey}`]: runId, after: createdAt, limit: 100 });
  const { data } = useQuery<{ runs: readonly RunView[]; cursor?: string }>(path);
  const total = data?.runs.filter(({ parentRunId }) => parentRunId === undefined).length ?? 0;
  return (
    <Fact name="Run again as">
      {total > 0 && (
        <a href={withQuery('/runs', { metadata: `${rerunKey}=${runId}` })}>
          {data?.cursor === undefined ? '' : 'at least '}
          {total === 1 ? 'another run' : `${formatCount(total)} other runs`}
        </a>
      )}
    </Fact>
  );
}

/** How long it took, and how much of that it worked; of one that goes on, since when it does what it does now. */
function Spent({ run, steps }: { run: RunView; steps: RunSteps | undefined }) {
  const { status, createdAt, startedAt, durationMs, pending } = run;
  if (isTerminalStatus(status)) {
    const workedMs = steps && workedMsOf(steps);
    const waited = workedMs !== undefined && durationMs !== undefined && durationMs > 1.2 * workedMs + 1_000;
    return (
      <Figure name="Took">
        <Duration ms={durationMs} />
        {waited && <span class="soft"> worked {formatDuration(workedMs)}</span>}
      </Figure>
    );
  }
  const asked = pending.map(({ requestedAt }) => requestedAt).sort()[0];
  if (status === 'suspended' && asked !== undefined)
    return (
      <Figure name="Waiting for">
        <Since at={asked} />
      </Figure>
    );
  return (
    <Figure name={startedAt ? 'Working for' : 'In the queue for'}>
      <Since at={startedAt ?? createdAt} />
    </Figure>
  );
}

function Figure({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Left out where there is nothing to say. */
function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  if (!children) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
