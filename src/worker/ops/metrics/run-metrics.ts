import type { EventBody } from '../../../shared/contract/event.ts';
import { type Labels, runSeconds, type Series } from './series.ts';

const runStatuses = ['completed', 'degraded', 'blocked', 'failed', 'cancelled'] as const;
const accountScopes = ['run', 'batch', 'tenant'] as const;

export interface ObservedRun {
  readonly agentId: string;
  readonly kind: string;
  readonly queueWaitMs?: number | undefined;
}

export class RunMetrics {
  readonly #labels: Labels;
  readonly #count: ReturnType<typeof runSeries>;

  constructor(series: Series, labels: Labels) {
    this.#labels = labels;
    this.#count = runSeries(series);
    for (const agent of labels.known.agents) this.#beginAtZero(agent, 'agent.turn');
    for (const scope of accountScopes) this.#count.paused.inc({ scope }, 0);
  }

  observe(event: EventBody, { agentId, kind, queueWaitMs }: ObservedRun): void {
    const agent = this.#labels.agent(agentId);
    switch (event.type) {
      case 'run.started':
        this.#beginAtZero(agent, kind);
        if (event.resumed) this.#count.resumed.inc({ agent });
        if (queueWaitMs !== undefined) this.#count.queueWait.observe({ agent }, queueWaitMs / 1_000);
        return;
      case 'run.completed':
        return this.#end({ agent, kind, status: event.status }, event.durationMs);
      case 'run.failed':
        this.#count.errors.inc({ agent, code: event.error.code });
        return this.#end({ agent, kind, status: 'failed' }, event.durationMs);
      case 'run.cancelled':
        return this.#end({ agent, kind, status: 'cancelled' }, event.durationMs);
      case 'run.suspended':
        return this.#count.suspended.inc({ agent, reason: event.reason });
      case 'run.recovered':
        return this.#count.recovered.inc({ agent });
      case 'budget.paused':
        return this.#count.paused.inc({ scope: event.scope });
      case 'budget.warning':
        return this.#count.warned.inc({ agent });
      default:
    }
  }

  readonly compacted = (agent: string, outcome: string): void =>
    this.#count.compactions.inc({ agent: this.#labels.agent(agent), outcome });

  #end(labels: { agent: string; kind: string; status: string }, durationMs: number | undefined): void {
    this.#count.ended.inc(labels);
    // A run that never began has no duration.
    if (durationMs !== undefined)
      this.#count.seconds.observe({ agent: labels.agent, status: labels.status }, durationMs / 1_000);
  }

  #beginAtZero(agent: string, kind: string): void {
    for (const status of runStatuses) this.#count.ended.inc({ agent, kind, status }, 0);
  }
}

function runSeries(series: Series) {
  return {
    ended: series.counter('millrace_runs_total', 'Runs that ended.', ['agent', 'kind', 'status']),
    errors: series.counter('millrace_run_errors_total', 'Runs that failed, by the code of their error.', [
      'agent',
      'code',
    ]),
    seconds: series.histogram(
      'millrace_run_duration_seconds',
      'From the start of a run to its end.',
      ['agent', 'status'],
      runSeconds,
    ),
    queueWait: series.histogram(
      'millrace_run_queue_wait_seconds',
      'From acceptance, or the end of its delay, to the start of a run.',
      ['agent'],
      runSeconds,
    ),
    recovered: series.counter('millrace_runs_recovered_total', 'Runs continued after their worker was lost or left.', [
      'agent',
    ]),
    suspended: series.counter('millrace_runs_suspended_total', 'Runs that began to wait without a worker.', [
      'agent',
      'reason',
    ]),
    resumed: series.counter('millrace_runs_resumed_total', 'Runs that went on after such a wait.', ['agent']),
    paused: series.counter('millrace_budget_paused_total', 'Waits for money, by the account that lacks it.', ['scope']),
    warned: series.counter('millrace_budget_warnings_total', 'Runs that passed a cap that only warns.', ['agent']),
    compactions: series.counter(
      'millrace_compactions_total',
      'Times that a conversation was to be summarised, by what came of it.',
      ['agent', 'outcome'],
    ),
  };
}
