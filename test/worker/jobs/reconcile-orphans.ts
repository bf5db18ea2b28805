import { expect, test } from 'vitest';
import { createRuns, newRun } from '../../../src/shared/state/run/create-runs.ts';
import { newNonce } from '../../../src/shared/base/ids.ts';
import { runKeySpace } from '../../support/run-key-space.ts';
import { Steps } from '../../support/steps.ts';
import { makeWorld } from './reconcile-world.ts';

const tenant = 'default';
const all = Number.POSITIVE_INFINITY;

/**
 * A run is created whose entry an earlier try left behind, as it died before it wrote the record, and the reconciler takes that
 * entry for an orphan meanwhile: whichever commands come first, the run is listed in the end.
 */
export function orphanTests(name: string, url: () => string | undefined): void {
  test(`${name}: a run that is created while the entry of an earlier try is forgotten stays listed`, async () => {
    const passing = new Steps();
    const at = url();
    const world = await makeWorld({ through: (redis) => passing.through(redis), ...(at !== undefined && { url: at }) });
    const { redis, keys, cluster } = world;
    const creating = new Steps();
    const keySpace = runKeySpace(creating.through(redis), keys, cluster);

    /** The creation sends so many commands, then the pass so many, then each the rest. Answers the lists that lack the run. */
    const missingAfter = async (first: number, between: number): Promise<readonly string[]> => {
      creating.hold();
      passing.hold();
      const request = { agent: 'a', input: 'x', executionId: `${first}-${between}`, queueTtlMs: 3_600_000 };
      const run = newRun(request, { tenant, requestId: undefined }, newNonce());
      const { runId } = run;
      for (const list of [keys.open, keys.checks, keys.deadlines]) await redis.zadd(list, 1, runId);
      const created = createRuns([run], tenant, keySpace);
      await Promise.race([created, creating.send(first)]);
      const passed = world.pass();
      await Promise.race([passed, passing.send(between)]);
      void creating.send(all);
      expect(await created).toMatchObject([{ kind: 'created' }]);
      void passing.send(all);
      await passed;
      const lists = [keys.open, keys.checks, keys.deadlines];
      const scores = await Promise.all(lists.map((list) => redis.zscore(list, runId)));
      const listed = await redis.sismember(keys.openOf(tenant), runId);
      return [...lists.filter((_, i) => scores[i] === null), ...(listed ? [] : [keys.openOf(tenant)])];
    };

    expect(await missingAfter(all, all)).toEqual([]);
    const [ofCreation, ofPass] = [creating.answered, passing.answered];
    expect(Math.min(ofCreation, ofPass)).toBeGreaterThan(5);
    const wrong: string[] = [];
    for (let first = 0; first <= ofCreation; first++)
      for (let between = 1; between <= ofPass + 5; between++) {
        const missing = await missingAfter(first, between);
        if (missing.length > 0) wrong.push(`after ${first} and ${between} commands: ${missing.join(', ')}`);
      }
    expect(wrong).toEqual([]);
  });
}
