import { mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import { named } from '../../src/shared/state/errors.ts';
import { openArchive } from '../../src/shared/state/archive/archive.ts';
import { openBlobs } from '../../src/shared/state/files/open-blobs.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { testRedis, until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';

/** A fleet whose workers archive into a folder, and that archive as another process sees it. */
async function archivingWorld() {
  const root = mkdtempSync(join(tmpdir(), 'millrace-archive-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const world = await makeWorld({ env: { ARTIFACT_STORE: `file:${root}` } });
  const redis = await testRedis();
  const keys = keysFor(world.fleet.prefix);
  const deps = {
    keys,
    clock: systemClock,
    reach: <T>(work: (connection: typeof redis) => Promise<T>) => named('a test', work(redis)),
  };
  const opened = await openBlobs({ kind: 'folder', root }, deps);
  onTestFinished(() => opened[Symbol.dispose]());
  const kept = { kind: 'folder' as const, ttlS: 604_800, maxRedisBytes: 1 };
  const archive = openArchive({ ...deps, ...kept, blobs: async () => opened.blobs });
  return {
    world,
    archive,
    root,
    due: async () => await redis.zrange(keys.archiveDue, 0, '-1'),
    /** As if the leases of lost workers were over. */
    async leasesEnd() {
      for (const runId of await redis.zrange(keys.archiveDue, 0, '-1')) await redis.zadd(keys.archiveDue, 1, runId);
    },
    /** Until then the worker makes folders of its own accord. */
    async definitions() {
      const ready = world.worker.output.split('\n').find((line) => line.includes('"msg":"worker is ready"'));
      const { agents } = JSON.parse(ready ?? '') as { agents: readonly string[] };
      await until('the worker has written the definition of each agent', () => this.written() >= agents.length);
      return agents.length;
    },
    written: () =>
      readdirSync(root, { recursive: true }).filter((path) => /^files\/(?:run|agent)-/.test(String(path))).length,
  };
}

test('workers that are killed while they archive leave no run out', async () => {
  const { world, ...at } = await archivingWorld();
  const agents = await at.definitions();
  const runs = await Promise.all(
    Array.from({ length: 40 }, (_, i) => world.submit('plain', [{ text: `answer ${i}` }])),
  );
  await until('some runs are archived', () => at.written() > agents + 3);
  world.worker.signal('SIGKILL');
  await world.worker.exited;
  await at.leasesEnd();
  await world.addWorker();
  for (const run of runs) expect((await world.ended(run)).view.status).toBe('completed');
  await until('nothing waits for the archive', async () => (await at.due()).length === 0);
  for (const { runId } of runs) {
    const archived = await at.archive.read('default', runId);
    expect(archived?.record.status).toBe('completed');
    expect(archived?.events.at(-1)?.type).toBe('run.completed');
    expect(await at.archive.readDefinition(archived?.definition ?? '')).toMatchObject({ id: 'plain' });
  }
});

test('while the folder of the archive is away answers come as ever, and runs are archived once it is back', async () => {
  const { world, ...at } = await archivingWorld();
  const files = join(at.root, 'files');
  await at.definitions();
  renameSync(files, `${files}.away`);
  writeFileSync(files, 'no folder');
  const run = await world.submit('plain', [{ text: 'still here' }]);
  expect((await world.ended(run)).view).toMatchObject({ status: 'completed', result: { text: 'still here' } });
  await until('the worker says that it cannot archive', () =>
    world.worker.output.includes('ended runs cannot be archived now'),
  );
  expect(await at.due()).toEqual([run.runId]);
  rmSync(files);
  renameSync(`${files}.away`, files);
  await at.leasesEnd();
  await until('nothing waits for the archive', async () => (await at.due()).length === 0);
  expect((await at.archive.read('default', run.runId))?.record.result?.text).toBe('still here');
});
