import type { RunSteps } from '../../../../shared/contract/archive/run-steps.ts';
import type { RunView } from '../../../../shared/contract/run.ts';
import { Json } from '../../ui/json.tsx';
import { Messages } from './step.tsx';

/** What was asked, and what the model was shown before its first answer. */
export function Request({ run: { request }, steps }: { run: RunView; steps: RunSteps }) {
  return (
    <div class="stack">
      <section class="stack-small">
        <h2>Request</h2>
        {request ? <Json value={request} open={3} /> : <p class="soft">What was asked is not known any more.</p>}
      </section>
      {steps.initial.length > 0 && (
        <Messages title="What the model was shown before its first answer" messages={steps.initial} />
      )}
    </div>
  );
}
