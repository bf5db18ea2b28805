import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Cluster } from 'ioredis';
import { RunError } from '../base/errors.ts';
import { auditOf, isAudited } from '../contract/audit.ts';
import { isDelta, isLifecycle, type EventBody, type EventEnvelope } from '../contract/event.ts';
import { jsonText } from '../base/json.ts';
import type { RunRecord } from '../contract/run.ts';
import type { LogTails } from './archive/log-tails.ts';
import type { RedisConnection } from './connect.ts';
import { isUnavailable, redisError } from './errors.ts';
import type { KeySpace } from './keys.ts';
import { defined, inBatches } from '../base/collections.ts';

/** A script with its digest, run by EVALSHA and loaded on the first NOSCRIPT. */
export interface LuaScript {
  readonly name: string;
  readonly source: string;
  readonly sha: string;
}

/**
 * Reads a script from beside the module that calls (`import.meta.url`). A line `-- include append-events` is replaced by that
 * fragment, since Redis scripts cannot call each other: the path is relative to the file that has the line, without extension.
 */
export function loadScript(moduleUrl: string, file: string): LuaScript {
  const source = withFragments(new URL(file, moduleUrl));
  return { name: file, source, sha: createHash('sha1').update(source).digest('hex') };
}

function withFragments(url: URL): string {
  return readFileSync(url, 'utf8').replace(/^-- include ([a-z./-]+)$/gm, (_, fragment: string) =>
    withFragments(new URL(`${fragment}.lua`, url)),
  );
}

/**
 * Runs a script. Keys first; arguments are strings, numbers or bytes. `doing` is for instance `commit of run X`: every error of Redis
 * comes out as what `redisError` makes of it and names that.
 */
export async function runScript(
  redis: RedisConnection,
  script: LuaScript,
  keys: readonly string[],
  args: readonly (string | number | Buffer)[],
  { doing }: { readonly doing: string },
): Promise<unknown> {
  try {
    return await redis.evalsha(script.sha, keys.length, ...keys, ...args).catch((error: unknown) => {
      if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error;
      return redis.eval(script.source, keys.length, ...keys, ...args);
    });
  } catch (error) {
    throw redisError(error, doing);
  }
}

/** What one call of a script is made of, see {@link runScript}. */
export interface ScriptCall {
  readonly keys: readonly string[];
  readonly args: readonly (string | number | Buffer)[];
  readonly doing: string;
}

/** What one script is given at most: Redis has all of it in memory at once, twice. */
const together = { most: 100, maxBytes: 1_000_000 };

/**
 * Runs a script for many calls. It has to be one that takes the keys and the arguments of several calls, one call after the other, and
 * answers nothing or a list with the reply to each: run as one, they cost both sides a fraction of what many cost. Calls to which it has
 * no reply it gets again, one by one, as all do in a Cluster. One that fails keeps no other from running: a script that is run again must
 * do no harm.
 */
export async function runScriptAll(
  redis: RedisConnection,
  script: LuaScript,
  calls: readonly ScriptCall[],
): Promise<PromiseSettledResult<unknown>[]> {
  if (redis instanceof Cluster) return await Promise.allSettled(calls.map((call) => runAlone(redis, script, call)));
  const results: PromiseSettledResult<unknown>[] = [];
  for (const group of inBatches(calls, argBytes, together)) results.push(...(await runTogether(redis, script, group)));
  return results;
}

async function runTogether(
  redis: RedisConnection,
  script: LuaScript,
  calls: readonly ScriptCall[],
): Promise<PromiseSettledResult<unknown>[]> {
  const [keys, args] = [calls.flatMap((call) => call.keys), calls.flatMap((call) => call.args)];
  const doing = calls.length === 1 ? (calls[0]?.doing ?? '') : `${calls[0]?.doing} and of ${calls.length - 1} more`;
  let replies: readonly unknown[] | null;
  try {
    replies = (await runScript(redis, script, keys, args, { doing })) as readonly unknown[] | null;
  } catch (reason) {
    if (calls.length === 1 || isUnavailable(reason)) return calls.map(() => ({ status: 'rejected', reason }));
    // Some may have failed only because they came after the one that does.
    replies = calls.map(() => null);
  }
  return await Promise.allSettled(
    calls.map(async (call, i) => (replies?.[i] === null ? await runAlone(redis, script, call) : replies?.[i])),
  );
}

