import { RunError } from '../../shared/errors.ts';
import type { EventBody } from '../../shared/event.ts';
import type { JournalEntry } from '../../shared/journal.ts';
import { budgetCap, formatUsd, type Budget } from '../../shared/money.ts';
import { costOf, type Price } from '../llm/cost.ts';

/** Output tokens that a call is expected to cost at most when the agent sets no bound of its own. */
const assumedOutputTokens = 4_096;

export interface RunBudgetOptions {
  readonly budget: Budget | undefined;
  /** Microcents that the run has spent in earlier segments. */
  readonly spent: number;
  readonly maxOutputTokens: number | undefined;
  /** Undefined for a model without a known price. */
  readonly price: Price | undefined;
  emit(event: EventBody): void;
}

/**
 * Keeps one run below its cap: before each step, what is spent and the most that the next call is expected to cost must
 * fit. Equal to the cap is allowed. An attempt that turns out dearer than estimated can pass the cap by that difference.
 */
export class RunBudget {
  readonly #options: RunBudgetOptions;
  readonly #cap: number | undefined;
  #spent: number;
  #warned = false;

  constructor(options: RunBudgetOptions) {
    this.#options = options;
    this.#cap = budgetCap(options.budget);
    this.#spent = options.spent;
  }

  /** Counts what the entries say was paid. */
  count(entries: readonly JournalEntry[]): void {
    for (const entry of entries) {
      if (entry.t !== 'answered' && entry.t !== 'attempted') continue;
      for (const attempt of entry.attempts) this.#spent += attempt.costMicrocents;
    }
  }

  /** Throws `budget_exceeded` or `budget_unpriced` when the next call must not be made. */
  check(): void {
    const cap = this.#cap;
    const { budget, price, maxOutputTokens = assumedOutputTokens } = this.#options;
    if (cap === undefined || !budget) return;
    if (!price && budget.unpriced === 'deny') {
      throw new RunError('budget_unpriced', 'the run has a cap and denies models without a known price');
    }
    const estimate = price
      ? costOf({ input: 0, output: maxOutputTokens, cached: 0, cacheWrite: 0, total: 0 }, price)
      : 0;
    if (this.#spent + estimate <= cap) return;
    if (budget.onExceed !== 'warn') {
      const figures = `${formatUsd(this.#spent)} spent, up to ${formatUsd(estimate)} for the next call, cap ${formatUsd(cap)}`;
      throw new RunError('budget_exceeded', `the next model call could pass the cap of the run: ${figures}`);
    }
    if (this.#warned) return;
    this.#warned = true;
    const thresholdPct = Math.round((this.#spent * 100) / cap);
    this.#options.emit({ type: 'budget.warning', spentMicrocents: this.#spent, limitMicrocents: cap, thresholdPct });
  }
}
