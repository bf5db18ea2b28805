import { pairsOf } from '../../base/collections.ts';
import type { KeySpace } from '../keys.ts';

/** All that an ended run leaves in Redis, as it stands there. */
export interface EndedRun {
  readonly runId: string;
  /** Fields of the record and of the machinery. */
  readonly hash: Readonly<Record<string, string>>;
  /** JSON of each. */
  readonly journal: readonly string[];
  readonly events: readonly string[];
  readonly decisions: readonly string[];
}

/** What there is of the run, in one round trip. Undefined: its record is gone. */
export async function readEnded({ redis, keys }: KeySpace, runId: string): Promise<EndedRun | undefined> {
  const pipeline = redis.pipeline();
  pipeline.hgetall(keys.run(runId)).lrange(keys.journal(runId), 0, -1);
  pipeline.xrange(keys.events(runId), '-', '+').hvals(keys.decisions(runId));
  const replies = (await pipeline.exec()) ?? [];
  const failed = replies.find(([error]) => error)?.[0];
  if (failed) throw failed;
  const [hash, journal, entries, decisions] = replies.map(([, reply]) => reply) as [
    Record<string, string>,
    string[],
    [string, string[]][],
    string[],
  ];
  if (hash['runId'] === undefined) return undefined;
  const events = entries.flatMap(([, [, json]]) => (json === undefined ? [] : [json]));
  return { runId, hash, journal, events, decisions };
}

const childFields = ['parentRunId', 'agent', 'status', 'startedAt', 'endedAt', 'costMicrocents'] as const;

/** What is known of these children of a run, by their id; those that are gone, or work for another one, are not in it. */
export async function readChildren(
  { redis, keys }: KeySpace,
  runId: string,
  childIds: readonly string[],
): Promise<ReadonlyMap<string, Readonly<Record<string, string>>>> {
  const found = await Promise.all(
    childIds.map(async (id) => [id, await redis.hmget(keys.run(id), ...childFields)] as const),
  );
  return new Map(
    found.flatMap(([id, values]) => {
      const flat = values.flatMap((value, i) => (value ? [childFields[i] ?? '', value] : []));
      const fields = Object.fromEntries(pairsOf(flat));
      return fields['parentRunId'] === runId ? [[id, fields] as const] : [];
    }),
  );
}
