import type { RunSteps } from '../../../../shared/contract/archive/run-steps.ts';
import type { RunView } from '../../../../shared/contract/run.ts';
import { Status } from '../../ui/status.tsx';
import { formatDuration, Time } from '../../ui/time.tsx';
import type { Finding } from './record/findings.ts';
import { allCalls, anchorOfCall, byWhom, timeOf, waitLabels } from './record/waterfall.ts';

export interface RulesProps {
  readonly run: RunView;
  readonly steps: RunSteps;
  readonly findings: readonly Finding[];
  readonly onGo: (anchor: string) => void;
}

/** What people decided, what it waited for, and what policies and guards found. */
export function Rules({ run, steps, findings, onGo }: RulesProps) {
  const { decisions = [] } = run;
  if (findings.length === 0 && decisions.length === 0 && steps.waits.length === 0)
    return <p class="soft">No policy, no guard and no person had anything to say about this run.</p>;
  return (
    <div class="stack">
      {decisions.length > 0 && <Decisions {...{ run, steps, onGo }} />}
      {steps.waits.length > 0 && <Waits steps={steps} />}
      {findings.length > 0 && <Findings {...{ findings, onGo }} />}
    </div>
  );
}

function Decisions({ run: { runId, decisions = [] }, steps, onGo }: Omit<RulesProps, 'findings'>) {
  const go = (toolCallId: string) => {
    const step = steps.steps.findLast((each) => allCalls([each]).some((call) => call.toolCallId === toolCallId));
    if (step) onGo(anchorOfCall(runId, step.stepNumber, toolCallId));
  };
  return (
    <section class="stack-small">
      <h2>Decisions</h2>
      <div class="scrolls" role="region" aria-label="Decisions" tabIndex={0}>
        <table class="simple">
          <thead>
            <tr>
              {['When', 'Call', 'Decision', 'By', 'Reason'].map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {decisions.map(({ toolCallId, toolName, granted, answered, by, at, reason, edited, votes = [] }) => (
              <tr key={`${toolCallId} ${at}`}>
                <td>
                  <Time at={at} />
                </td>
                <td>
                  <button type="button" class="quiet" onClick={() => go(toolCallId)}>
                    {toolName ?? toolCallId}
                  </button>
                </td>
                <td>
                  <Status {...decisionLook(granted, answered, edited)} />
                </td>
                <td>{by.length > 0 ? by.join(', ') : <span class="soft">no name given</span>}</td>
                <td class="any-wrap">
                  {reason}
                  {votes.length > 1 && <span class="soft"> {votes.length} votes</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function decisionLook(granted: boolean | undefined, answered: true | undefined, edited: true | undefined) {
  if (answered) return { status: 'completed', label: 'answered' };
  if (granted === undefined) return { status: 'suspended', label: 'more have to agree' };
  if (!granted) return { status: 'failed', label: 'denied' };
  return { status: 'completed', label: edited ? 'granted, with other arguments' : 'granted' };
}

function Waits({ steps: { waits } }: { steps: RunSteps }) {
  return (
    <section class="stack-small">
      <h2>Waits</h2>
      <ul class="plain-list">
        {waits.map(({ reason, from, to, by, summary, waitsFor }) => {
          const toMs = timeOf(to);
          return (
            <li key={from}>
              <Time at={from} /> it {waitLabels[reason].replace('waits', 'waited')}
              {waitsFor.length > 0 && ` (${waitsFor.map(({ toolName, id }) => toolName ?? id).join(', ')})`}
              {toMs === undefined ? ', and waits still' : ` for ${formatDuration(toMs - Date.parse(from))}`}
              {summary && `: ${summary}`} {byWhom(by)}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

const kinds: Readonly<Record<Finding['kind'], string>> = {
  policy: 'Policy',
  flow: 'Data flow',
  loop: 'Loop guard',
  leak: 'Leak guard',
  money: 'Money',
  tools: 'Tools of a server',
  outcome: 'Recovery',
};

function Findings({ findings, onGo }: { findings: readonly Finding[]; onGo: (anchor: string) => void }) {
  return (
    <section class="stack-small">
      <h2>Findings</h2>
      <div class="scrolls" role="region" aria-label="Findings" tabIndex={0}>
        <table class="simple">
          <thead>
            <tr>
              {['When', 'Who found it', 'About', 'What was done', 'Why'].map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {findings.map(({ at, kind, about, action, text, by, anchor, isStop }, index) => (
              <tr key={`${at} ${index}`}>
                <td>
                  <Time at={at} />
                </td>
                <td>{kinds[kind]}</td>
                <td>
                  {anchor === undefined ? (
                    about
                  ) : (
                    <button type="button" class="quiet" onClick={() => onGo(anchor)}>
                      {about}
                    </button>
                  )}
                </td>
                <td>
                  <Status tone={isStop ? 'bad' : 'wait'} status="found" label={action.replaceAll('_', ' ')} />
                </td>
                <td class="any-wrap">
                  {text} {by && byWhom([by])}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
