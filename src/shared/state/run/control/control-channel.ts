import type { CancelRequest } from '../../../contract/control.ts';

/** A wake-up: somebody asked to cancel a run. The durable flag is what counts; the channel only makes it fast. */
export interface ControlChannel {
  /** Calls back for every cancel of any run, until disposed. */
  onCancel(listener: (runId: string, cancel: CancelRequest) => void): Disposable;
}
