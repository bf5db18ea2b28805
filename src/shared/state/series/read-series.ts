import {
  seriesPoint,
  seriesSteps,
  type AgentSeries,
  type ModelSeries,
  type SeriesPoint,
  type SeriesReport,
} from '../../contract/report/series.ts';
import type { KeySpace } from '../keys.ts';

export interface SeriesRange {
  /** Seconds since the epoch, on steps. */
  readonly fromS: number;
  readonly toS: number;
  readonly stepS: number;
}

/** Counters by name, of one bucket or of several. */
type Sums = Map<string, number>;

/** The steps from `fromS` up to `toS`. One that is longer than a bucket is the sum of several. */
export async function readSeries(
  { redis, keys }: KeySpace,
  tenant: string,
  { fromS, toS, stepS }: SeriesRange,
): Promise<SeriesReport> {
  const bucketS = bucketFor(stepS);
  const length = Math.round((toS - fromS) / bucketS);
  const starts = Array.from({ length }, (_, index) => fromS + index * bucketS);
  const hashes = await Promise.all(starts.map((at) => redis.hgetall(keys.series(tenant, bucketS, at))));
  const steps = new Map<number, Sums>();
  const all: Sums = new Map();
  for (const [index, at] of starts.entries()) {
    const start = at - (at % stepS);
    const sums: Sums = steps.get(start) ?? new Map<string, number>();
    steps.set(start, sums);
    for (const [counter, text] of Object.entries(hashes[index] ?? {})) {
      const by = Number(text);
      const before = sums.get(counter) ?? 0;
      sums.set(counter, counter.startsWith('max:') ? Math.max(before, by) : before + by);
      all.set(counter, (all.get(counter) ?? 0) + by);
    }
  }
  return {
    from: isoOf(fromS),
    to: isoOf(toS),
    stepS,
    points: [...steps].map(([at, sums]) => pointOf(at, sums)),
    agents: namedIn('agent', all, agentOf).sort((a, b) => b.ended - a.ended || order(a.agent, b.agent)),
    models: namedIn('model', all, modelOf).sort(
      (a, b) => b.costMicrocents - a.costMicrocents || order(a.model, b.model),
    ),
  };
}

/** The longest kept step that fits into this one. */
export function bucketFor(stepS: number): number {
  return seriesSteps.findLast((kept) => stepS % kept.stepS === 0)?.stepS ?? seriesSteps[0].stepS;
}

function isoOf(seconds: number): string {
  return new Date(seconds * 1_000).toISOString();
}

const plainCounters = seriesPoint.omit({ at: true, maxQueueWaitMs: true, endedBy: true, errors: true }).keyof().options;

function pointOf(at: number, sums: Sums): SeriesPoint {
  const counted = Object.fromEntries(plainCounters.map((name) => [name, sums.get(name) ?? 0])) as Omit<
    SeriesPoint,
    'at' | 'maxQueueWaitMs' | 'endedBy' | 'errors'
  >;
  return {
    at: isoOf(at),
    ...counted,
    maxQueueWaitMs: sums.get('max:queueWaitMs') ?? 0,
    endedBy: partsOf('endedBy', sums),
    errors: partsOf('error', sums),
  };
}

/** Counters that begin with this word, under the rest of their names. */
function partsOf(word: string, sums: Sums): Record<string, number> {
  const parts = [...sums].filter(([counter]) => counter.startsWith(`${word}:`));
  return Object.fromEntries(parts.map(([counter, by]) => [counter.slice(word.length + 1), by]));
}

type Counter = (name: string) => number;

function namedIn<T>(kind: 'agent' | 'model', sums: Sums, shape: (name: string, counter: Counter) => T): T[] {
  const names = new Set<string>();
  for (const counter of sums.keys()) {
    const [, name] = new RegExp(`^${kind}:[A-Za-z]+:(.*)$`, 's').exec(counter) ?? [];
    if (name !== undefined) names.add(name);
  }
  return [...names].map((name) => shape(name, (counter) => sums.get(`${kind}:${counter}:${name}`) ?? 0));
}

function spentOf(of: Counter) {
  return { inputTokens: of('inputTokens'), outputTokens: of('outputTokens'), costMicrocents: of('costMicrocents') };
}

function agentOf(agent: string, of: Counter): AgentSeries {
  return {
    agent,
    ended: of('ended'),
    failed: of('failed'),
    durationMs: of('durationMs'),
    toolCalls: of('toolCalls'),
    toolErrors: of('toolErrors'),
    ...spentOf(of),
  };
}

function modelOf(model: string, of: Counter): ModelSeries {
  return { model, attempts: of('attempts'), ...spentOf(of) };
}

function order(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
