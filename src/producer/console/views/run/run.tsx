import { useLocation } from 'preact-iso/router';
import { useCallback, useEffect, useMemo, useState } from 'preact/hooks';
import type { RunSteps } from '../../../../shared/contract/archive/run-steps.ts';
import { isTerminalStatus } from '../../../../shared/contract/plain/ends.ts';
import { session } from '../../session.ts';
import { formatCount } from '../../ui/money.tsx';
import { ScriptedRun } from '../../ui/scripted.tsx';
import { Empty, Loading, Problem } from '../../ui/states.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { Actions } from './actions.tsx';
import { Costs } from './costs.tsx';
import { Events } from './events.tsx';
import { Rules } from './findings.tsx';
import { Header } from './header.tsx';
import { LiveAnswer } from './live-answer.tsx';
import { NewRun } from './new-run.tsx';
import { absenceOf } from './record/absence.ts';
import { anchorIn } from './record/links.ts';
import { findingsOf } from './record/findings.ts';
import { allCalls, anchorOfCall, anchorOfStep } from './record/waterfall.ts';
import { Request } from './request.tsx';
import './run.css';
import { Step } from './step.tsx';
import { Timeline } from './timeline.tsx';
import { useNow, useRun, type RunState } from './use-run.ts';

/** No id of a run is as short as this. */
const newRunId = 'new';
/** Steps that are drawn before anybody asks for more: the last ones. */
const firstSteps = 50;

/** One run, while it works and for as long as it is kept. `/runs/new` starts one. */
export function RunView({ id = '' }: { id?: string }) {
  const runId = decodeURIComponent(id);
  return runId === newRunId ? <NewRun /> : <OneRun key={runId} runId={runId} />;
}

function OneRun({ runId }: { runId: string }) {
  const state = useRun(runId);
  const { run, steps, error } = state;
  const isOver = run !== undefined && isTerminalStatus(run.status);
  const cancelled = state.log.notable.findLast((event) => event.type === 'run.cancelled');
  const [target, go] = useTarget();
  if (!run) return error ? <Missing state={state} runId={runId} /> : <Loading what="Reading the run" />;
  return (
    <article class="stack run-page">
      {error && <Problem error={error} retry={state.reload} />}
      <Header
        {...{ run, steps, cancelled, onGo: go }}
        note={steps && <ScriptedRun steps={steps} />}
        actions={<Actions run={run} steps={steps} onChanged={state.reload} onRedriven={state.followOn} />}
        live={!isOver && <LiveAnswer live={state.live} following={state.following} />}
      />
      {steps ? (
        <Parts {...{ state, steps, target, isOver, onGo: go }} />
      ) : state.stepsError ? (
        <Problem error={state.stepsError} retry={state.reload} />
      ) : (
        <Loading what="Reading its steps" />
      )}
    </article>
  );
}

interface PartsProps {
  readonly state: RunState;
  readonly steps: RunSteps;
  readonly target: string;
  readonly isOver: boolean;
  readonly onGo: (anchor: string) => void;
}

function Parts({ state, steps, target, isOver, onGo }: PartsProps) {
  const { run, log } = state;
  const findings = useMemo(() => findingsOf(steps, log.notable), [steps, log.notable]);
  if (!run) return null;
  const said = findings.length + (run.decisions?.length ?? 0);
  return (
    <Tabs
      label="Parts of the run"
      tabs={[
        { id: 'steps', label: 'Steps', content: () => <Steps {...{ state, steps, target, isOver, onGo }} /> },
        { id: 'cost', label: 'Cost', content: () => <Costs steps={steps} /> },
        {
          id: 'rules',
          label: said === 0 ? 'Decisions and findings' : `Decisions and findings (${formatCount(said)})`,
          content: () => <Rules {...{ run, steps, findings, onGo }} />,
        },
        { id: 'request', label: 'Request', content: () => <Request run={run} steps={steps} /> },
        {
          id: 'events',
          label: `Events (${formatCount(log.events.length)})`,
          content: () => <Events log={log} isArchived={steps.source === 'archive'} />,
        },
      ]}
    />
  );
}

function Steps({ state, steps, target, isOver, onGo }: PartsProps) {
  const nowMs = useNow(!isOver);
  const [count, setCount] = useState(firstSteps);
  const { runId, waits, agentThen } = steps;
  const { notable } = state.log;
  const place = useMemo(() => placeOf(target, steps), [target, steps]);
  const from = Math.min(Math.max(0, steps.steps.length - count), place);
  // Events come many times a second. What they do not change is not drawn again, and the timeline once a second.
  const timeline = useMemo(
    () => <Timeline {...{ steps, events: notable, nowMs, onGo }} />,
    [steps, isOver && notable, nowMs, onGo],
  );
  const shown = useMemo(() => {
    const { length } = steps.steps;
    return steps.steps.slice(from).map((step, index) => {
      const hasFailed = step.calls.some(({ error }) => error !== undefined);
      const isOpen = length <= 3 || from + index === length - 1 || hasFailed;
      return <Step key={step.stepNumber} {...{ runId, step, waits, agentThen, target, isOver, isOpen }} />;
    });
  }, [steps, from, target, isOver]);
  return (
    <div class="stack">
      {steps.truncated && (
        <p class="waiting">Something is missing: the log of the run was longer than what is kept of it.</p>
      )}
      {timeline}
      <section class="stack-small" aria-label="Steps">
        {from > 0 && (
          <button type="button" onClick={() => setCount(count + firstSteps)}>
            Show {Math.min(firstSteps, from)} earlier steps of {from}
          </button>
        )}
        {shown}
        {steps.steps.length === 0 && (
          <Empty title={isOver ? 'It ended before its first step.' : 'It has not begun its first step.'} />
        )}
      </section>
    </div>
  );
}

/** Which step has to be drawn so that the anchor is on the page. */
function placeOf(target: string, { runId, steps }: RunSteps): number {
  const at = steps.findIndex(
    (step) =>
      target === anchorOfStep(runId, step.stepNumber) ||
      allCalls([step]).some(({ toolCallId }) => target === anchorOfCall(runId, step.stepNumber, toolCallId)),
  );
  return at < 0 ? Number.POSITIVE_INFINITY : at;
}

/** The part of the page that the URL points at (`#…`), and a way to go to another one. */
function useTarget(): readonly [string, (anchor: string) => void] {
  const [target, setTarget] = useState(() => anchorIn(location.hash));
  const { route } = useLocation();
  useEffect(() => {
    const read = () => setTarget(anchorIn(location.hash));
    window.addEventListener('hashchange', read);
    return () => window.removeEventListener('hashchange', read);
  }, []);
  const go = useCallback((anchor: string) => {
    const query = new URLSearchParams(location.search);
    // Anchors are in the first tab.
    query.delete('tab');
    const text = query.toString();
    route(`${location.pathname}${text && `?${text}`}#${encodeURIComponent(anchor)}`, true);
    // The same anchor again leads there again.
    setTarget('');
    requestAnimationFrame(() => setTarget(anchor));
  }, []);
  return [target, go];
}

function Missing({ state: { error, reload }, runId }: { state: RunState; runId: string }) {
  if (!error) return null;
  const now = session.value;
  const absence = absenceOf(error, now.state === 'in' ? now.tenant : '');
  if (!absence) return <Problem error={error} retry={reload} />;
  return (
    <Empty title={absence.title}>
      <p>
        <code>{runId}</code>
      </p>
      <p>{absence.text}</p>
      <p>
        <a href="/runs">Go to the runs</a>
      </p>
    </Empty>
  );
}
