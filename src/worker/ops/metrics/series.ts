import { Counter, Histogram, type Registry } from 'prom-client';

/** Buckets for calls of models and tools, in seconds. */
export const callSeconds = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
/** Buckets for runs, in seconds. Runs wait for people and for each other: up to a week. */
export const runSeconds = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400, 604_800];

/** Makes the series of one registry. */
export class Series {
  readonly #registers: Registry[];

  constructor(registry: Registry) {
    this.#registers = [registry];
  }

  counter<T extends string = never>(name: string, help: string, labelNames: T[] = []): Counter<T> {
    return new Counter({ name, help, labelNames, registers: this.#registers });
  }

  histogram<T extends string>(name: string, help: string, labelNames: T[], buckets: number[]): Histogram<T> {
    return new Histogram({ name, help, labelNames, buckets, registers: this.#registers });
  }
}
