import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { otherName } from '../../shared/base/ids.ts';
import { orLate } from '../../shared/base/deadline.ts';
import { defaultQueue, maintenanceQueue, maxQueues, quarantineQueue } from '../../shared/contract/queues.ts';
import type { LineEnd } from '../client/batches/batches.ts';
import type { QueueState } from '../client/enqueue.ts';
import { sharedFor } from '../client/shared-for.ts';

type Depths = Readonly<Record<string, QueueState>>;

/** A scrape that Redis does not answer in time goes out without the queues. */
const scrapeDeadlineMs = 500;
/** Scrapes within this time share one look at Redis: the route needs no key. */
const depthAgeMs = 1_000;
/** Queues that are labels: those of runs, each with the one of its post-run jobs, and the two that always exist. */
const maxLabels = 2 * maxQueues + 2;
const maxAgents = 200;

const seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

const runOutcomes = ['accepted', 'attached', 'refused'] as const;
const lineEnds = ['answered', 'failed', 'refused'] as const satisfies readonly LineEnd[];

export interface HandledRequest {
  /** The pattern of the route, never the path itself. Undefined when no route matched. */
  readonly route: string | undefined;
  readonly method: string;
  readonly status: number;
  /** Undefined for answers that wait for a run: their duration is not ours. */
  readonly durationMs: number | undefined;
}

/** The producer's metrics. No label has a run id, a tenant or any other text of a caller. */
export class ProducerMetrics {
  readonly #registry = new Registry();
  readonly #requests = this.#counter('millrace_http_requests_total', 'HTTP requests answered.', [
    'route',
    'method',
    'status',
  ]);
  readonly #requestSeconds = new Histogram({
    name: 'millrace_http_request_seconds',
    help: 'Time to answer an HTTP request, without those that wait for a run.',
    labelNames: ['route', 'method'],
    buckets: seconds,
    registers: [this.#registry],
  });
  readonly #enqueued = this.#counter(
    'millrace_runs_enqueued_total',
    'Requests for runs over HTTP: accepted, attached to a known execution id, or refused.',
    ['outcome'],
  );
  readonly #ended = this.#counter(
    'millrace_runs_total',
    'Runs that ended here because no worker had them: cancelled while they waited. Workers count all others.',
    ['agent', 'kind', 'status'],
  );
  readonly #batchLines = this.#counter(
    'millrace_batch_lines_total',
    'Lines of batches that this producer has taken the outcome of: answered, failed, or refused before a run began or as their batch ended.',
    ['outcome'],
  );
  readonly #batchesOpen = this.#gauge(
    'millrace_batches_open',
    'Batches that have not ended. Every producer reports the same: aggregate with max.',
  );
  readonly #batches = sharedFor(depthAgeMs, () => withinDeadline(this.#countBatches()));
  readonly #countBatches: () => Promise<number | undefined>;
  /** Agents by the names that requests were accepted for; more than these are counted as one. */
  readonly #agents = new Set<string>();
  /** Event streams that are open now. */
  readonly subscribers = this.#gauge('millrace_event_streams', 'Event streams that are open.');
  readonly #redisUp = this.#gauge('millrace_redis_up', '1 when Redis answered this scrape in time.');
  readonly #queueJobs = this.#gauge(
    'millrace_queue_jobs',
    'Jobs by queue and state. Every producer reports the same: aggregate with max.',
    ['queue', 'state'],
  );
  readonly #queueWorkers = this.#gauge(
    'millrace_queue_workers',
    'Live workers that serve a queue. Every producer reports the same: aggregate with max.',
    ['queue'],
  );
  readonly #depths: () => Promise<Depths | undefined>;

  /** `countBatches` answers undefined while it is not known. */
  constructor(
    readDepths: () => Promise<Depths>,
    countBatches: () => Promise<number | undefined> = async () => undefined,
  ) {
    this.#countBatches = countBatches;
    this.#depths = sharedFor(depthAgeMs, () => withinDeadline(readDepths()));
    collectDefaultMetrics({ register: this.#registry });
    for (const outcome of runOutcomes) this.#enqueued.inc({ outcome }, 0);
    for (const outcome of lineEnds) this.#batchLines.inc({ outcome }, 0);
  }

  requestHandled({ route = 'unmatched', method, status, durationMs }: HandledRequest): void {
    this.#requests.inc({ route, method, status });
    if (durationMs !== undefined) this.#requestSeconds.observe({ route, method }, durationMs / 1_000);
  }

  /** Counts what becomes of a request for a run. */
  runAsked(outcome: (typeof runOutcomes)[number]): void {
    this.#enqueued.inc({ outcome });
  }

  /** The same for one whose answer says so, or its refusal. */
  async asking<T extends { readonly attached: boolean }>(request: () => Promise<T>): Promise<T> {
    try {
      const answer = await request();
      this.runAsked(answer.attached ? 'attached' : 'accepted');
      return answer;
    } catch (error) {
      this.runAsked('refused');
      throw error;
    }
  }

  batchLine(outcome: LineEnd): void {
    this.#batchLines.inc({ outcome });
  }

  runEnded({ agent, kind, status }: { readonly agent: string; readonly kind: string; readonly status: string }): void {
    if (this.#agents.size < maxAgents) this.#agents.add(agent);
    this.#ended.inc({ agent: this.#agents.has(agent) ? agent : otherName, kind, status });
  }

  /** In the text format of Prometheus. Answers within a second also while Redis is away. */
  async scrape(): Promise<{ contentType: string; body: string }> {
    await this.#fillQueues();
    return { contentType: this.#registry.contentType, body: await this.#registry.metrics() };
  }

  #counter<L extends string>(name: string, help: string, labelNames: L[]): Counter<L> {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  #gauge<L extends string = never>(name: string, help: string, labelNames: L[] = []): Gauge<L> {
    return new Gauge({ name, help, labelNames, registers: [this.#registry] });
  }

  async #fillQueues(): Promise<void> {
    const [depths, batches] = await Promise.all([this.#depths(), this.#batches()]);
    if (batches !== undefined) this.#batchesOpen.set(batches);
    this.#redisUp.set(depths ? 1 : 0);
    this.#queueJobs.reset();
    this.#queueWorkers.reset();
    const sorted = Object.entries(depths ?? {}).sort(([a], [b]) => labelOrder(a, b));
    for (const [position, [name, { workers, ...byState }]] of sorted.entries()) {
      const queue = position < maxLabels ? name : otherName;
      for (const [state, jobs] of Object.entries(byState)) this.#queueJobs.inc({ queue, state }, jobs);
      if (queue === name) this.#queueWorkers.set({ queue }, workers);
    }
  }
}

/** The queues that always exist come first: however many others there are, they are labels. */
function labelOrder(a: string, b: string): number {
  const rank = (name: string) => Number(name !== maintenanceQueue && name !== quarantineQueue && name !== defaultQueue);
  return rank(a) - rank(b) || (a < b ? -1 : 1);
}

async function withinDeadline<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await orLate(scrapeDeadlineMs, reading, () => undefined);
  } catch {
    // `millrace_redis_up` is 0 then.
    return undefined;
  }
}
