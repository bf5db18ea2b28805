import type { NewRun } from '../../../shared/state/run/create-runs.ts';
import { factsOf } from '../../../shared/contract/run-facts.ts';
import type { RunStatus } from '../../../shared/contract/run.ts';
import type { Link } from '../client-core.ts';

export function tellAccepted(
  run: NewRun,
  { status, attached }: { readonly status: RunStatus; readonly attached: boolean },
  link: Link,
): void {
  link.onRun({ kind: 'accepted', ...factsOf(run), status, attached, thread: run.request.thread });
}
