import type { EventBody } from '../../../shared/contract/event.ts';
import { type Labels, callSeconds, type Series } from './series.ts';

/** Counts model calls: what became of them, what they cost, and how long they waited for the rate limiter. */
export class ModelMetrics {
  readonly #labels: Labels;
  readonly #count: ReturnType<typeof modelSeries>;

  constructor(series: Series, labels: Labels) {
    this.#labels = labels;
    this.#count = modelSeries(series);
    for (const model of labels.known.models)
      for (const counter of [this.#count.cost, this.#count.unpriced, this.#count.cooldowns]) counter.inc({ model }, 0);
  }

  observe(event: EventBody): void {
    const { model } = this.#labels;
    switch (event.type) {
      case 'llm.call': {
        const labels = { provider: event.provider, model: model(event.model) };
        this.#count.attempts.inc({ ...labels, outcome: event.outcome, error_kind: event.error?.kind ?? '' });
        if (event.outcome !== 'skipped') this.#count.seconds.observe(labels, event.latencyMs / 1_000);
        return;
      }
      case 'cost.updated':
        return this.#observeCost(event);
      case 'agent.model.fellback':
        return this.#count.fallbacks.inc({ from: model(event.from), to: model(event.to), reason: event.reason });
      default:
    }
  }

  /** What the rate limiter of the fleet does; its limiters are named `<credential>:<model>`. */
  readonly rateLimiter = {
    waited: (limiter: string, waitedS: number) => this.#count.permitWait.observe(this.#limited(limiter), waitedS),
    parked: (limiter: string) => this.#count.parked.inc(this.#limited(limiter)),
    woken: (limiter: string, runs: number) => this.#count.resumed.inc(this.#limited(limiter), runs),
    cooled: (limiter: string) => this.#count.cooldowns.inc(this.#limited(limiter)),
  };

  /** Money of attempts, in microcents. */
  readonly money = {
    reserved: (agent: string, amount: number) => this.#count.reserved.inc({ agent: this.#labels.agent(agent) }, amount),
    spent: (agent: string, amount: number) => this.#count.spent.inc({ agent: this.#labels.agent(agent) }, amount),
    unconfirmed: (agent: string) => this.#count.unconfirmed.inc({ agent: this.#labels.agent(agent) }),
  };

  #limited(limiter: string): { model: string } {
    return { model: this.#labels.modelOfLimiter(limiter) };
  }

  #observeCost(event: Extract<EventBody, { type: 'cost.updated' }>): void {
    const model = this.#labels.model(event.model);
    this.#count.tokens.inc({ model, type: 'input' }, event.inputTokens);
    this.#count.tokens.inc({ model, type: 'output' }, event.outputTokens);
    this.#count.tokens.inc({ model, type: 'cached' }, event.cachedTokens ?? 0);
    this.#count.tokens.inc({ model, type: 'cache_write' }, event.cacheWriteTokens ?? 0);
    this.#count.cost.inc({ model }, event.costMicrocents);
    if (!event.priced) this.#count.unpriced.inc({ model });
  }
}

function modelSeries(series: Series) {
  return {
    attempts: series.counter('millrace_llm_attempts_total', 'Model calls.', [
      'provider',
      'model',
      'outcome',
      'error_kind',
    ]),
    seconds: series.histogram(
      'millrace_llm_attempt_seconds',
      'Duration of a model call. One that was skipped has none.',
      ['provider', 'model'],
      callSeconds,
    ),
    tokens: series.counter('millrace_llm_tokens_total', 'Tokens as the provider counted them.', ['model', 'type']),
    cost: series.counter('millrace_llm_cost_microcents_total', 'Cost of model calls in microcents (1e-8 USD).', [
      'model',
    ]),
    unpriced: series.counter('millrace_llm_price_unknown_total', 'Model calls without a known price.', ['model']),
    fallbacks: series.counter('millrace_llm_fallbacks_total', 'Transitions to another model.', [
      'from',
      'to',
      'reason',
    ]),
    reserved: series.counter(
      'millrace_ledger_reserved_microcents_total',
      'Money reserved before model calls, in microcents (1e-8 USD).',
      ['agent'],
    ),
    spent: series.counter(
      'millrace_ledger_spent_microcents_total',
      'Money that model calls were settled with, in microcents (1e-8 USD).',
      ['agent'],
    ),
    unconfirmed: series.counter(
      'millrace_ledger_unconfirmed_calls_total',
      'Model calls that broke off and may have been billed: their reservation counts as spent.',
      ['agent'],
    ),
    permitWait: series.histogram(
      'millrace_rate_limiter_wait_seconds',
      'From the first request for a permit of a limited provider to the permit.',
      ['model'],
      callSeconds,
    ),
    parked: series.counter('millrace_rate_limiter_parked_total', 'Waits for a permit that released their worker.', [
      'model',
    ]),
    resumed: series.counter('millrace_rate_limiter_resumed_total', 'Runs resumed because a permit was free for them.', [
      'model',
    ]),
    cooldowns: series.counter(
      'millrace_rate_limiter_cooldowns_total',
      'Times that a refusal of a provider stopped the whole fleet from calling a model.',
      ['model'],
    ),
  };
}
