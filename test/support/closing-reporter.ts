import type { Reporter, TestModule, TestProject } from 'vitest/node';

const shown = 10;

/** Ends a run of several files with the ten that took longest, and a run that failed with its seed. */
export class ClosingReporter implements Reporter {
  readonly #begun = new Map<string, number>();
  readonly #tookMs = new Map<TestModule, number>();
  #seed: number | undefined;

  onTestModuleQueued(module: TestModule): void {
    this.#begun.set(module.id, performance.now());
    this.#seed = seedOf(module.project);
  }

  onTestModuleEnd(module: TestModule): void {
    this.#tookMs.set(module, performance.now() - (this.#begun.get(module.id) ?? 0));
  }

  onTestRunEnd(_modules: readonly TestModule[], _errors: readonly unknown[], reason: string): void {
    const slowest = [...this.#tookMs].toSorted(([, a], [, b]) => b - a).slice(0, shown);
    const lines = slowest.map(([module, ms]) => `${(ms / 1_000).toFixed(1).padStart(8)} s  ${module.relativeModuleId}`);
    if (lines.length > 1) process.stdout.write(`\nThe slowest files:\n${lines.join('\n')}\n`);
    if (reason === 'failed')
      process.stdout.write(`\nTEST_SEED=${this.#seed} gives the random tests the same numbers.\n`);
  }
}

const seedOf = (project: TestProject) => project.getProvidedContext().seed;
