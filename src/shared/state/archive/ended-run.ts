import { pairsOf } from '../../base/collections.ts';
import type { KeySpace } from '../keys.ts';
import { loadScript, runScript } from '../script.ts';

const hashScript = loadScript(import.meta.url, './hash-json.lua');

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

/** What there is of the run. Undefined: its record is gone. */
export async function readEnded(space: KeySpace, runId: string): Promise<EndedRun | undefined> {
  const { redis, keys } = space;
  const lists = redis.pipeline().lrange(keys.journal(runId), 0, -1).xrange(keys.events(runId), '-', '+');
  const [hash, replies] = await Promise.all([hashOf(space, runId), lists.hvals(keys.decisions(runId)).exec()]);
  const failed = replies?.find(([error]) => error)?.[0];
  if (failed) throw failed;
  const [journal, entries, decisions] = (replies ?? []).map(([, reply]) => reply) as [
    string[],
    [string, string[]][],
    string[],
  ];
  if (hash['runId'] === undefined) return undefined;
  const events = entries.flatMap(([, [, json]]) => (json === undefined ? [] : [json]));
  return { runId, hash, journal, events, decisions };
}

async function hashOf({ redis, keys }: KeySpace, runId: string): Promise<Record<string, string>> {
  const json = await runScript(redis, hashScript, [keys.run(runId)], [], { doing: `read of run ${runId}` });
  const flat = JSON.parse(json as string) as string[];
  // Of no fields at all Lua makes an object.
  return Array.isArray(flat) ? Object.fromEntries(pairsOf(flat)) : {};
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
