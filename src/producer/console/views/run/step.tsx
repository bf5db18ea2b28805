import type { RunSteps, ShownMessage, StepView } from '../../../../shared/contract/archive/run-steps.ts';
import { formatCount, Money } from '../../ui/money.tsx';
import { Status } from '../../ui/status.tsx';
import { formatDuration, Time } from '../../ui/time.tsx';
import { Call } from './call.tsx';
import { LongText } from './long-text.tsx';
import { Part } from './part.tsx';
import { mediaHref } from './record/links.ts';
import { allCalls, anchorOfCall, anchorOfStep, timeOf } from './record/waterfall.ts';

export interface StepProps {
  readonly runId: string;
  readonly step: StepView;
  /** All times at which the run waited without a worker. */
  readonly waits: RunSteps['waits'];
  readonly agentThen: RunSteps['agentThen'];
  /** Open when the page is opened. */
  readonly isOpen: boolean;
  /** The anchor that the reader was sent to. */
  readonly target: string;
  readonly isOver: boolean;
}

/** One model call with everything around it: what was new in its request, its attempts, its answer and its calls. */
export function Step({ runId, step, waits, agentThen, isOpen, target, isOver }: StepProps) {
  const { stepNumber, model, costMicrocents, usage, calls } = step;
  const anchor = anchorOfStep(runId, stepNumber);
  const failed = calls.filter(({ error }) => error !== undefined).length;
  const holdsTarget = allCalls([step]).some(({ toolCallId }) => target === anchorOfCall(runId, stepNumber, toolCallId));
  return (
    <Part
      anchor={anchor}
      isOpen={isOpen}
      isTarget={target === anchor}
      holdsTarget={holdsTarget}
      head={
        <>
          <h3>Step {stepNumber}</h3>
          <StepStatus step={step} isOver={isOver} />
          <span class="soft">{model}</span>
          {calls.length > 0 && (
            <span class="soft">
              {calls.length === 1 ? calls[0]?.toolName : `${calls.length} calls`}
              {failed > 0 && <span class="tone-bad"> · {failed} failed</span>}
            </span>
          )}
          <span class="head-end">
            <Took from={step.startedAt} to={step.endedAt} waits={waits} />
            {usage && <span class="soft number wide-only">{formatCount(usage.total)} tokens</span>}
            <Money microcents={costMicrocents} />
          </span>
        </>
      }
    >
      <Before step={step} />
      {step.request.added.length > 0 && <Messages title="New in the request" messages={step.request.added} />}
      <Attempts step={step} />
      <Answer step={step} />
      {calls.length > 0 && (
        <section class="stack-small">
          <h4>Calls</h4>
          {calls.map((call) => (
            <Call key={call.toolCallId} {...{ runId, stepNumber, call, agentThen, target, isOver }} />
          ))}
        </section>
      )}
    </Part>
  );
}

function StepStatus({ step: { answer, endedAt, attempts }, isOver }: { step: StepView; isOver: boolean }) {
  const hasFailed = attempts.length > 0 && attempts.every(({ outcome }) => outcome !== 'succeeded');
  if (answer) return <Status status="completed" label={endedAt || isOver ? 'answered' : 'answered, calls go on'} />;
  if (hasFailed && isOver) return <Status status="failed" label="no answer" />;
  return isOver ? (
    <Status status="cancelled" label="broken off" />
  ) : (
    <Status status="running" label="waits for the model" />
  );
}

interface TookProps extends Pick<StepProps, 'waits'> {
  readonly from: string | undefined;
  readonly to: string | undefined;
}

/** Without what it waited for people and others: that is no work of the step. */
function Took({ from, to, waits }: TookProps) {
  const fromMs = timeOf(from);
  const toMs = timeOf(to);
  if (fromMs === undefined || toMs === undefined) return null;
  const waitedMs = waits.reduce((sum, wait) => {
    const ms = Math.min(toMs, timeOf(wait.to) ?? toMs) - Math.max(fromMs, timeOf(wait.from) ?? fromMs);
    return sum + Math.max(0, ms);
  }, 0);
  return (
    <span class="number">
      {formatDuration(toMs - fromMs - waitedMs)}
      {waitedMs > 0 && <span class="soft"> + {formatDuration(waitedMs)} waiting</span>}
    </span>
  );
}

/** What happened between the step before and this one. */
function Before({ step: { compaction, handoff, resets, mediaJob, startedAt, firstTokenAt } }: { step: StepView }) {
  const startedMs = timeOf(startedAt);
  const firstMs = timeOf(firstTokenAt);
  return (
    <>
      {(startedAt || firstMs !== undefined) && (
        <p class="soft">
          {startedAt && (
            <>
              Began <Time at={startedAt} />
            </>
          )}
          {startedMs !== undefined &&
            firstMs !== undefined &&
            ` · first token ${formatDuration(firstMs - startedMs)} later`}
        </p>
      )}
      {handoff && (
        <p>
          The agent <b>{handoff.from}</b> handed the conversation to <b>{handoff.to}</b>.
        </p>
      )}
      {resets !== undefined && (
        <p class="tone-wait">
          ‖ The answer broke off {resets === 1 ? 'once' : `${resets} times`} and was asked for again: its worker died,
          or the stream ended early.
        </p>
      )}
      {mediaJob && (
        <p>
          The provider works on it as job <code>{mediaJob.jobId}</code>, submitted <Time at={mediaJob.submittedAt} />.
        </p>
      )}
      {compaction && (
        <details>
          <summary>
            A summary took the place of older messages: {formatCount(compaction.beforeTokens)} →{' '}
            {formatCount(compaction.afterTokens)} tokens
          </summary>
          <LongText text={compaction.summary} label="summary" />
        </details>
      )}
    </>
  );
}

