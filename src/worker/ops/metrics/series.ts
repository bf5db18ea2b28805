import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { closedNames, otherName } from '../../../shared/base/ids.ts';

/** Buckets for calls of models and tools, in seconds. */
export const callSeconds = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
/** Buckets for runs, in seconds. Runs wait for people and for each other: up to a week. */
export const runSeconds = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400, 604_800];

export type Series = ReturnType<typeof seriesOf>;

/** Makes the counters and histograms of a registry. */
export function seriesOf(registry: Registry) {
  const registers = [registry];
  return {
    counter: <T extends string = never>(name: string, help: string, ...labelNames: T[]) =>
      new Counter<T>({ name, help, labelNames, registers }),
    gauge: (name: string, help: string) => new Gauge({ name, help, registers }),
    histogram: <T extends string>(name: string, help: string, buckets: number[], ...labelNames: T[]) =>
      new Histogram<T>({ name, help, labelNames, buckets, registers }),
  };
}

/** Servers may offer any number of tools: so many names beyond the configured ones become labels. */
const maxFurtherTools = 500;

/**
 * The values that labels have, beside one for all others. Their series exist from the start, at 0: a series that is born
 * at 1 has no increase, so an alert on it would miss the first event.
 */
export interface KnownLabels {
  readonly agents: readonly string[];
  readonly models: readonly string[];
  readonly tools: readonly string[];
}

/** Turns names into labels, of which there is a bounded number whatever callers, models and servers send. */
export class Labels {
  readonly known: KnownLabels;
  readonly agent: (name: string) => string;
  readonly model: (name: string) => string;
  readonly #knownTools: ReadonlySet<string>;
  readonly #furtherTools = new Set<string>();

  constructor(known: KnownLabels) {
    this.known = known;
    this.agent = closedNames(known.agents);
    this.model = closedNames(known.models);
    this.#knownTools = new Set(known.tools);
  }

  /** The model of a rate limiter, which is named `<credential>:<model>`. */
  modelOfLimiter(limiter: string): string {
    return this.model(limiter.slice(limiter.indexOf(':') + 1));
  }

  /** Tools that a provider runs have names of its own, of which there may be any number. */
  tool({ toolName, relayed }: { readonly toolName: string; readonly relayed?: true | undefined }): string {
    if (relayed) return 'relayed';
    if (!this.#knownTools.has(toolName) && this.#furtherTools.size < maxFurtherTools) this.#furtherTools.add(toolName);
    return this.#knownTools.has(toolName) || this.#furtherTools.has(toolName) ? toolName : otherName;
  }
}
