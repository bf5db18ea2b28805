import type { RunEvent } from '../shared/contract/event.ts';

/** A call of a run. Its id names it within its step only: some providers number the calls of each answer anew. */
interface CallOfStep {
  readonly runId: string;
  readonly stepNumber: number;
  readonly toolCallId: string;
}

export function callKey({ runId, stepNumber, toolCallId }: CallOfStep): string {
  return `${runId} ${stepNumber} ${toolCallId}`;
}

/** The step that each run is at, by the events that it has had. The start of a step is written before its calls begin. */
export class CurrentSteps {
  readonly #steps = new Map<string, number>();

  saw(event: RunEvent): void {
    if (event.type === 'step.start') this.#steps.set(event.runId, event.stepNumber);
  }

  /** From 1. Before the first step, and of a run that is not known, 0. */
  of(runId: string): number {
    return this.#steps.get(runId) ?? 0;
  }
}
