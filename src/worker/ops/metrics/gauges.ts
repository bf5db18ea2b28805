import { Gauge, type Registry } from 'prom-client';
import { toolBreakerLabel } from '../../../shared/state/limits/breakers.ts';
import type { Labels } from './series.ts';

export interface GaugeSources {
  active(): number;
  concurrency: number;
  readonly queues: readonly string[];
  /** Breakers as this worker knows them, by `provider/model`. */
  breakers(): ReadonlyMap<string, 'closed' | 'half_open' | 'open'>;
  /** How long the event has waited for the store that has waited longest, in milliseconds. */
  eventLagMs(): number;
  /** Answers within a second, also while Redis is away. */
  redisUp(): Promise<boolean>;
}

const breakerValue = { closed: 0, half_open: 1, open: 2 };

/** Registers the gauges. Each reads its value when the worker is scraped. */
export function registerGauges(registry: Registry, sources: GaugeSources, labels: Labels): void {
  const gauge = <T extends string = never>(
    name: string,
    help: string,
    labelNames: T[],
    read: (gauge: Gauge<T>) => Promise<void> | void,
  ) => {
    const registers = [registry];
    const made: Gauge<T> = new Gauge<T>({ name, help, labelNames, registers, collect: () => read(made) });
  };
  gauge('millrace_runs_active', 'Runs in progress in this worker.', [], (active) => active.set(sources.active()));
  gauge('millrace_worker_concurrency', 'Runs this worker takes at once from a queue.', ['queue'], (concurrency) => {
    for (const queue of sources.queues) concurrency.set({ queue }, sources.concurrency);
  });
  gauge('millrace_redis_up', '1 when Redis answered this scrape in time.', [], async (redisUp) =>
    redisUp.set((await sources.redisUp()) ? 1 : 0),
  );
  const lagHelp = 'How long the event of a run here has waited to be written that has waited longest. 0: none waits.';
  gauge('millrace_event_lag_seconds', lagHelp, [], (lag) => lag.set(sources.eventLagMs() / 1_000));
  const breakerHelp = 'Circuit breaker of a model that failed lately: 0 closed, 1 half open, 2 open.';
  gauge('millrace_breaker_state', breakerHelp, ['provider', 'model'], (breaker) => {
    breaker.reset();
    for (const [target, state] of sources.breakers()) {
      if (toolBreakerLabel(target) !== undefined) continue;
      const slash = target.indexOf('/');
      const model = labels.model(target.slice(slash + 1));
      breaker.set({ provider: target.slice(0, slash), model }, breakerValue[state]);
    }
  });
  const toolHelp =
    'Circuit breakers of a tool, or of the tools of a server, that failed lately, the worst of all tenants and agents: 0 closed, 1 half open, 2 open.';
  gauge('millrace_tool_breaker_state', toolHelp, ['tool'], (breaker) => {
    breaker.reset();
    const worst = new Map<string, number>();
    for (const [target, state] of sources.breakers()) {
      const label = toolBreakerLabel(target);
      if (label === undefined) continue;
      const tool = labels.tool({ toolName: label });
      worst.set(tool, Math.max(worst.get(tool) ?? 0, breakerValue[state]));
    }
    for (const [tool, value] of worst) breaker.set({ tool }, value);
  });
}
