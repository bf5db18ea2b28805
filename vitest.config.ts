import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));

export default defineConfig({
  resolve: { alias: { 'millrace/worker': path('src/worker/index.ts'), millrace: path('src/producer/index.ts') } },
  test: {
    globalSetup: ['test/support/global-setup.ts'],
    testTimeout: 20_000,
    hookTimeout: 30_000,
    maxWorkers: 2,
    reporters: ['default'],
    projects: [
      { test: { name: 'unit', include: ['test/**/*.test.ts'], exclude: ['test/e2e/**', 'test/chaos/**'] } },
      { test: { name: 'e2e', include: ['test/e2e/**/*.test.ts'], testTimeout: 60_000 } },
      { test: { name: 'chaos', include: ['test/chaos/**/*.test.ts'], testTimeout: 180_000, fileParallelism: false } },
    ],
  },
});
