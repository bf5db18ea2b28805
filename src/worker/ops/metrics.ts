import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { EventBody } from '../../shared/event.ts';

/** What the fleet's gauges are read from at scrape time. */
export interface MetricSources {
  active(): number;
  concurrency: number;
}

const seconds = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/**
 * The worker's metrics. Almost all of them are made from the events that a run tells anyway, so a new fact is counted in
 * one place. Labels come from closed or configured sets (agents, models, tools); never run ids or free text.
 */
export class WorkerMetrics {
  readonly registry = new Registry();
  readonly #runs = this.#counter('millrace_runs_total', 'Runs that ended.', ['agent', 'kind', 'status', 'code']);
  readonly #runSeconds = this.#histogram('millrace_run_duration_seconds', 'From the start of a run to its end.', [
    'agent',
    'status',
  ]);
  readonly #queueWait = this.#histogram(
    'millrace_run_queue_wait_seconds',
    'From acceptance, or the end of its delay, to the start of a run.',
    ['agent'],
  );
  readonly #recovered = this.#counter(
    'millrace_runs_recovered_total',
    'Runs continued after their worker was lost or left.',
    ['agent'],
  );
  readonly #attempts = this.#counter('millrace_llm_attempts_total', 'Model calls.', [
    'provider',
    'model',
    'outcome',
    'error_kind',
  ]);
  readonly #llmSeconds = this.#histogram('millrace_llm_attempt_seconds', 'Duration of a model call.', [
    'provider',
    'model',
  ]);
  readonly #tokens = this.#counter('millrace_llm_tokens_total', 'Tokens as the provider counted them.', [
    'model',
    'type',
  ]);
  readonly #cost = this.#counter(
    'millrace_llm_cost_microcents_total',
    'Cost of model calls in microcents (1e-8 USD).',
    ['model'],
  );
  readonly #unpriced = this.#counter('millrace_llm_price_unknown_total', 'Model calls without a known price.', [
    'model',
  ]);
  readonly #fallbacks = this.#counter('millrace_llm_fallbacks_total', 'Transitions to another model.', [
    'from',
    'to',
    'reason',
  ]);
  readonly #tools = this.#counter('millrace_tool_calls_total', 'Tool calls.', ['tool', 'outcome']);
  readonly #toolSeconds = this.#histogram('millrace_tool_call_seconds', 'Duration of a tool call.', ['tool']);
  readonly #unknown = this.#counter(
    'millrace_tool_outcome_unknown_total',
    'Tool calls that may or may not have taken effect.',
    ['tool'],
  );
  readonly #dataflow = this.#counter('millrace_dataflow_total', 'Data-flow findings.', ['decision']);
  /** Runs the reconciler had to put back. Should stay 0. */
  readonly putBack = this.#counter(
    'millrace_runs_put_back_total',
    'Runs without a job that the reconciler put back. Should stay 0.',
    [],
  );

  constructor(sources: MetricSources) {
    collectDefaultMetrics({ register: this.registry });
    const registers = [this.registry];
    const active: Gauge = new Gauge({
      name: 'millrace_runs_active',
      help: 'Runs in progress in this worker.',
      registers,
      collect: () => active.set(sources.active()),
    });
    const concurrency = new Gauge({
      name: 'millrace_worker_concurrency',
      help: 'Runs this worker takes at once.',
      registers,
    });
    concurrency.set(sources.concurrency);
  }

  /** Counts one event. Never throws for an event it has nothing to say about. */
  observe(
    event: EventBody,
    { agentId: agent, kind, queueWaitMs }: { agentId: string; kind: string; queueWaitMs?: number },
  ): void {
    switch (event.type) {
      case 'run.completed':
        this.#runs.inc({ agent, kind, status: event.status, code: '' });
        this.#runSeconds.observe({ agent, status: event.status }, event.durationMs / 1_000);
        return;
      case 'run.failed':
        this.#runs.inc({ agent, kind, status: 'failed', code: event.error.code });
        return;
      case 'run.cancelled':
        this.#runs.inc({ agent, kind, status: 'cancelled', code: '' });
        return;
      case 'run.started':
        if (queueWaitMs !== undefined) this.#queueWait.observe({ agent }, queueWaitMs / 1_000);
        return;
      case 'run.recovered':
        this.#recovered.inc({ agent });
        return;
      case 'llm.call':
        this.#attempts.inc({
          provider: event.provider,
          model: event.model,
          outcome: event.outcome,
          error_kind: event.error?.kind ?? '',
        });
        this.#llmSeconds.observe({ provider: event.provider, model: event.model }, event.latencyMs / 1_000);
        return;
      case 'cost.updated':
        this.#observeCost(event);
        return;
      case 'agent.model.fellback':
        this.#fallbacks.inc({ from: event.from, to: event.to, reason: event.reason });
        return;
      case 'tool.execute.end':
        this.#tools.inc({ tool: event.toolName, outcome: 'ok' });
        this.#toolSeconds.observe({ tool: event.toolName }, event.durationMs / 1_000);
        return;
      case 'tool.execute.error':
        // The name of an unknown tool is the model's free text and must not become a label.
        this.#tools.inc({
          tool: event.error.kind === 'unknown_tool' ? 'unknown' : event.toolName,
          outcome: event.error.kind,
        });
        return;
      case 'tool.outcome_unknown':
        this.#unknown.inc({ tool: event.toolName });
        return;
      case 'dataflow.flagged':
      case 'dataflow.blocked':
      case 'dataflow.declassified':
        this.#dataflow.inc({ decision: event.type.slice('dataflow.'.length) });
        return;
      default:
        return;
    }
  }

  #observeCost(event: Extract<EventBody, { type: 'cost.updated' }>): void {
    const { model } = event;
    this.#tokens.inc({ model, type: 'input' }, event.inputTokens);
    this.#tokens.inc({ model, type: 'output' }, event.outputTokens);
    this.#tokens.inc({ model, type: 'cached' }, event.cachedTokens ?? 0);
    this.#tokens.inc({ model, type: 'cache_write' }, event.cacheWriteTokens ?? 0);
    this.#cost.inc({ model }, event.costMicrocents);
    if (!event.priced) this.#unpriced.inc({ model });
  }

  #counter<T extends string>(name: string, help: string, labelNames: T[]): Counter<T> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  #histogram<T extends string>(name: string, help: string, labelNames: T[]): Histogram<T> {
    return new Histogram({ name, help, labelNames, buckets: seconds, registers: [this.registry] });
  }
}