async function runAlone(
  redis: RedisConnection,
  script: LuaScript,
  { keys, args, doing }: ScriptCall,
): Promise<unknown> {
  const replies = await runScript(redis, script, keys, args, { doing });
  return (replies as readonly unknown[] | null)?.[0];
}

function argBytes({ args }: ScriptCall): number {
  return args.reduce<number>((sum, arg) => sum + (typeof arg === 'number' ? 0 : arg.length), 0);
}

/** Sends the commands of a pipeline or a transaction. Throws the first error among the answers. */
export async function sendAll(commands: ReturnType<RedisConnection['multi']>): Promise<void> {
  const answers = await commands.exec();
  const refused = answers?.find(([error]) => error)?.[0];
  if (refused) throw refused;
}

/** Where the scripts add lifecycle events and audit entries of runs, and what moves them on from there. */
export interface LifecycleTarget {
  /** The stream of all runs, in a Cluster one of the run's own. */
  keyOf(runId: string): string;
  /** The audit stream of the tenant, which is about to get an entry; in a Cluster the same one of the run's own. */
  auditKeyFor(runId: string, tenant: string): Promise<string>;
  /** In a Cluster: moves what is in the stream of a run to the streams of all runs. False: some of it remains. Never rejects. */
  publish(runId: string): Promise<boolean>;
}

/** Where runs are kept, where their events go, and how long they stay. */
export interface RunKeySpace extends KeySpace {
  /** Keys of different runs live on different nodes: no script may touch two runs, and live channels are sharded. */
  readonly cluster: boolean;
  readonly lifecycle: LifecycleTarget;
  /** Events kept per run for replay, about. */
  readonly eventLogMax: number;
  /** Seconds that the events, and the record with its journal, are kept after the end of a run. */
  readonly eventLogTtlS: number;
  readonly resultTtlS: number;
  /** The same for what of it is archived; 0: runs are not archived. */
  readonly archiveTtlS: number;
  /** What this process writes to the logs of runs, where it archives them. */
  readonly logTails?: LogTails | undefined;
}

/**
 * Runs a script about one run. Its keys are record, journal, event log, lifecycle stream, decisions that the journal does not have,
 * all decisions, children that begin later, events of children that the log does not have, and `auditKey` where one is given. A
 * script uses those that it needs.
 */
export async function runOnRun(
  { redis, keys, lifecycle }: RunKeySpace,
  runId: string,
  script: LuaScript,
  args: readonly (string | number)[],
  { doing, auditKey }: { readonly doing: string; readonly auditKey?: string | undefined },
): Promise<unknown> {
  const { run, journal, events, decided, decisions, later, relayed } = keys;
  const before = [run, journal, events].map((key) => key(runId));
  const after = [decided, decisions, later, relayed].map((key) => key(runId));
  const own = [...before, lifecycle.keyOf(runId), ...after];
  return await runScript(redis, script, auditKey === undefined ? own : [...own, auditKey], args, { doing });
}

/** Where a script puts the events of one run: log length, live channel, firehose channel, publish command. */
export function eventTargets(
  space: Pick<RunKeySpace, 'keys' | 'cluster' | 'eventLogMax'>,
  runId: string,
): [number, string, string, string] {
  return [space.eventLogMax, space.keys.live(runId), space.keys.firehose, publishCommand(space)];
}

export function publishCommand({ cluster }: Pick<RunKeySpace, 'cluster'>): 'PUBLISH' | 'SPUBLISH' {
  return cluster ? 'SPUBLISH' : 'PUBLISH';
}

/** In a Cluster: publishes what a script wrote to the run for the streams of all runs. The caller does not wait; what fails is published later. */
export function publishLifecycle({ lifecycle }: RunKeySpace, runId: string, events: readonly OutgoingEvent[]): void {
  if (events.some((event) => isLifecycle(event.type) || isAudited(event))) void lifecycle.publish(runId);
}

