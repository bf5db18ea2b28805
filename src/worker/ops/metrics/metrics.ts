import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { EventBody } from '../../../shared/contract/event.ts';
import { closedNames, otherName } from '../../../shared/base/closed-names.ts';
import { postrunEffect } from '../../../shared/contract/postrun.ts';
import { toolBreakerLabel } from '../../../shared/contract/agent/tool-breaker.ts';

/** What the worker's gauges are read from at scrape time, and the label values that it knows before anything happens. */
export interface MetricSources {
  active(): number;
  concurrency: number;
  readonly queues: readonly string[];
  /** Breakers as this worker knows them, by `provider/model`. */
  breakers(): ReadonlyMap<string, 'closed' | 'half_open' | 'open'>;
  /** Answers within a second, also while Redis is away. */
  redisUp(): Promise<boolean>;
  readonly known: KnownLabels;
}

/** Names of tools come from the servers that offer them, too: so many of these become labels. */
const maxFurtherTools = 500;

/**
 * The values that labels have, beside one for all others. Their series exist from the start, at 0: a series that is born at 1 has no
 * increase, so an alert on it would miss the first event.
 */
export interface KnownLabels {
  readonly agents: readonly string[];
  readonly models: readonly string[];
  readonly tools: readonly string[];
}

const breakerValue = { closed: 0, half_open: 1, open: 2 };

const callSeconds = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
/** Runs wait for people and for each other: up to a week. */
const runSeconds = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400, 604_800];

const runStatuses = ['completed', 'degraded', 'blocked', 'failed', 'cancelled'] as const;
const accountScopes = ['run', 'batch', 'tenant'] as const;

/**
 * The worker's metrics. Almost all of them are made from the events that a run tells anyway, so a new fact is counted in
 * one place. Labels come from closed or configured sets (agents, models, tools); never run ids or free text.
 */
