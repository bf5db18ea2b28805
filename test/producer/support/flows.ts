import type { FlowFinding } from '../../../src/shared/contract/flow.ts';
import { newNonce } from '../../../src/shared/base/ids.ts';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import { runRequest } from '../../../src/shared/contract/run.ts';
import type { RedisConnection } from '../../../src/shared/state/connect.ts';
import type { Keys } from '../../../src/shared/state/keys.ts';
import { createRuns, newRun } from '../../../src/shared/state/run/create-runs.ts';
import { redisRuns } from '../../../src/shared/state/run/run-store.ts';
import type { Millrace } from '../../../src/producer/client/millrace.ts';
import { aFinding, aLeak } from '../../contract/audit-events.ts';
import type { OutgoingEvent } from '../../../src/shared/state/script.ts';
import { claimed } from '../../contract/store-world.ts';
import { runKeySpace } from '../../support/run-key-space.ts';

/** Where findings are written: a client, and the Redis below it. */
export interface FlowsWorld {
  readonly mill: Millrace;
  readonly redis: RedisConnection;
  readonly keys: Keys;
}

type Changes = NonNullable<Parameters<typeof aFinding>[2]>;

/** A finding, and how long ago it was. */
export type Found = Omit<Changes, 'type' | 'findings'> & {
  readonly findings?: readonly FlowFinding[];
  readonly decision?: 'flagged' | 'asked' | 'blocked' | 'declassified';
  readonly agoMs?: number;
};

/** A run whose worker found this about its calls, in this order, as its log and the audit of its tenant have it. Answers its id. */
export async function runWithFlows(world: FlowsWorld, found: readonly Found[]): Promise<string> {
  const now = Date.now();
  const written = await runWithEvents(world, (runId) =>
    found.map(({ decision = 'flagged', agoMs = 0, findings, ...rest }, i) => {
      const changes = findings ? { ...rest, findings: [...findings] } : rest;
      const timestamp = new Date(now - agoMs).toISOString();
      return { ...aFinding(runId, `call-${i}`, changes), timestamp, type: `dataflow.${decision}` } as OutgoingEvent;
    }),
  );
  if (found.some(({ agoMs }) => agoMs !== undefined))
    await dateBack(world.redis, world.keys.audit(world.mill.tenant ?? 'default'));
  return written;
}

/** A run in which the guards between agents found something. */
export async function runWithLeak(world: FlowsWorld): Promise<string> {
  return await runWithEvents(world, (runId) => [{ ...aLeak(runId), timestamp: new Date().toISOString() }]);
}

async function runWithEvents(
  { mill, redis, keys }: FlowsWorld,
  eventsOf: (runId: string) => readonly OutgoingEvent[],
): Promise<string> {
  const space = runKeySpace(redis, keys);
  // Without a job, so that no worker takes it.
  const run = newRun(
    runRequest.parse({ agent: 'support', input: 'x' }),
    { tenant: mill.tenant ?? 'default' },
    newNonce(),
  );
  await createRuns([run], mill.tenant ?? 'default', space);
  const { runId } = run;
  const runs = redisRuns({ ...space, clock: systemClock, log: silentLog });
  const { owner, seq } = await claimed({ runs }, runId, { owner: newNonce() });
  await runs.flush({ runId, owner, tenant: mill.tenant ?? 'default' }, seq, eventsOf(runId));
  return runId;
}

/** Entries come to the stream when they are written: this puts each where it would be. */
async function dateBack(redis: RedisConnection, key: string): Promise<void> {
  const entries = await redis.xrange(key, '-', '+');
  const dated = entries.map(([, [, json = '']]) => ({
    json,
    atMs: Date.parse((JSON.parse(json) as { at: string }).at),
  }));
  await redis.del(key);
  let [last, count] = [0, 0];
  for (const { json, atMs } of dated.toSorted((a, b) => a.atMs - b.atMs)) {
    count = atMs === last ? count + 1 : 0;
    last = atMs;
    await redis.xadd(key, `${atMs}-${count}`, 'a', json);
  }
}
