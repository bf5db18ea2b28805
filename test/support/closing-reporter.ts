import { rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Reporter, TestModule, TestProject } from 'vitest/node';

const shown = 10;
/** A machine that does much else fails a few files. When it is more than these, something is broken. */
const mostAgain = 8;
const failedList = fileURLToPath(new URL('../../.cache/failed-tests', import.meta.url));

/**
 * Ends a run with the tests that were green only when they were repeated, the ten files that took longest, and, when it failed, its seed.
 * Files that failed, as long as they are few, are left in `.cache/failed-tests`, so that they can be run again by themselves.
 */
export class ClosingReporter implements Reporter {
  readonly #begun = new Map<string, number>();
  readonly #tookMs = new Map<TestModule, number>();
  #seed: number | undefined;

  onTestRunStart(): void {
    rmSync(failedList, { force: true });
  }

  onTestModuleQueued(module: TestModule): void {
    this.#begun.set(module.id, performance.now());
    this.#seed = seedOf(module.project);
  }

  onTestModuleEnd(module: TestModule): void {
    this.#tookMs.set(module, performance.now() - (this.#begun.get(module.id) ?? 0));
  }

  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[], reason: string): void {
    const repeated = modules.flatMap(({ relativeModuleId, children }) =>
      [...children.allTests('passed')]
        .filter((test) => test.diagnostic()?.flaky)
        .map((test) => `  ${relativeModuleId} > ${test.fullName}`),
    );
    if (repeated.length > 0) process.stdout.write(`\nGreen only when repeated:\n${repeated.join('\n')}\n`);
    const slowest = [...this.#tookMs].toSorted(([, a], [, b]) => b - a).slice(0, shown);
    const lines = slowest.map(([module, ms]) => `${(ms / 1_000).toFixed(1).padStart(8)} s  ${module.relativeModuleId}`);
    if (lines.length > 1) process.stdout.write(`\nThe slowest files:\n${lines.join('\n')}\n`);
    const failed = modules.filter((module) => module.state() === 'failed').map((module) => module.relativeModuleId);
    if (errors.length === 0 && failed.length > 0 && failed.length <= mostAgain)
      writeFileSync(failedList, `${failed.join('\n')}\n`);
    if (reason === 'failed')
      process.stdout.write(`\nTEST_SEED=${this.#seed} gives the random tests the same numbers.\n`);
  }
}

const seedOf = (project: TestProject) => project.getProvidedContext().seed;