/** Long enough for a client that repeats its request. */
const unstoredTtlS = 600;

/** Seconds that the record of an ended run is kept. A result that can be asked for again with its execution id stays at least a day. */
export function recordTtlS(
  { resultTtlS }: Pick<RunKeySpace, 'resultTtlS'>,
  hasExecutionId: boolean,
  store?: false,
): number {
  if (store === false) return unstoredTtlS;
  return hasExecutionId ? Math.max(resultTtlS, 86_400) : resultTtlS;
}

/** So long an ended run waits for the archive, with all that belongs to it, should the workers be away or unable to write there. */
const longestArchiveWaitS = 86_400;

/** Seconds that an ended run may wait for the archive. 0: it is not archived. */
export function archiveWaitS({ archiveTtlS }: Pick<RunKeySpace, 'archiveTtlS'>, store?: false): number {
  return store === false || archiveTtlS === 0 ? 0 : longestArchiveWaitS;
}

/** An event on its way out: the envelope without the number, which the store gives. */
export type OutgoingEvent = Omit<EventEnvelope, 'sequenceNumber' | 'v'> & EventBody;

/** An event as scripts take it: a letter for where it goes, then its JSON without version and number. It is not one that is audited. */
export function scriptEvent(event: OutgoingEvent): string {
  return flagged(event);
}

/** The same for scripts that know the audit stream of the run's tenant: an audited event comes with its entry there. */
export function auditedEvent(event: OutgoingEvent, tenant: string | undefined): string {
  if (!isAudited(event)) return flagged(event);
  if (tenant === undefined) throw unaudited(event.type);
  return `A${jsonText(auditOf(event, tenant))}\n${jsonText(event)}`;
}

/** Keeps what a script has added to the log of a run after the number `seq`; `texts` are the events as the script took them. */
export function noteLogged(
  { logTails }: Pick<RunKeySpace, 'logTails'>,
  { runId, seq, events }: { readonly runId: string; readonly seq: number; readonly events: readonly OutgoingEvent[] },
  texts: readonly string[],
): void {
  if (!logTails || events.length === 0) return;
  const logged = events.map(({ type }, i) => {
    const text = texts[i] ?? '';
    // An audited event comes after its entry.
    const json = text.startsWith('A') ? text.slice(text.indexOf('\n') + 1) : text.slice(1);
    return { type, text: `{"v":1,"sequenceNumber":${seq + 1 + i},${json.slice(1)}` };
  });
  logTails.add(runId, seq, logged);
}

/** The key of the stream where such events of a run have their entries. Undefined: none of them is audited. */
export async function auditKeyFor(
  { lifecycle }: Pick<RunKeySpace, 'lifecycle'>,
  { runId, tenant }: { readonly runId: string; readonly tenant?: string | undefined },
  events: readonly OutgoingEvent[],
): Promise<string | undefined> {
  if (tenant === undefined || !events.some((event) => isAudited(event))) return undefined;
  return await lifecycle.auditKeyFor(runId, tenant);
}

/** An event without its last brace: the script adds what only the record in Redis knows. */
export function eventStart(event: { readonly type: EventBody['type'] } & Record<string, unknown>): string {
  return flagged(event).slice(0, -1);
}

function flagged(event: { readonly type: EventBody['type'] }): string {
  if (isAudited(event)) throw unaudited(event.type);
  return (isDelta(event.type) ? 'D' : isLifecycle(event.type) ? 'L' : 'N') + jsonText(event);
}

/** An event that has to be audited must not get into a log without its entry. */
function unaudited(type: EventBody['type']): RunError {
  return new RunError('internal', `an event ${type} was written without the tenant whose audit stream it belongs to`);
}

/** The fields that every event of a run has. */
export function stampOf({ runId, request, parent }: Pick<RunRecord, 'runId' | 'request' | 'parent'>) {
  const { agent, executionId, thread, sessionId, overrides, node } = request;
  return defined({
    runId,
    agentId: agent,
    executionId,
    threadId: thread,
    sessionId,
    background: overrides?.background || undefined,
    nodeId: node?.id,
    parentRunId: parent?.runId,
    depth: parent?.depth,
  });
}
