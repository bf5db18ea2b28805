import { loadScript, runScript } from '../../shared/redis.ts';
import { redisError } from '../../shared/redis-error.ts';
import { recordToHash, type RunRecord } from '../../shared/run.ts';
import type { Commit, CommitReply, Ownership } from '../ports.ts';
import { addLifecycle, eventTargets, scriptKeys, type RedisRunsOptions } from './redis-layout.ts';
import { readCancel, scriptEvent } from './wire.ts';

const script = loadScript(import.meta.url, './lua/commit.lua');

/** A result that can be asked for again with its execution id stays at least a day. */
const leastTtlWithExecutionS = 86_400;

/**
 * `commit.lua` as a function. Throws `queue_unavailable`; it is then unknown whether the commit took effect, and only
 * the very same commit may be sent again: the next claim finds out.
 */
export async function commitRun(options: RedisRunsOptions, ownership: Ownership, commit: Commit): Promise<CommitReply> {
  const { runId, owner } = ownership;
  const fields = changedFields(options, commit);
  const reply = (await runScript(options.redis, script, scriptKeys(options, runId), [
    owner,
    commit.op,
    commit.seq,
    commit.release === 'terminal' ? 1 : 0,
    options.resultTtlS,
    Math.max(options.resultTtlS, leastTtlWithExecutionS),
    options.eventLogTtlS,
    ...eventTargets(options, runId),
    fields.length,
    commit.entries.length,
    ...fields,
    ...commit.entries.map((entry) => JSON.stringify(entry)),
    ...commit.events.map(scriptEvent),
  ]).catch((error: unknown) => {
    throw redisError(error, `commit of run ${runId}`);
  })) as readonly [0] | readonly [1, number, string];

  if (reply[0] === 0) return { kind: 'fenced' };
  const [, seq, cancel] = reply;
  addLifecycle(options, seq, commit.events);
  if (commit.release === 'terminal') forget(options, runId, cancel !== '');
  return { kind: 'ok', seq, ...(cancel && { cancel: readCancel(cancel, runId) }) };
}

/** Field and value strings of the record in one flat list. */
function changedFields({ clock }: RedisRunsOptions, { patch, release, entries }: Commit): string[] {
  const fields = {
    ...recordToHash((patch ?? {}) as Partial<RunRecord>),
    updatedAt: new Date(clock.now()).toISOString(),
    // A run that gets ahead is not what brings its workers down.
    ...(entries.length > 0 && { crashes: '0' }),
    ...(release && { owner: '', held: '0' }),
  };
  return Object.entries(fields).flat();
}

/**
 * Takes an ended run out of the sets across runs. Nobody waits for it: the commit has happened, and the reconciler
 * removes what a crash leaves there.
 */
function forget({ redis, keys, log }: RedisRunsOptions, runId: string, cancelled: boolean): void {
  const failed = (error: unknown) =>
    log.warn({ err: redisError(error, `forget of run ${runId}`), runId }, 'ended run still listed as open');
  redis.zrem(keys.open, runId).catch(failed);
  if (cancelled) redis.srem(keys.cancels, runId).catch(failed);
}
