import { useState } from 'preact/hooks';
import type { RunSteps, StepView } from '../../../../shared/contract/archive/run-steps.ts';
import type { ApprovalView } from '../../../../shared/contract/inbox/approvals.ts';
import type { RunView } from '../../../../shared/contract/run.ts';
import { useQuery } from '../../query.ts';
import { Loading, Problem } from '../../ui/states.tsx';
import { LongText } from '../run/long-text.tsx';
import { argumentsLine, beginningOfText } from './words.ts';

const mostSteps = 10;
const inputLines = 6;

/** What the run of an item was asked, and on demand what it did before it came to ask. */
export function Asked({ item: { runId, inputPreview } }: { item: ApprovalView }) {
  const path = `/v1/runs/${encodeURIComponent(runId)}`;
  const [isOpen, setOpen] = useState(false);
  const { data: run } = useQuery<RunView>(path);
  const text = run?.request?.input ?? inputPreview ?? '';
  const files = run?.files?.length ?? 0;
  return (
    <section aria-label="What the run was asked" class="stack-small">
      <h3>What the run was asked</h3>
      {text === '' ? (
        <p class="soft">Nothing in words.</p>
      ) : (
        <LongText {...{ text }} label="what the run was asked" lines={inputLines} />
      )}
      {files > 0 && (
        <p class="soft">
          With {files} {files === 1 ? 'file' : 'files'}: <a href={`/runs/${encodeURIComponent(runId)}`}>on its page</a>
        </p>
      )}
      <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>What it has done so far</summary>
        {isOpen && <Course path={path} />}
      </details>
    </section>
  );
}

function Course({ path }: { path: string }) {
  const { data, error, loading, reload } = useQuery<RunSteps>(`${path}/steps`);
  if (loading) return <Loading what="Reading its steps" />;
  if (!data) return error ? <Problem error={error} retry={reload} /> : null;
  const left = Math.max(0, data.steps.length - mostSteps);
  return (
    <>
      {left > 0 && <p class="soft">The first {left} steps are on the page of the run.</p>}
      <ol class="course" start={left + 1}>
        {data.steps.slice(left).map((step) => (
          <Step key={step.stepNumber} step={step} />
        ))}
      </ol>
    </>
  );
}

function Step({ step: { answer, calls } }: { step: StepView }) {
  return (
    <li>
      {answer && answer.text !== '' && <p>{beginningOfText(answer.text)}</p>}
      {calls.map(({ toolCallId, toolName, args, result, error }) => (
        <p key={toolCallId}>
          <code>{toolName}</code> <span class="mono">{argumentsLine(args)}</span>{' '}
          <span class="soft">
            → {error ? error.message : !result ? 'waits' : result.withheld ? 'secret' : beginningOfText(result.content)}
          </span>
        </p>
      ))}
    </li>
  );
}
