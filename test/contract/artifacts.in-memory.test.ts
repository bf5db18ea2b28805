import { expect, test } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import { inMemoryArtifacts } from '../../src/worker/local/stores/in-memory-results.ts';
import { artifactBounds, artifactsContract } from './artifacts.ts';

artifactsContract('the in-memory form', async () => {
  const store = inMemoryArtifacts(artifactBounds, systemClock);
  return async () => store;
});

const info = { toolName: 'report', trust: 'built-in', sensitivity: 'public' } as const;

test('results of seven days ago are gone', async () => {
  let nowMs = Date.UTC(2026, 10, 1);
  const store = inMemoryArtifacts(artifactBounds, { ...systemClock, now: () => nowMs });
  await store.put('run', 'one', Buffer.from('text'), info);
  nowMs += 7 * 86_400_000 - 1;
  expect(await store.read('run', 'one', 0, 10)).toBeDefined();
  nowMs += 1;
  expect(await store.read('run', 'one', 0, 10)).toBeUndefined();
});

test('the results that were kept first make room once all together are over 256 MiB', async () => {
  const size = 32 * 1024 * 1024;
  const store = inMemoryArtifacts({ maxBytes: size, maxRunBytes: size }, systemClock);
  const runs = Array.from({ length: 9 }, (_, i) => `run${i}`);
  for (const run of runs) await store.put(run, 'one', Buffer.alloc(size), info);
  const found = await Promise.all(runs.map((run) => store.read(run, 'one', 0, 1)));
  expect(found.map((part) => part !== undefined)).toEqual([false, ...Array<boolean>(8).fill(true)]);
});
