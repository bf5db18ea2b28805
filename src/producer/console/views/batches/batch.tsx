import { useEffect, useState } from 'preact/hooks';
import type { BatchView as Batch } from '../../../../shared/contract/batch.ts';
import { api, withQuery } from '../../api.ts';
import { useQuery } from '../../query.ts';
import { may } from '../../session.ts';
import { countOf } from '../../ui/count-of.ts';
import { Confirm, useAct } from '../../ui/dialog.tsx';
import { formatCount, Money } from '../../ui/money.tsx';
import { notify } from '../../ui/notice.tsx';
import { Loading, Problem } from '../../ui/states.tsx';
import { Status } from '../../ui/status.tsx';
import { Duration, Time } from '../../ui/time.tsx';
import { Failed, useFailures, type ReadFailures } from './failed.tsx';
import { isRefused } from './failures.ts';
import { Progress } from './progress.tsx';
import {
  actsFor,
  batchTone,
  expectedMicrocents,
  hasEnded,
  notBegun,
  onlyWaits,
  reasonOf,
  waitingText,
} from './words.ts';
import './batches.css';

const runningMs = 1_000;
const endedMs = 10_000;

/** One batch: how far it is, what it costs, what failed, and what it has written. */
export function BatchView({ id = '' }: { id?: string }) {
  const [everyMs, setEvery] = useState(runningMs);
  const { data: batch, error, loading, reload } = useQuery<Batch>(`/v1/batches/${encodeURIComponent(id)}`, everyMs);
  useEffect(() => {
    if (batch) setEvery(hasEnded(batch) ? endedMs : runningMs);
  }, [batch]);
  const failed = useFailures(batch);
  if (loading) return <Loading what="Reading the batch" />;
  if (!batch)
    return error ? (
      <Problem error={error} retry={reload}>
        <a href="/batches">All batches</a>
      </Problem>
    ) : null;
  const reason = reasonOf(batch);
  return (
    <div class="batch stack">
      <div class="view-head">
        <h1>{batch.name}</h1>
        <Status status={batch.status} tone={batchTone[batch.status]} />
        <Acts batch={batch} failed={failed} onDone={reload} />
      </div>
      {error && <Problem error={error} retry={reload} />}
      {reason && <p class="away">{reason}</p>}
      {batch.errors && <Refused errors={batch.errors} />}
      <Progress batch={batch} large />
      <Numbers batch={batch} />
      {batch.quote && <Quote quote={batch.quote} />}
      <Failed batch={batch} {...failed} />
      <div class="grid">
        <Files batch={batch} />
        <About batch={batch} />
      </div>
    </div>
  );
}

interface ActsProps {
  readonly batch: Batch;
  readonly failed: ReadFailures;
  readonly onDone: () => Promise<void>;
}

function Acts({ batch, failed, onDone }: ActsProps) {
  const { failures } = failed;
  const [isCancelling, setCancelling] = useState(false);
  const act = async (name: 'pause' | 'resume' | 'cancel' | 'redrive') => {
    const answer = await api<{ lines?: number }>(`/v1/batches/${batch.id}/${name}`, { method: 'POST' });
    notify(name === 'redrive' ? `${countOf(answer.lines ?? 0, 'line')} to be run again.` : done[name]);
    await onDone();
  };
  const { busy, error, run } = useAct(act);
  const acts = actsFor(batch);
  const couldSucceed = failed.error ?? (failures && (failures.partial || !failures.lines.every(isRefused)));
  const disabled = busy || !may('write');
  return (
    <>
      <span class="row" title={may('write') ? undefined : 'Your key lacks the scope "write"'}>
        {acts.includes('resume') && (
          <button type="button" class="primary" {...{ disabled }} onClick={() => void run('resume')}>
            Resume
          </button>
        )}
        {acts.includes('pause') && (
          <button type="button" {...{ disabled }} onClick={() => void run('pause')}>
            Pause
          </button>
        )}
        {acts.includes('redrive') && couldSucceed && (
          <button type="button" {...{ disabled }} onClick={() => void run('redrive')}>
            Run the {formatCount(batch.request_counts.failed)} failed again
          </button>
        )}
        {hasEnded(batch) && may('write') && (
          <a class="button" href={withQuery('/batches', { new: '1', from: batch.id })}>
            Edit and start again
          </a>
        )}
        {acts.includes('cancel') && (
          <button type="button" class="danger" {...{ disabled }} onClick={() => setCancelling(true)}>
            Cancel
          </button>
        )}
      </span>
      {error && <Problem error={error} />}
      {isCancelling && (
        <Confirm
          title="Cancel the batch?"
          act="Cancel it"
          danger
          onConfirm={() => act('cancel')}
          onClose={() => setCancelling(false)}
        >
          <p>
            Its {batch.open.total} open runs stop and no further line begins. The answers that there are become its
            output; the other lines are errors with the code <code>cancelled</code>.
          </p>
        </Confirm>
      )}
    </>
  );
}

const done = {
  pause: 'Paused: what is open goes on.',
  resume: 'It goes on.',
  cancel: 'It is being cancelled.',
} as const;

