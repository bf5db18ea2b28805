import type { NewRun } from '../../../shared/state/run/create-runs.ts';
import { factsOf } from '../../../shared/contract/run-facts.ts';
import type { RunStatus } from '../../../shared/contract/run.ts';
import type { ClientCore } from '../client-core.ts';

export function tellAccepted(
  run: NewRun,
  { status, attached }: { readonly status: RunStatus; readonly attached: boolean },
  core: ClientCore,
): void {
  core.onRun({ kind: 'accepted', ...factsOf(run), status, attached, thread: run.request.thread });
}
