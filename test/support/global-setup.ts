import type { TestProject } from 'vitest/node';
import { startScratchRedis } from './scratch-redis.ts';
import { buildEntries } from './entries.ts';

declare module 'vitest' {
  interface ProvidedContext {
    redisUrl: string;
    seed: number;
    /** Folder of the bundled entries. */
    entries: string;
  }
}

/** One private Redis for the whole test run; every test file uses its own key prefix (see `testPrefix`). */
export default async function setup(project: TestProject) {
  if (Number(process.versions.node.split('.')[0]) < 24)
    throw new Error('run the tests with `npm test`: they need Node 24');
  project.provide('seed', Number(process.env['TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31)));
  project.provide('entries', await buildEntries());
  const redis = await startScratchRedis();
  project.provide('redisUrl', redis.url);
  return () => redis.stop();
}