const attemptWords = { succeeded: 'completed', failed: 'failed', skipped: 'cancelled' } as const;

/** Shown where there is more to say than that the first one succeeded. */
function Attempts({ step: { attempts, fallbacks } }: { step: StepView }) {
  const isPlain =
    attempts.length <= 1 && fallbacks.length === 0 && attempts.every(({ outcome }) => outcome === 'succeeded');
  if (isPlain) return null;
  return (
    <section class="stack-small">
      <h4>Attempts</h4>
      <div class="scrolls" role="region" aria-label="Attempts" tabIndex={0}>
        <table class="simple">
          <thead>
            <tr>
              <th scope="col">Model</th>
              <th scope="col">Outcome</th>
              <th scope="col">Why</th>
              <th scope="col" class="end">
                Took
              </th>
              <th scope="col" class="end">
                Cost
              </th>
              <th scope="col">Request id</th>
            </tr>
          </thead>
          <tbody>
            {attempts.map((attempt) => (
              <tr key={`${attempt.requestId} ${attempt.attemptNumber} ${attempt.model}`}>
                <td>
                  {attempt.model} <span class="soft">{attempt.provider}</span>
                </td>
                <td>
                  <Status status={attemptWords[attempt.outcome]} label={attempt.outcome} />
                  {attempt.purpose === 'summary' && <span class="soft"> for a summary</span>}
                </td>
                <td class="any-wrap">
                  {attempt.error && `${attempt.error.kind}: ${attempt.error.message}`}
                  {attempt.skipReason}
                </td>
                <td class="end number">{formatDuration(attempt.latencyMs)}</td>
                <td class="end">
                  <Money microcents={attempt.priced ? attempt.costMicrocents : undefined} />
                </td>
                <td class="mono any-wrap">{attempt.providerRequestId ?? attempt.requestId}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {fallbacks.map(({ from, to, reason, at }) => (
        <p key={`${at} ${to}`}>
          Fell back from <b>{from}</b> to <b>{to}</b>: {reason.replaceAll('-', ' ')}.
        </p>
      ))}
    </section>
  );
}

function Answer({ step: { answer } }: { step: StepView }) {
  if (!answer) return null;
  const { text, reasoning, finishReason, media } = answer;
  return (
    <section class="stack-small">
      <h4>
        Answer{' '}
        {finishReason !== 'stop' && finishReason !== 'tool_use' && <span class="tone-wait">({finishReason})</span>}
      </h4>
      {reasoning && (
        <details>
          <summary>Reasoning</summary>
          <LongText text={reasoning} label="reasoning" />
        </details>
      )}
      {text === '' ? (
        <p class="soft">{media ? `${media.length} media` : 'No text, only calls.'}</p>
      ) : (
        <LongText text={text} label="answer" />
      )}
      {media?.map((each) => (
        <MediaLink key={each.handle} handle={each.handle} mediaType={each.mediaType} />
      ))}
    </section>
  );
}

function MediaLink({ handle, mediaType }: { handle: string; mediaType: string | undefined }) {
  return (
    <p>
      <a href={mediaHref(handle)}>{mediaType ?? 'a file'}</a>
    </p>
  );
}

const roles = { system: 'System', user: 'User', assistant: 'Assistant', tool: 'Tool' } as const;
const userKinds = {
  steered: 'User, while it worked',
  repair: 'Repair: the answer was refused',
  loop_guard: 'Loop guard',
  pinned: 'Kept by a hook',
  summary: 'Summary of older messages',
  closing: 'Asked for a closing answer',
} as const;

/** A part of a conversation. */
export function Messages({ title, messages }: { title: string; messages: readonly ShownMessage[] }) {
  const shown = messages.filter((message) => message.role !== 'tool' || message.content !== undefined);
  const results = messages.length - shown.length;
  return (
    <section class="stack-small">
      <h4>{title}</h4>
      {results > 0 && (
        <p class="soft">
          {results === 1 ? 'The result of the call' : `The results of ${results} calls`} of the step before.
        </p>
      )}
      {shown.map((message, index) => (
        <div key={index} class={`message message-${message.role}`}>
          <p class="message-role">{roleOf(message)}</p>
          <LongText text={message.content ?? ''} label={roles[message.role].toLowerCase()} />
          {message.role === 'user' && message.files && (
            <p class="soft">with {message.files.map(({ name }) => name).join(', ')}</p>
          )}
          {message.role === 'assistant' && message.calls && (
            <p class="soft">called {message.calls.map(({ toolName }) => toolName).join(', ')}</p>
          )}
        </div>
      ))}
    </section>
  );
}

function roleOf(message: ShownMessage): string {
  if (message.role === 'user' && message.kind) return userKinds[message.kind];
  if (message.role === 'tool') return `${message.isError ? 'Error of' : 'Result of'} ${message.toolName}`;
  return roles[message.role];
}
