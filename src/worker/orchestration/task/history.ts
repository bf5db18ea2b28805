import { jsonBytes } from '../../../shared/base/json-value.ts';
import type { TaskActionOutcome, TaskDecision, TaskStep } from '../../../shared/contract/orchestration/task.ts';

/** Of all steps together, as JSON. What is beyond is taken from the oldest steps, whose outline stays. */
const maxHistoryBytes = 2 * 1024 * 1024;
/** Of one step, decision or outcome in an event. */
const maxEventBytes = 32 * 1024;

export class TaskHistory {
  #steps: readonly TaskStep[];
  #bytes: number;
  readonly #maxBytes: number;

  constructor(steps: readonly TaskStep[] = [], maxBytes = maxHistoryBytes) {
    this.#steps = steps;
    this.#maxBytes = maxBytes;
    this.#bytes = steps.reduce((sum, step) => sum + jsonBytes(step), 0);
  }

  /** A list of its own, which never changes. */
  get steps(): readonly TaskStep[] {
    return this.#steps;
  }

  add(step: TaskStep): void {
    const steps = [...this.#steps, step];
    this.#bytes += jsonBytes(step);
    // The last step is whole, however large it is.
    for (let at = 0; this.#bytes > this.#maxBytes && at < steps.length - 1; at++) {
      const whole = steps[at] as TaskStep;
      if (whole.cut) continue;
      const cut = Object.freeze(outlineOf(whole));
      this.#bytes -= jsonBytes(whole) - jsonBytes(cut);
      steps[at] = cut;
    }
    this.#steps = Object.freeze(steps);
  }
}

export function shownStep(step: TaskStep): TaskStep {
  return jsonBytes(step) <= maxEventBytes ? step : outlineOf(step);
}

/** A decision as an event shows it: an action that is too large is `null`. */
export function shownDecision(decision: TaskDecision): TaskDecision {
  const isLarge = decision.type === 'act' && jsonBytes(decision) > maxEventBytes;
  return isLarge ? { ...decision, action: null } : decision;
}

/** An outcome as an event shows it: a result that is too large is `null`. */
export function shownOutcome(outcome: TaskActionOutcome): TaskActionOutcome {
  return outcome.ok && jsonBytes(outcome) > maxEventBytes ? { ...outcome, result: null } : outcome;
}

function outlineOf({ decision, outcome, ...step }: TaskStep): TaskStep {
  return {
    ...step,
    decision: decision.type === 'act' ? { ...decision, action: null } : decision,
    outcome: outcome.ok ? { ...outcome, result: null } : outcome,
    beforeState: null,
    afterState: null,
    beforeEvals: [],
    afterEvals: [],
    cut: true,
  };
}