function Numbers({ batch }: { batch: Batch }) {
  const { request_counts: counts, open, cost, eta, created_at } = batch;
  const later = notBegun(batch);
  const waits = onlyWaits(batch);
  const expected = expectedMicrocents(batch);
  return (
    <dl class="numbers">
      <div>
        <dt>Answered</dt>
        <dd class="number">{formatCount(counts.completed)}</dd>
      </div>
      <div>
        <dt>Failed</dt>
        <dd class={counts.failed > 0 ? 'number tone-bad' : 'number'}>{formatCount(counts.failed)}</dd>
      </div>
      <div>
        <dt>Open</dt>
        <dd class="number">
          {formatCount(open.total)}
          {open.waitingForPeople > 0 && <a href="/approvals"> {waitingText(open.waitingForPeople, 'people')}</a>}
          {open.waitingForMoney > 0 && (
            <a href="/approvals?kind=budget"> {waitingText(open.waitingForMoney, 'money')}</a>
          )}
        </dd>
      </div>
      {later > 0 && (
        <div>
          <dt>Not begun</dt>
          <dd class="number">{formatCount(later)}</dd>
        </div>
      )}
      <div>
        <dt>Cost</dt>
        <dd>
          <Money microcents={cost.microcents} />
          {expected !== undefined && (
            <span class="soft">
              {' '}
              of about <Money microcents={expected} />
            </span>
          )}
        </dd>
      </div>
      <div>
        <dt>{hasEnded(batch) ? 'Took' : 'Left'}</dt>
        <dd>
          {hasEnded(batch) ? (
            <Duration ms={tookMs(batch)} />
          ) : waits ? (
            <span class="soft">{waits}</span>
          ) : eta ? (
            <>
              <Duration ms={eta.seconds * 1_000} /> <span class="soft">until about</span> <Time at={eta.at * 1_000} />
            </>
          ) : (
            <span class="soft">not known yet</span>
          )}
        </dd>
      </div>
      <div>
        <dt>Created</dt>
        <dd>
          <Time at={created_at * 1_000} />
        </dd>
      </div>
    </dl>
  );
}

function tookMs({ created_at, completed_at, failed_at, expired_at, cancelled_at }: Batch): number | undefined {
  const end = completed_at ?? failed_at ?? expired_at ?? cancelled_at;
  return end === undefined ? undefined : (end - created_at) * 1_000;
}

function Quote({ quote: { lines, sampled, costUsd, seconds } }: { quote: NonNullable<Batch['quote']> }) {
  const dollars = (usd: number) => <Money microcents={Math.round(usd * 1e8)} />;
  return (
    <section class="card" aria-label="Quote">
      <h2>Quote</h2>
      <p>
        From {formatCount(sampled)} of {formatCount(lines)} lines: all of it is likely to cost {dollars(costUsd.low)} to{' '}
        {dollars(costUsd.high)} and to take <Duration ms={seconds.low * 1_000} /> to{' '}
        <Duration ms={seconds.high * 1_000} />.
      </p>
    </section>
  );
}

function Refused({ errors }: { errors: NonNullable<Batch['errors']> }) {
  return (
    <section class="problem" aria-label="What is wrong with the file">
      <ul class="plain">
        {errors.data.map(({ code, message, line }) => (
          <li key={`${line} ${code} ${message}`}>
            {line !== undefined && `Line ${line}: `}
            <code>{code}</code> {message}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Files({ batch }: { batch: Batch }) {
  const results = (of: 'answers' | 'errors') =>
    withQuery(`/v1/batches/${encodeURIComponent(batch.id)}/results`, { of });
  const { completed, failed } = batch.request_counts;
  const files = [
    ['Input', `/v1/files/${encodeURIComponent(batch.input_file_id)}/content`, undefined],
    ['Answers', completed > 0 ? results('answers') : undefined, completed],
    ['Errors', failed > 0 ? results('errors') : undefined, failed],
  ] as const;
  return (
    <section class="card" aria-label="Files">
      <h2>Files</h2>
      <dl class="facts">
        {files.map(([label, href, lines]) => (
          <>
            <dt>{label}</dt>
            <dd>
              {href === undefined ? (
                <span class="soft">none{hasEnded(batch) ? '' : ' yet'}</span>
              ) : (
                <a href={href} download>
                  Download{lines !== undefined && !hasEnded(batch) && ` the ${formatCount(lines)} there are by now`}
                </a>
              )}
            </dd>
          </>
        ))}
      </dl>
    </section>
  );
}

function About({ batch }: { batch: Batch }) {
  const { id, endpoint, agent, inputTemplate, queue, completion_window, expires_at, usage, name, metadata } = batch;
  return (
    <section class="card" aria-label="About">
      <h2>About</h2>
      <dl class="facts">
        <dt>Id</dt>
        <dd>{id}</dd>
        <dt>Runs</dt>
        <dd>
          <a href={withQuery('/runs', { batch: name })}>All runs of this batch</a>
        </dd>
        <dt>Lines are</dt>
        <dd>
          <code>{endpoint}</code>
        </dd>
        {agent && (
          <>
            <dt>Agent</dt>
            <dd>
              <a href={`/agents/${encodeURIComponent(agent)}`}>{agent}</a>
            </dd>
          </>
        )}
        {inputTemplate && (
          <>
            <dt>What the agent is asked</dt>
            <dd class="template">{inputTemplate}</dd>
          </>
        )}
        {queue && (
          <>
            <dt>Queue</dt>
            <dd>{queue}</dd>
          </>
        )}
        <dt>Window</dt>
        <dd>
          {completion_window}
          {expires_at && (
            <>
              , until <Time at={expires_at * 1_000} />
            </>
          )}
        </dd>
        {usage && (
          <>
            <dt>Tokens</dt>
            <dd class="number">
              {formatCount(usage.input_tokens)} in, {formatCount(usage.output_tokens)} out
            </dd>
          </>
        )}
        {Object.entries(metadata ?? {}).map(([key, value]) => (
          <>
            <dt>{key}</dt>
            <dd>{value}</dd>
          </>
        ))}
      </dl>
    </section>
  );
}
