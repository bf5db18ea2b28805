import { collectDefaultMetrics, Registry } from 'prom-client';
import type { EventBody } from '../../../shared/contract/event.ts';
import { postRunKind, type PostRunKind } from '../../../shared/contract/queues.ts';
import { registerGauges, type GaugeSources } from './gauges.ts';
import { Labels, type KnownLabels, seriesOf } from './series.ts';
import { modelMetrics } from './model-metrics.ts';
import { runMetrics, type ObservedRun } from './run-metrics.ts';
import { toolMetrics } from './tool-metrics.ts';

/** What the gauges are read from, and the label values that the worker knows before anything happens. */
export interface MetricSources extends GaugeSources {
  readonly known: KnownLabels;
}

/**
 * The worker's metrics. Almost all of them are made from the events that a run publishes anyway, so a new fact is counted
 * in one place. Labels come from closed or configured sets (agents, models, tools); never run ids or free text.
 */
export class WorkerMetrics {
  readonly registry = new Registry();
  /** Runs without a job that the reconciler requeued. Should stay 0. */
  readonly requeued;
  readonly unreachable;
  readonly #postrunFailed;
  readonly runs;
  readonly models;
  readonly #tools;

  constructor(sources: MetricSources) {
    const labels = new Labels(sources.known);
    const series = seriesOf(this.registry);
    collectDefaultMetrics({ register: this.registry });
    registerGauges(this.registry, sources, labels);
    this.runs = runMetrics(series, labels);
    this.models = modelMetrics(series, labels);
    this.#tools = toolMetrics(series, labels);
    this.requeued = series.counter(
      'millrace_runs_requeued_total',
      'Runs without a job that the reconciler requeued. Should stay 0.',
    );
    this.unreachable = series.counter(
      'millrace_reconcile_unreachable_total',
      'Open runs and threads that the reconciler could not look at, because their node of Redis was away.',
    );
    this.#postrunFailed = series.counter(
      'millrace_postrun_jobs_failed_total',
      'Titles and embeddings that could not be made after an answer.',
      'kind',
    );
    for (const kind of postRunKind.options) this.#postrunFailed.inc({ kind }, 0);
  }

  postrunFailed(kind: PostRunKind): void {
    this.#postrunFailed.inc({ kind });
  }

  /** Counts one event. Never throws; an event without a metric is ignored. */
  observe(event: EventBody, run: ObservedRun): void {
    this.runs.observe(event, run);
    this.models.observe(event);
    this.#tools.observe(event);
  }
}