export class WorkerMetrics {
  readonly registry = new Registry();
  readonly #runs = this.#counter('millrace_runs_total', 'Runs that ended.', ['agent', 'kind', 'status']);
  readonly #runErrors = this.#counter('millrace_run_errors_total', 'Runs that failed, by the code of their error.', [
    'agent',
    'code',
  ]);
  readonly #runSeconds = this.#histogram(
    'millrace_run_duration_seconds',
    'From the start of a run to its end.',
    ['agent', 'status'],
    runSeconds,
  );
  readonly #queueWait = this.#histogram(
    'millrace_run_queue_wait_seconds',
    'From acceptance, or the end of its delay, to the start of a run.',
    ['agent'],
    runSeconds,
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
  readonly #llmSeconds = this.#histogram(
    'millrace_llm_attempt_seconds',
    'Duration of a model call. One that was skipped has none.',
    ['provider', 'model'],
    callSeconds,
  );
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
  readonly #suspended = this.#counter('millrace_runs_suspended_total', 'Runs that began to wait without a worker.', [
    'agent',
    'reason',
  ]);
  readonly #resumed = this.#counter('millrace_runs_resumed_total', 'Runs that went on after such a wait.', ['agent']);
  readonly #paused = this.#counter('millrace_budget_paused_total', 'Waits for money, by the account that lacks it.', [
    'scope',
  ]);
  readonly #warned = this.#counter('millrace_budget_warnings_total', 'Runs that passed a cap that only warns.', [
    'agent',
  ]);
  readonly #reserved = this.#counter(
    'millrace_ledger_reserved_microcents_total',
    'Money held before model calls, in microcents (1e-8 USD).',
    ['agent'],
  );
  readonly #spent = this.#counter(
    'millrace_ledger_spent_microcents_total',
    'Money that model calls were settled with, in microcents (1e-8 USD).',
    ['agent'],
  );
  readonly #presumed = this.#counter(
    'millrace_ledger_presumed_calls_total',
    'Model calls that broke off and may have been billed: what was held for them counts as spent.',
    ['agent'],
  );
  readonly #turnWait = this.#histogram(
    'millrace_governor_wait_seconds',
    'From the first question for a turn at a limited provider to the turn.',
    ['model'],
    callSeconds,
  );
  readonly #parked = this.#counter('millrace_governor_parked_total', 'Waits for a turn that let go of their worker.', [
    'model',
  ]);
  readonly #woken = this.#counter('millrace_governor_woken_total', 'Runs woken because their turn had come.', [
    'model',
  ]);
  readonly #cooldowns = this.#counter(
    'millrace_governor_cooldowns_total',
    'Times that a refusal of a provider stopped the whole fleet from calling a model.',
    ['model'],
  );
  readonly #tools = this.#counter('millrace_tool_calls_total', 'Tool calls.', ['tool', 'outcome']);
  readonly #toolSeconds = this.#histogram(
    'millrace_tool_call_seconds',
    'Duration of a tool call.',
    ['tool'],
    callSeconds,
  );
  readonly #unknown = this.#counter(
    'millrace_tool_outcome_unknown_total',
    'Tool calls that may or may not have taken effect.',
    ['tool'],
  );
  readonly #asked = this.#counter('millrace_approvals_requested_total', 'Tool calls that began to wait for a person.', [
    'tool',
  ]);
  readonly #decided = this.#counter(
    'millrace_approvals_decided_total',
    'Tool calls that a person, or the end of their time, decided about.',
    ['tool', 'decision'],
  );
  readonly #policy = this.#counter('millrace_policy_decisions_total', 'Decisions of rules about calls.', [
    'subject',
    'action',
  ]);
  readonly #dataflow = this.#counter('millrace_dataflow_total', 'Data-flow findings.', ['decision']);
  readonly #compactions = this.#counter(
    'millrace_compactions_total',
    'Times that a conversation was to be summarised, by what came of it.',
    ['agent', 'outcome'],
  );
  /** Runs the reconciler had to put back. Should stay 0. */
  readonly putBack = this.#counter(
    'millrace_runs_put_back_total',
    'Runs without a job that the reconciler put back. Should stay 0.',
    [],
  );
  readonly unreachable = this.#counter(
    'millrace_reconcile_unreachable_total',
    'Open runs and threads that the reconciler could not look at, because their node of Redis was away.',
    [],
  );
  readonly effectsFailed = this.#counter(
    'millrace_effects_failed_total',
    'Titles and embeddings that could not be made after an answer.',
    ['effect'],
  );

  readonly #agent: (name: string) => string;
  readonly #model: (name: string) => string;
  readonly #knownTools: ReadonlySet<string>;
  readonly #furtherTools = new Set<string>();

  constructor(sources: MetricSources) {
    const { agents, models, tools } = sources.known;
    this.#agent = closedNames(agents);
    this.#model = closedNames(models);
    this.#knownTools = new Set(tools);
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
      help: 'Runs this worker takes at once from a queue.',
      labelNames: ['queue'],
      registers,
    });
    for (const queue of sources.queues) concurrency.set({ queue }, sources.concurrency);
    const redisUp: Gauge = new Gauge({
      name: 'millrace_redis_up',
      help: '1 when Redis answered this scrape in time.',
      registers,
      collect: async () => redisUp.set((await sources.redisUp()) ? 1 : 0),
    });
    this.#beginAtZero(sources.known);
    const breaker: Gauge<'provider' | 'model'> = new Gauge({
      name: 'millrace_breaker_state',
      help: 'Circuit breaker of a model that failed lately: 0 closed, 1 half open, 2 open.',
      labelNames: ['provider', 'model'],
      registers,
      collect: () => {
        breaker.reset();
        for (const [target, state] of sources.breakers()) {
          if (toolBreakerLabel(target) !== undefined) continue;
          const slash = target.indexOf('/');
          breaker.set(
            { provider: target.slice(0, slash), model: this.#model(target.slice(slash + 1)) },
            breakerValue[state],
          );
        }
      },
    });
    const toolBreaker: Gauge<'tool'> = new Gauge({
      name: 'millrace_tool_breaker_state',
      help: 'Circuit breakers of a tool, or of the tools of a server, that failed lately, the worst of all tenants and agents: 0 closed, 1 half open, 2 open.',
      labelNames: ['tool'],
      registers,
      collect: () => {
        toolBreaker.reset();
        const worst = new Map<string, number>();
        for (const [target, state] of sources.breakers()) {
          const label = toolBreakerLabel(target);
          if (label === undefined) continue;
          const tool = this.#tool({ toolName: label });
          worst.set(tool, Math.max(worst.get(tool) ?? 0, breakerValue[state]));
        }
        for (const [tool, value] of worst) toolBreaker.set({ tool }, value);
      },
    });
  }

  /** What the fleet governor does; its limiters are named `<credential>:<model>`. */
  readonly governor = {
    waited: (limiter: string, waitedS: number) =>
      this.#turnWait.observe({ model: this.#model(modelOf(limiter)) }, waitedS),
    parked: (limiter: string) => this.#parked.inc({ model: this.#model(modelOf(limiter)) }),
    woken: (limiter: string, runs: number) => this.#woken.inc({ model: this.#model(modelOf(limiter)) }, runs),
    cooled: (limiter: string) => this.#cooldowns.inc({ model: this.#model(modelOf(limiter)) }),
  };

  /** Money of attempts, in microcents. */
  readonly money = {
    reserved: (agent: string, amount: number) => this.#reserved.inc({ agent: this.#agent(agent) }, amount),
    spent: (agent: string, amount: number) => this.#spent.inc({ agent: this.#agent(agent) }, amount),
    presumed: (agent: string) => this.#presumed.inc({ agent: this.#agent(agent) }),
  };

  /** What came of compactions. */
  readonly compacted = (agent: string, outcome: string) =>
    this.#compactions.inc({ agent: this.#agent(agent), outcome });

  /** Counts one event. Never throws for an event it has nothing to say about. */
  observe(
    event: EventBody,
    { agentId, kind, queueWaitMs }: { agentId: string; kind: string; queueWaitMs?: number },
  ): void {
    const agent = this.#agent(agentId);
    switch (event.type) {
      case 'run.completed':
        this.#runEnded({ agent, kind, status: event.status }, event.durationMs);
        return;
      case 'run.failed':
        this.#runErrors.inc({ agent, code: event.error.code });
        this.#runEnded({ agent, kind, status: 'failed' }, event.durationMs);
        return;
      case 'run.cancelled':
        this.#runEnded({ agent, kind, status: 'cancelled' }, event.durationMs);
        return;
      case 'run.started':
        this.#runsAtZero(agent, kind);
        if (event.resumed) this.#resumed.inc({ agent });
        if (queueWaitMs !== undefined) this.#queueWait.observe({ agent }, queueWaitMs / 1_000);
        return;
      case 'run.suspended':
        this.#suspended.inc({ agent, reason: event.reason });
        return;
      case 'budget.paused':
        this.#paused.inc({ scope: event.scope });
        return;
      case 'budget.warning':
        this.#warned.inc({ agent });
        return;
      case 'run.recovered':
        this.#recovered.inc({ agent });
        return;
      case 'llm.call':
        this.#attempts.inc({
          provider: event.provider,
          model: this.#model(event.model),
          outcome: event.outcome,
          error_kind: event.error?.kind ?? '',
        });
        if (event.outcome !== 'skipped')
          this.#llmSeconds.observe(
            { provider: event.provider, model: this.#model(event.model) },
            event.latencyMs / 1_000,
          );
        return;
      case 'cost.updated':
        this.#observeCost(event);
        return;
      case 'agent.model.fellback':
        this.#fallbacks.inc({ from: this.#model(event.from), to: this.#model(event.to), reason: event.reason });
        return;
      case 'tool.execute.end':
        this.#tools.inc({ tool: this.#tool(event), outcome: 'ok' });
        this.#toolSeconds.observe({ tool: this.#tool(event) }, event.durationMs / 1_000);
        return;
      case 'tool.execute.error':
        // The name of an unknown tool is the model's free text and must not become a label.
        this.#tools.inc({
          tool: event.error.kind === 'unknown_tool' ? 'unknown' : this.#tool(event),
          outcome: event.error.kind,
        });
        return;
      case 'tool.outcome_unknown':
        this.#unknown.inc({ tool: this.#tool(event) });
        return;
      case 'tool.approval.requested':
        this.#asked.inc({ tool: this.#tool(event) });
        return;
      case 'tool.approval.granted':
        this.#decided.inc({ tool: this.#tool(event), decision: 'granted' });
        return;
      case 'tool.approval.denied':
        this.#decided.inc({ tool: this.#tool(event), decision: event.reason === 'expired' ? 'expired' : 'denied' });
        return;
      case 'policy.decision':
        this.#policy.inc({ subject: event.subject, action: event.action });
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
    const model = this.#model(event.model);
    this.#tokens.inc({ model, type: 'input' }, event.inputTokens);
    this.#tokens.inc({ model, type: 'output' }, event.outputTokens);
    this.#tokens.inc({ model, type: 'cached' }, event.cachedTokens ?? 0);
    this.#tokens.inc({ model, type: 'cache_write' }, event.cacheWriteTokens ?? 0);
    this.#cost.inc({ model }, event.costMicrocents);
    if (!event.priced) this.#unpriced.inc({ model });
  }

  #runEnded(labels: { agent: string; kind: string; status: string }, durationMs: number | undefined): void {
    this.#runs.inc(labels);
    // A run that never began has no duration.
    if (durationMs !== undefined)
      this.#runSeconds.observe({ agent: labels.agent, status: labels.status }, durationMs / 1_000);
  }

  /** Tools that a provider runs have names of its own, of which there may be any number. */
  #tool({ toolName, relayed }: { readonly toolName: string; readonly relayed?: true | undefined }): string {
    if (relayed) return 'relayed';
    if (!this.#knownTools.has(toolName) && this.#furtherTools.size < maxFurtherTools) this.#furtherTools.add(toolName);
    return this.#knownTools.has(toolName) || this.#furtherTools.has(toolName) ? toolName : otherName;
  }

  #beginAtZero({ agents, models, tools }: KnownLabels): void {
    for (const agent of agents) this.#runsAtZero(agent, 'agent.turn');
    for (const model of models)
      for (const counter of [this.#cost, this.#unpriced, this.#cooldowns]) counter.inc({ model }, 0);
    for (const tool of tools) this.#unknown.inc({ tool }, 0);
    for (const scope of accountScopes) this.#paused.inc({ scope }, 0);
    for (const effect of postrunEffect.options) this.effectsFailed.inc({ effect }, 0);
  }

  #runsAtZero(agent: string, kind: string): void {
    for (const status of runStatuses) this.#runs.inc({ agent, kind, status }, 0);
  }

  #counter<T extends string>(name: string, help: string, labelNames: T[]): Counter<T> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  #histogram<T extends string>(name: string, help: string, labelNames: T[], buckets: number[]): Histogram<T> {
    return new Histogram({ name, help, labelNames, buckets, registers: [this.registry] });
  }
}

function modelOf(limiter: string): string {
  return limiter.slice(limiter.indexOf(':') + 1);
}
