import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { configDefaults, defineConfig } from 'vitest/config';
import { ClosingReporter } from './test/support/closing-reporter.ts';
import { guardsInE2e, lane } from './test/support/lane.ts';

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));

/** Storms and whole stacks, the cluster twins of the contract suites, the chart, the package, the browser. */
const slow = ['test/**/*.{long,cluster}.test.ts', 'test/deploy/**/*.test.ts', 'test/browser/**/*.test.ts'];
/** What measures memory or time, or takes minutes for a figure: each has the machine for itself. */
const soak = ['test/**/*.soak.test.ts'];
/** The twins over HTTP, left out as well: they import test files, which a shared process may have loaded for their own sake. */
const overHttp = ['test/**/*-over-http.test.ts'];
const e2e = 'test/e2e/**';
const chaos = 'test/chaos/**';

/** What each project runs in this lane. */
const files = {
  fast: {
    unit: { include: ['{test,examples}/**/*.test.ts'], exclude: [...slow, ...soak, ...overHttp, e2e, chaos] },
    http: { include: [], exclude: [] },
    e2e: { include: guardsInE2e(), exclude: [] },
    chaos: { include: [`${chaos}/*.test.ts`], exclude: [...slow, ...soak] },
  },
  slow: {
    unit: { include: slow, exclude: [...soak, ...overHttp, e2e, chaos] },
    http: { include: overHttp, exclude: [] },
    e2e: { include: [`${e2e}/*.test.ts`], exclude: [...guardsInE2e(), ...soak, ...overHttp] },
    chaos: { include: [`${chaos}/*.{long,cluster}.test.ts`], exclude: soak },
  },
  soak: {
    unit: { include: soak, exclude: [] },
    http: { include: [], exclude: [] },
    e2e: { include: [], exclude: [] },
    chaos: { include: [], exclude: [] },
  },
  all: {
    unit: { include: ['{test,examples}/**/*.test.ts'], exclude: [...overHttp, e2e, chaos] },
    http: { include: overHttp, exclude: [] },
    e2e: { include: [`${e2e}/*.test.ts`], exclude: overHttp },
    chaos: { include: [`${chaos}/*.test.ts`], exclude: [] },
  },
}[lane];
const filesOf = (project: keyof typeof files) => ({
  include: files[project].include,
  exclude: [...configDefaults.exclude, ...files[project].exclude],
});
const cores = availableParallelism();
/** Two for each core where many wait for a lease to end or a process to start. Storms and stacks have their cores for themselves. */
const { many, few } = {
  fast: { many: 2 * cores, few: 2 * cores },
  slow: { many: 2 * cores, few: cores },
  soak: { many: 1, few: 1 },
  all: { many: cores, few: cores },
}[lane];
/** Those with other numbers run one group after the other. */
const light = { maxWorkers: many, sequence: { groupOrder: 0 } };
const heavy = { maxWorkers: few, sequence: { groupOrder: few === many ? 0 : 1 } };

/** The files of a project share one process and its loaded modules: nothing of a test may outlive it. */
const shared = {
  isolate: false,
  env: { NODE_COMPILE_CACHE: path('.cache/compile') },
  // As long as a slow machine needs: what comes at all comes far sooner.
  expect: { poll: { timeout: 60_000 } },
  restoreMocks: true,
  unstubEnvs: true,
  unstubGlobals: true,
  setupFiles: ['test/support/setup.ts'],
};

export default defineConfig({
  resolve: {
    alias: {
      'millrace/client': path('src/producer/client/remote/entry.ts'),
      'millrace/testing': path('src/testing/index.ts'),
      'millrace/worker': path('src/worker/index.ts'),
      millrace: path('src/producer/index.ts'),
    },
  },
  test: {
    globalSetup: ['test/support/global-setup.ts'],
    // For machines that do much else: no test waits for a time to pass.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // A lease that a busy machine let lapse ends a test about leases. What is broken is red twice, and what was repeated is named.
    retry: process.env['CI'] === 'true' ? 1 : 0,
    reporters: ['default', new ClosingReporter()],
    projects: [
      { test: { ...shared, ...heavy, name: 'unit', ...filesOf('unit') } },
      { test: { ...shared, ...light, name: 'http', ...filesOf('http'), isolate: true } },
      { test: { ...shared, ...light, name: 'e2e', ...filesOf('e2e') } },
      { test: { ...shared, ...heavy, name: 'chaos', ...filesOf('chaos'), testTimeout: 180_000 } },
    ],
  },
});
