import type { CancelRequest } from '../shared/control.ts';
import type { RunEvent } from '../shared/event.ts';
import type { RunOutcomeView, RunStatus, RunView } from '../shared/run.ts';
import type { EventsOptions, ResultOptions } from './options.ts';

/** What a handle passes on to the client that made it. */
interface RunOperations {
  events(runId: string, options?: EventsOptions): AsyncIterable<RunEvent>;
  result(runId: string, options?: ResultOptions): Promise<RunOutcomeView>;
  cancel(runId: string, request?: Partial<CancelRequest>): Promise<RunView>;
  get(runId: string): Promise<RunView>;
}

/** One run of one client. Holds nothing open: it may be dropped at any time. */
export class RunHandle {
  readonly runId: string;
  /** The state when `enqueue` answered; undefined on a handle made by `Millrace.run`. */
  readonly status: RunStatus | undefined;
  /** The execution id was known already, and this is the run it stands for. */
  readonly attached: boolean;
  readonly #operations: RunOperations;

  constructor(operations: RunOperations, runId: string, status?: RunStatus, attached = false) {
    this.#operations = operations;
    this.runId = runId;
    this.status = status;
    this.attached = attached;
  }

  /** See {@link Millrace.events}. */
  events(options?: EventsOptions): AsyncIterable<RunEvent> {
    return this.#operations.events(this.runId, options);
  }

  /** See {@link Millrace.result}. A failed run does not throw: `status` and `error` say so. */
  result(options?: ResultOptions): Promise<RunOutcomeView> {
    return this.#operations.result(this.runId, options);
  }

  /** See {@link Millrace.cancel}. */
  cancel(request?: Partial<CancelRequest>): Promise<RunView> {
    return this.#operations.cancel(this.runId, request);
  }

  /** See {@link Millrace.get}. */
  get(): Promise<RunView> {
    return this.#operations.get(this.runId);
  }
}
