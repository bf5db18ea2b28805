import type { RunSteps } from '../../../shared/contract/archive/run-steps.ts';
import type { FleetView } from '../../../shared/contract/report/fleet.ts';
import { useQuery } from '../query.ts';

const fleetMs = 60_000;
/** The id of the provider that answers by a script, as attempts name it. */
const scriptedProvider = 'scripted';

/** Where answers will come from a script: on what lists and begins runs. */
export function ScriptedFleet() {
  const { data } = useQuery<Pick<FleetView, 'providers'>>('/v1/fleet', fleetMs);
  const providers = data?.providers ?? [];
  const scripts = providers.filter(({ kind }) => kind === 'builtin' || kind === 'scripted').length;
  if (scripts === 0) return null;
  return (
    <p class="made-up" role="note">
      <strong>
        {scripts === providers.length ? 'No real model answers here.' : 'Not all workers have a real model.'}
      </strong>{' '}
      The answers come from a script, and costs are what a model would have taken. To talk to a model, give the workers
      an <code>OPENAI_API_KEY</code> and no <code>MILLRACE_SCRIPT</code>.
    </p>
  );
}

/** Where they have come from one: on the page of a run. */
export function ScriptedRun({ steps: { steps } }: { steps: RunSteps }) {
  const attempts = steps.flatMap((step) => step.attempts).filter(({ outcome }) => outcome === 'succeeded');
  const scripted = attempts.filter(({ provider }) => provider === scriptedProvider).length;
  if (scripted === 0) return null;
  return (
    <p class="made-up" role="note">
      <strong>
        {scripted === attempts.length
          ? 'A script answered this run, not a real model.'
          : `A script gave ${scripted} of the ${attempts.length} answers in this run, not a real model.`}
      </strong>{' '}
      Its cost is what a model would have taken.
    </p>
  );
}
