import type { AgentThen, CallView, PolicyView } from '../../../../shared/contract/archive/run-steps.ts';
import { Json } from '../../ui/json.tsx';
import { Status } from '../../ui/status.tsx';
import { formatDuration, Time } from '../../ui/time.tsx';
import { LongText } from './long-text.tsx';
import { Part } from './part.tsx';
import { flowText } from './record/findings.ts';
import { anchorOfCall, byWhom } from './record/waterfall.ts';

export interface CallProps {
  readonly runId: string;
  readonly stepNumber: number;
  readonly call: CallView;
  /** What the agent was when the run began, where that is known. */
  readonly agentThen: AgentThen | undefined;
  readonly target: string;
  readonly isOver: boolean;
}

/** One call of a tool: its arguments, its result or its error, and what people and policies said about it. */
export function Call({ runId, stepNumber, call, agentThen, target, isOver }: CallProps) {
  const { toolCallId, toolName, error, durationMs, inner, childRunId, result } = call;
  const anchor = anchorOfCall(runId, stepNumber, toolCallId);
  const holdsTarget = inner.some((each) => target === anchorOfCall(runId, stepNumber, each.toolCallId));
  return (
    <Part
      anchor={anchor}
      isOpen={error !== undefined || inner.some((each) => each.error !== undefined)}
      isTarget={target === anchor}
      holdsTarget={holdsTarget}
      {...(error && { tone: 'bad' as const })}
      head={
        <>
          <code class="call-name">{toolName}</code>
          <CallStatus call={call} isOver={isOver} />
          {call.decision && <Decided call={call} />}
          <span class="head-end">
            {durationMs !== undefined && <span class="number">{formatDuration(durationMs)}</span>}
          </span>
        </>
      }
    >
      {error && (
        <div class="problem">
          <p>
            <code>{error.kind}</code> {error.message}
          </p>
          {error.kind === 'outcome_unknown' && (
            <p>It may have taken effect. Look in the system that it acts on before anybody makes it again.</p>
          )}
          <p class="soft">The model got this error, with the advice “{error.hint.replaceAll('_', ' ')}”.</p>
        </div>
      )}
      {childRunId && (
        <p>
          Another run does it: <a href={`/runs/${encodeURIComponent(childRunId)}`}>{childRunId}</a>
        </p>
      )}
      <Arguments call={call} />
      {error?.kind === 'invalid_input' && <Accepted tool={agentThen?.tools.find(({ name }) => name === toolName)} />}
      <Result call={call} />
      {!result && !error && <p class="soft">{isOver ? 'It had no result when the run ended.' : 'No result yet.'}</p>}
      <Rules call={call} />
      {inner.length > 0 && (
        <section class="stack-small">
          <h5>Calls of its script</h5>
          {inner.map((each) => (
            <Call key={each.toolCallId} {...{ runId, stepNumber, call: each, agentThen, target, isOver }} />
          ))}
        </section>
      )}
      <p class="soft">
        {call.startedAt && (
          <>
            Began <Time at={call.startedAt} /> ·{' '}
          </>
        )}
        {call.starts !== undefined && `begun ${call.starts} times · `}
        <code>{toolCallId}</code>
      </p>
    </Part>
  );
}

function CallStatus({ call: { error, result }, isOver }: { call: CallView; isOver: boolean }) {
  if (error) return <Status status="failed" label={error.kind.replaceAll('_', ' ')} />;
  if (result) return <Status status="completed" label="ended" />;
  return isOver ? <Status status="cancelled" label="no result" /> : <Status status="running" label="under way" />;
}

function Decided({ call: { decision } }: { call: CallView }) {
  if (!decision) return null;
  const { granted, by, reason, edited, answered, at } = decision;
  const what = answered ? 'answered' : granted ? (edited ? 'granted with other arguments' : 'granted') : 'denied';
  const who = byWhom(by) || (reason === 'expired' ? 'because no decision came in time' : 'by a person without a name');
  return (
    <span class={granted || answered ? undefined : 'tone-bad'}>
      {what} {who} <Time at={at} />
    </span>
  );
}

function Arguments({ call: { args, modelArgs, argsMasked } }: { call: CallView }) {
  return (
    <section class="stack-small">
      <h5>
        Arguments
        {modelArgs !== undefined && ' as a person put them'}
        {argsMasked && <span class="soft"> · something in them is masked</span>}
      </h5>
      <Json value={args} />
      {modelArgs !== undefined && (
        <>
          <h5>Arguments as the model wrote them</h5>
          <Json value={modelArgs} />
        </>
      )}
    </section>
  );
}

/** Stands beside arguments that do not fit. */
function Accepted({ tool }: { tool: AgentThen['tools'][number] | undefined }) {
  if (!tool?.parameters) return null;
  return (
    <section class="stack-small">
      <h5>What {tool.name} takes</h5>
      <Json value={tool.parameters} open={3} copy={false} />
    </section>
  );
}

function Result({ call: { result } }: { call: CallView }) {
  if (!result) return null;
  const { content, trust, sensitivity, handle, withheld, cut } = result;
  const labels = [trust, sensitivity].filter((label) => label !== undefined).join(', ');
  return (
    <section class="stack-small">
      <h5>Result {labels && <span class="soft">· {labels}</span>}</h5>
      {withheld ? (
        <p class="soft">It is secret: no page shows it.</p>
      ) : content === '' ? (
        <p class="soft">It is empty.</p>
      ) : (
        <LongText text={content} label="result" />
      )}
      {cut && <p class="soft">Only its beginning is kept.</p>}
      {handle && (
        <p class="soft">
          All of it is kept as <code>{handle}</code>.
        </p>
      )}
    </section>
  );
}

/** What policies said about it. */
function Rules({ call: { policy, flow, decision } }: { call: CallView }) {
  if (policy.length === 0 && flow.length === 0 && !decision?.reason) return null;
  return (
    <ul class="plain-list">
      {decision?.reason && <li>Reason given: {decision.reason}</li>}
      {policy.map((each) => (
        <li key={`${each.at} ${each.ruleId}`}>{policyText(each)}</li>
      ))}
      {flow.map(({ at, decision: done, mode, findings, by }) => (
        <li key={at}>
          Data flow {done} ({mode}): {findings.map(flowText).join('; ')} {by && byWhom([by])}
        </li>
      ))}
    </ul>
  );
}

function policyText({ action, ruleId, reason }: PolicyView): string {
  return ['Policy', action.replaceAll('_', ' '), ruleId && `by rule ${ruleId}`, reason && `: ${reason}`]
    .filter(Boolean)
    .join(' ');
}
