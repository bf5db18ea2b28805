import { readFileSync } from 'node:fs';

/** What a process has in memory now (`VmRSS`), or has had at most (`VmHWM`), in MB. Undefined once it is gone. Linux only. */
export function memoryMb(pid: number, field: 'VmRSS' | 'VmHWM'): number | undefined {
  try {
    const line = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return line ? Number(line[1]) / 1_024 : undefined;
  } catch {
    return undefined;
  }
}

/** What a process had in one phase of a test, in MB. */
export interface PhaseMemory {
  readonly phase: string;
  readonly samples: number;
  readonly most: number;
  /** Half of the samples have more. */
  readonly median: number;
}

/** Looks at the memory of whatever process it is pointed at, twice a second, and sorts what it sees by phase. */
export class MemoryWatch implements Disposable {
  readonly #timer: NodeJS.Timeout;
  readonly #seen = new Map<string, number[]>();
  /** Name of what the test does now. */
  phase: string;

  constructor(pidNow: () => number, phase: string) {
    this.phase = phase;
    this.#timer = setInterval(() => {
      const mb = memoryMb(pidNow(), 'VmRSS');
      if (mb !== undefined) this.#seen.set(this.phase, [...(this.#seen.get(this.phase) ?? []), mb]);
    }, 500);
  }

  get phases(): readonly PhaseMemory[] {
    return [...this.#seen].map(([phase, seen]) => {
      const sorted = seen.toSorted((a, b) => a - b).map(Math.round);
      const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
      return { phase, samples: sorted.length, most: sorted.at(-1) ?? 0, median };
    });
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
