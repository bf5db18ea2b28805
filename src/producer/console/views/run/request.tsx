import type { AgentThen, RunSteps } from '../../../../shared/contract/archive/run-steps.ts';
import type { RunView } from '../../../../shared/contract/run.ts';
import { Json } from '../../ui/json.tsx';
import { LongText } from './long-text.tsx';
import { Messages } from './step.tsx';

/** What was asked, what the agent was then, and the conversation before its first answer. */
export function Request({ run: { request }, steps }: { run: RunView; steps: RunSteps }) {
  return (
    <div class="stack">
      <section class="stack-small">
        <h2>Request</h2>
        {request ? <Json value={request} open={3} /> : <p class="soft">What was asked is not known any more.</p>}
      </section>
      {steps.agentThen && <Agent then={steps.agentThen} />}
      {steps.initial.length > 0 && (
        <Messages title="The conversation before its first answer" messages={steps.initial} />
      )}
    </div>
  );
}

/** What its definition gave the model. What Millrace adds to that for every agent, such as how results are marked, is left out. */
function Agent({ then: { instructions, tools } }: { then: AgentThen }) {
  return (
    <section class="stack-small">
      <h2>Its agent, as it was then</h2>
      <h4>Instructions</h4>
      {instructions === '' ? <p class="soft">It had none.</p> : <LongText text={instructions} label="instructions" />}
      <h4>Tools</h4>
      {tools.length === 0 && <p class="soft">It had none of its own.</p>}
      {tools.map(({ name, description, parameters }) => (
        <details key={name}>
          <summary>
            <code>{name}</code> {description}
          </summary>
          {parameters && <Json value={parameters} open={3} />}
        </details>
      ))}
    </section>
  );
}
