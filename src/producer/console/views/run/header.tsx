import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import type { RunSteps } from '../../../../shared/contract/archive/run-steps.ts';
import { isTerminalStatus } from '../../../../shared/contract/plain/ends.ts';
import type { RunView } from '../../../../shared/contract/run.ts';
import { CopyButton } from '../../ui/copy.tsx';
import { formatCount, Money } from '../../ui/money.tsx';
import { Status } from '../../ui/status.tsx';
import { Duration, Since, Time } from '../../ui/time.tsx';
import { LongText } from './long-text.tsx';
import { adviceFor, callCounts, culpritOf } from './record/failure.ts';
import { waitLabels } from './record/waterfall.ts';

/** What comes below is to be in sight, too. */
const cardLines = 8;

export interface HeaderProps {
  readonly run: RunView;
  readonly steps: RunSteps | undefined;
  readonly onGo: (anchor: string) => void;
  /** Stands before the facts. */
  readonly note?: ComponentChildren;
  /** Of a run that works: what its model writes. */
  readonly live?: ComponentChildren;
}

/** What a run is: its state, what it was asked, what it took, and where it belongs. */
export function Header({ run, steps, onGo, note, live }: HeaderProps) {
  const { runId, agent, status, error, result } = run;
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
      {note}
      <Facts run={run} steps={steps} />
      <section class="grid">
        <div class="card stack-small">
          <h2>Asked</h2>
          <LongText text={run.request?.input ?? ''} label="input" lines={cardLines} />
          {run.files && <p class="soft">with {run.files.map(({ name }) => name).join(', ')}</p>}
        </div>
        {live}
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
function Failure({ run: { error, unfinished }, steps, onGo }: HeaderProps) {
  if (!error) return null;
  const culprit = steps && culpritOf(steps);
  const advice = adviceFor(error.code);
  return (
    <div class="problem problem-block" role="alert">
      <p>
        <code>{error.code}</code> {error.message}
      </p>
      {advice && <p>{advice}</p>}
      <div class="row">
        {culprit && (
          <button type="button" onClick={() => onGo(culprit.anchor)}>
            {culprit.kind === 'call'
              ? `Show the call that failed: ${culprit.call.toolName}`
              : `Show step ${culprit.step.stepNumber}, which has no answer`}
          </button>
        )}
        {error.retryable && <span class="soft">The same run may succeed when it is tried again.</span>}
        {unfinished && <span class="soft">What it had brought by then is in its steps.</span>}
      </div>
    </div>
  );
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
  const { usage, createdAt, startedAt, endedAt, durationMs, recoveries, worker, queue, deadlineAt, metadata } = run;
  const counts = useMemo(() => steps && callCounts(steps), [steps]);
  const isOver = isTerminalStatus(run.status);
  return (
    <>
      <dl class="figures">
        <Figure name={isOver ? 'Took' : 'Working for'}>
          {isOver ? <Duration ms={durationMs} /> : startedAt ? <Since at={startedAt} /> : '—'}
        </Figure>
        <Figure name="Cost">
          <Money microcents={run.costMicrocents} />
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
        <Figure name="Steps">{formatCount(run.steps)}</Figure>
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
        <Fact name="Worker">{worker && <code>{worker}</code>}</Fact>
        <Fact name="Queue">{queue !== 'runs' && queue}</Fact>
        <Fact name="Execution id">{run.executionId && <code>{run.executionId}</code>}</Fact>
        {Object.entries(metadata ?? {}).map(([key, value]) => (
          <Fact key={key} name={key}>
            <a href={`/runs?metadata=${encodeURIComponent(`${key}=${value}`)}`}>{value}</a>
          </Fact>
        ))}
      </dl>
    </>
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
