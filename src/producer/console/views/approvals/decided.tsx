import type { DecisionView } from '../../../../shared/contract/decisions.ts';
import { pendingNameOf } from '../../../../shared/contract/plain/pending.ts';
import type { CallView, RunSteps } from '../../../../shared/contract/archive/run-steps.ts';
import type { RunView } from '../../../../shared/contract/run.ts';
import { Changes } from '../../forms/arguments-form.tsx';
import { changesBetween } from '../../forms/edit-value.ts';
import { useQuery } from '../../query.ts';
import { Json } from '../../ui/json.tsx';
import { Problem } from '../../ui/states.tsx';
import { Time } from '../../ui/time.tsx';
import { loadMore } from './inbox.ts';
import { decidedCallIn, decisionWords } from './words.ts';

const takingUpMs = 2_000;

/** What people decided about a call, with the arguments that the model wrote and those that were granted, as its run keeps them. */
export function Decided({ runId, toolCallId, args }: { runId: string; toolCallId: string; args?: unknown }) {
  const path = `/v1/runs/${encodeURIComponent(runId)}`;
  const run = useQuery<RunView>(path, takingUpMs);
  const steps = useDecidedCall(path, toolCallId, run.data);
  if (run.error && !run.data) return <Problem error={run.error} retry={run.reload} />;
  if (!run.data) return null;
  const decision = run.data.decisions?.findLast((each) => each.toolCallId === toolCallId);
  const stillWaits = run.data.pending.some((item) => pendingNameOf(item) === toolCallId);
  return (
    <>
      <p class="gone" role="status">
        {decision && !stillWaits ? decisionWords(decision) : stillWaits ? 'It still waits.' : 'This waits no longer.'}{' '}
        The run is {run.data.status}. <a href={`/runs/${encodeURIComponent(runId)}`}>Look at the run</a>
        {stillWaits && (
          <button type="button" onClick={() => void loadMore()}>
            Read more of what waits
          </button>
        )}
      </p>
      {decision && !stillWaits && <Verdict {...{ decision, args }} call={steps} />}
    </>
  );
}

/** A worker writes a decision into the journal of the run when it takes the run up: until then it is looked for again. */
function useDecidedCall(path: string, toolCallId: string, run: RunView | undefined): CallView | undefined {
  const isOver = run?.endedAt !== undefined;
  const { data } = useQuery<RunSteps>(run && `${path}/steps`, isOver ? undefined : takingUpMs);
  return data && decidedCallIn(data.steps, toolCallId);
}

function Verdict({ decision, call, args }: { decision: DecisionView; call: CallView | undefined; args: unknown }) {
  const isKnown = call?.decision !== undefined;
  const asked = call ? (call.modelArgs ?? call.args) : args;
  const isEdited = call?.modelArgs !== undefined;
  return (
    <>
      <dl class="facts">
        <dt>Decided</dt>
        <dd>
          <Time at={decision.at} />
        </dd>
      </dl>
      {isEdited && (
        <Changes changes={changesBetween(call.modelArgs, call.args)} caption="What was changed" afterIs="Granted" />
      )}
      {isEdited && <Arguments title="Arguments as they were granted" args={call.args} />}
      {!isEdited && asked !== undefined && <Arguments title="Arguments as the model wrote them" args={asked} />}
      {decision.edited && !isKnown && (
        <p class="soft">What was put in their place is shown once a worker has taken the run up.</p>
      )}
      {call?.argsMasked && <p class="soft">Something in them is masked.</p>}
      {decision.answered && call?.result && (
        <section>
          <h3>Answer</h3>
          {call.result.withheld ? <p class="soft">It is secret.</p> : <pre class="prose">{call.result.content}</pre>}
        </section>
      )}
    </>
  );
}

function Arguments({ title, args }: { title: string; args: unknown }) {
  return (
    <section aria-label="Arguments">
      <h3>{title}</h3>
      <Json value={args} />
    </section>
  );
}
