import type { EventBody } from '../../../shared/contract/event.ts';
import { type Labels, callSeconds, type Series } from './series.ts';

/** Counts model calls: what became of them, what they cost, and how long they waited for the rate limiter. */
export function modelMetrics(series: Series, labels: Labels) {
  const count = modelSeries(series);
  for (const model of labels.known.models)
    for (const counter of [count.cost, count.unpriced, count.cooldowns]) counter.inc({ model }, 0);
  const limited = (limiter: string) => ({ model: labels.modelOfLimiter(limiter) });
  const of = (agent: string) => ({ agent: labels.agent(agent) });
  return {
    observe(event: EventBody): void {
      switch (event.type) {
        case 'llm.call': {
          const about = { provider: event.provider, model: labels.model(event.model) };
          count.attempts.inc({ ...about, outcome: event.outcome, error_kind: event.error?.kind ?? '' });
          if (event.outcome !== 'skipped') count.seconds.observe(about, event.latencyMs / 1_000);
          return;
        }
        case 'cost.updated': {
          const model = labels.model(event.model);
          count.tokens.inc({ model, type: 'input' }, event.inputTokens);
          count.tokens.inc({ model, type: 'output' }, event.outputTokens);
          count.tokens.inc({ model, type: 'cached' }, event.cachedTokens ?? 0);
          count.tokens.inc({ model, type: 'cache_write' }, event.cacheWriteTokens ?? 0);
          count.cost.inc({ model }, event.costMicrocents);
          if (!event.priced) count.unpriced.inc({ model });
          return;
        }
        case 'agent.model.fellback': {
          const { from, to, reason } = event;
          return count.fallbacks.inc({ from: labels.model(from), to: labels.model(to), reason });
        }
        default:
      }
    },
    /** What the rate limiter of the fleet does; its limiters are named `<credential>:<model>`. */
    rateLimiter: {
      waited: (limiter: string, waitedS: number) => count.permitWait.observe(limited(limiter), waitedS),
      parked: (limiter: string) => count.parked.inc(limited(limiter)),
      woken: (limiter: string, runs: number) => count.resumed.inc(limited(limiter), runs),
      cooled: (limiter: string) => count.cooldowns.inc(limited(limiter)),
    },
    /** Money of attempts, in microcents. */
    money: {
      reserved: (agent: string, amount: number) => count.reserved.inc(of(agent), amount),
      spent: (agent: string, amount: number) => count.spent.inc(of(agent), amount),
      unconfirmed: (agent: string) => count.unconfirmed.inc(of(agent)),
    },
  };
}

function modelSeries({ counter, histogram }: Series) {
  return {
    attempts: counter('millrace_llm_attempts_total', 'Model calls.', 'provider', 'model', 'outcome', 'error_kind'),
    seconds: histogram(
      'millrace_llm_attempt_seconds',
      'Duration of a model call. One that was skipped has none.',
      callSeconds,
      'provider',
      'model',
    ),
    tokens: counter('millrace_llm_tokens_total', 'Tokens as the provider counted them.', 'model', 'type'),
    cost: counter('millrace_llm_cost_microcents_total', 'Cost of model calls in microcents (1e-8 USD).', 'model'),
    unpriced: counter('millrace_llm_price_unknown_total', 'Model calls without a known price.', 'model'),
    fallbacks: counter('millrace_llm_fallbacks_total', 'Transitions to another model.', 'from', 'to', 'reason'),
    reserved: counter(
      'millrace_ledger_reserved_microcents_total',
      'Money reserved before model calls, in microcents (1e-8 USD).',
      'agent',
    ),
    spent: counter(
      'millrace_ledger_spent_microcents_total',
      'Money that model calls were settled with, in microcents (1e-8 USD).',
      'agent',
    ),
    unconfirmed: counter(
      'millrace_ledger_unconfirmed_calls_total',
      'Model calls that broke off and may have been billed: their reservation counts as spent.',
      'agent',
    ),
    permitWait: histogram(
      'millrace_rate_limiter_wait_seconds',
      'From the first request for a permit of a limited provider to the permit.',
      callSeconds,
      'model',
    ),
    parked: counter('millrace_rate_limiter_parked_total', 'Waits for a permit that released their worker.', 'model'),
    resumed: counter(
      'millrace_rate_limiter_resumed_total',
      'Runs resumed because a permit was free for them.',
      'model',
    ),
    cooldowns: counter(
      'millrace_rate_limiter_cooldowns_total',
      'Times that a refusal of a provider stopped the whole fleet from calling a model.',
      'model',
    ),
  };
}
