import {
  loadScript,
  runScript,
  type RunKeySpace,
  publishCommand,
  auditedEvent,
  noteLogged,
  publishLifecycle,
  type OutgoingEvent,
} from '../script.ts';
import { isAudited } from '../../contract/audit.ts';
import { inBatches } from '../../base/collections.ts';
import { redisError, refusal } from '../errors.ts';
import type { CommitReply, Ownership } from './commit.ts';

const script = loadScript(import.meta.url, './flush.lua');

/** Bounds of one call: Redis serves no other client meanwhile. */
const maxRuns = 64;
const maxBytes = 1_048_576;

interface Flush {
  readonly runId: string;
  /** Some of its events have entries in the audit stream of this tenant; undefined: none has. */
  readonly auditOf: string | undefined;
  readonly seq: number;
  readonly events: readonly OutgoingEvent[];
  readonly texts: readonly string[];
  readonly bytes: number;
  readonly resolve: (reply: CommitReply) => void;
  readonly reject: (error: unknown) => void;
}

/** Throws `queue_unavailable` for this run alone when Redis cannot be reached or refuses its write. */
type FlushRun = (
  run: Pick<Ownership, 'runId' | 'tenant'>,
  seq: number,
  events: readonly OutgoingEvent[],
) => Promise<CommitReply>;

/**
 * `flush.lua` as a function that gathers: the flushes of this process within one tick are sent in one call of at most 64 runs and
 * 1 MB (a single larger flush goes alone). In a Cluster every run is a call of its own, and so is a flush with audited events.
 */
export function gatheredFlush(space: RunKeySpace): FlushRun {
  let waiting: Flush[] = [];
  const send = () => {
    const flushes = waiting;
    waiting = [];
    const bounds = { most: space.cluster ? 1 : maxRuns, maxBytes };
    const gathered = flushes.filter(({ auditOf }) => auditOf === undefined);
    for (const group of inBatches(gathered, ({ bytes }) => bytes, bounds)) void callFor(group, space);
    for (const flush of flushes) if (flush.auditOf !== undefined) void callFor([flush], space);
  };
  return (run, seq, events) => {
    const { promise, resolve, reject } = Promise.withResolvers<CommitReply>();
    const { runId, tenant } = run;
    const texts = events.map((event) => auditedEvent(event, tenant));
    const auditOf = events.some((event) => isAudited(event)) ? tenant : undefined;
    const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
    // Timers that fire in the same tick run before this does.
    if (waiting.length === 0) setImmediate(send);
    waiting.push({ runId, auditOf, seq, events, texts, bytes, resolve, reject });
    return promise;
  };
}

async function callFor(group: readonly Flush[], space: RunKeySpace): Promise<void> {
  const { redis, keys, lifecycle, eventLogMax } = space;
  const logs = group.map(({ runId }) => keys.events(runId));
  const runs = group.flatMap(({ runId, seq, texts }) => [keys.live(runId), seq, texts.length, ...texts]);
  const doing = group.length === 1 ? `flush of run ${group[0]?.runId}` : 'flush of runs';
  const { runId: firstId = '', auditOf } = group[0] ?? {};
  const own = [...logs, lifecycle.keyOf(firstId)];
  const args = [group.length, eventLogMax, keys.firehose, publishCommand(space), ...runs];
  try {
    if (auditOf !== undefined) own.push(await lifecycle.auditKeyFor(firstId, auditOf));
    const results = (await runScript(redis, script, own, args, { doing })) as readonly (0 | 1 | string)[];
    for (const [index, flush] of group.entries()) settle(flush, results[index] ?? 'ERR no result', space);
  } catch (error) {
    for (const flush of group) flush.reject(redisError(error, `flush of run ${flush.runId}`));
  }
}

function settle(flush: Flush, result: 0 | 1 | string, space: RunKeySpace): void {
  const { runId, seq, events, texts, resolve, reject } = flush;
  if (typeof result === 'string') return reject(refusal(result, `flush of run ${runId}`));
  if (result === 0) return resolve({ kind: 'fenced' });
  noteLogged(space, flush, texts);
  publishLifecycle(space, runId, events);
  resolve({ kind: 'ok', seq: seq + events.length });
}
