import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { configDefaults, defineConfig } from 'vitest/config';
import { ClosingReporter } from './test/support/closing-reporter.ts';
import { lane } from './test/support/lane.ts';

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));

/** What `npm test` leaves out, so that it takes minutes: storms, soaks and whole stacks, the cluster twins of the contract suites, the chart, the browser. */
const slow = ['test/**/*.{long,cluster}.test.ts', 'test/deploy/**/*.test.ts', 'test/browser/**/*.test.ts'];
/** The twins over HTTP, left out as well: they import test files, which a shared process may have loaded for their own sake. */
const overHttp = ['test/**/*-over-http.test.ts'];
/** The test files of a folder that are in this lane. */
const filesIn = (folder: string) => [`${folder}/**/*.${lane === 'slow' ? '{long,cluster}.' : ''}test.ts`];
const excluded = [...configDefaults.exclude, ...(lane === 'fast' ? slow : [])];
const exclude = [...excluded, ...overHttp];

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
    // Two for each core: many tests wait for a lease to end or a process to start. Storms have their cores for themselves.
    maxWorkers: (lane === 'fast' ? 2 : 1) * availableParallelism(),
    reporters: ['default', new ClosingReporter()],
    projects: [
      {
        test: {
          ...shared,
          name: 'unit',
          include: [...filesIn('test'), ...filesIn('examples'), ...(lane === 'slow' ? slow : [])],
          exclude: [...exclude, 'test/e2e/**', 'test/chaos/**'],
        },
      },
      {
        test: {
          ...shared,
          isolate: true,
          name: 'http',
          include: lane === 'fast' ? [] : overHttp,
          exclude: excluded,
        },
      },
      { test: { ...shared, name: 'e2e', include: filesIn('test/e2e'), exclude } },
      { test: { ...shared, name: 'chaos', include: filesIn('test/chaos'), exclude, testTimeout: 180_000 } },
    ],
  },
});
