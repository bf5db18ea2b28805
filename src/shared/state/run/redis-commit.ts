import { storedCancel } from '../../contract/control.ts';
import { waitsForPeople } from '../../contract/decisions.ts';
import { jsonText } from '../../base/json-text.ts';
import { forgetOpen, lookSoon } from './open-runs.ts';
import { loadScript, runScript } from '../connect.ts';
import { redisError } from '../errors.ts';
import { recordToHash, type RunRecord } from '../../contract/run.ts';
import type { Commit, CommitReply, Ownership } from './run-store.ts';
import { clearsCrashes } from '../rules.ts';
import { commitKeys, eventTargets, tellLifecycle, type RedisRunsOptions } from '../redis-layout.ts';
import { scriptEvent } from '../wire.ts';

const script = loadScript(import.meta.url, './commit.lua');

/** A result that can be asked for again with its execution id stays at least a day. */
const leastTtlWithExecutionS = 86_400;

/**
 * `commit.lua` as a function. Throws `queue_unavailable`; it is then unknown whether the commit took effect, and only
 * the very same commit may be sent again: the next claim finds out.
 */
export async function commitRun(options: RedisRunsOptions, ownership: Ownership, commit: Commit): Promise<CommitReply> {
  const { runId, owner } = ownership;
  const fields = changedFields(options, commit);
  if (commit.patch?.status === 'suspended') await checkSoon(options, runId);
  await listAsking(options, runId, commit);
  const reply = (await runScript(options.redis, script, commitKeys(options, runId), [
    owner,
    commit.op,
    commit.seq,
    endingOf(commit),
    options.resultTtlS,
    Math.max(options.resultTtlS, leastTtlWithExecutionS),
    options.eventLogTtlS,
    ...eventTargets(options, runId),
    fields.length,
    commit.entries.length,
    ...fields,
    ...commit.entries.map((entry) => jsonText(entry)),
    ...commit.events.map(scriptEvent),
  ]).catch((error: unknown) => {
    throw redisError(error, `commit of run ${runId}`);
  })) as readonly [0] | readonly [1, number, string];

  if (reply[0] === 0) return { kind: 'fenced' };
  const [, seq, cancel] = reply;
  if (commit.patch?.cancel === '' && cancel === '') forgetCancel(options, runId);
  if (commit.release === 'terminal') forget(options, runId);
  else tellLifecycle(options, runId, commit.events);
  return { kind: 'ok', seq, ...(cancel && { cancel: storedCancel(cancel) }) };
}

/**
 * Lists a run that is about to wait for people, before it does, so that none is missing there. Whoever reads the list takes
 * off what no longer waits.
 */
async function listAsking({ redis, keys }: RedisRunsOptions, runId: string, { patch }: Commit): Promise<void> {
  const asked = patch?.status === 'suspended' ? patch.pending?.find(waitsForPeople) : undefined;
  if (!asked) return;
  try {
    const tenant = await redis.hget(keys.run(runId), 'tenant');
    if (!tenant) return;
    const atMs = Date.parse(asked.requestedAt);
    await Promise.all([redis.sadd(keys.tenantsAsking, tenant), redis.zadd(keys.asking(tenant), atMs, runId)]);
  } catch (error) {
    throw redisError(error, `listing of run ${runId}`);
  }
}

/** What ends its wait may have come already, and the worker that knows may die. */
async function checkSoon({ redis, keys }: RedisRunsOptions, runId: string): Promise<void> {
  await lookSoon({ redis, keys }, runId).catch((error: unknown) => {
    throw redisError(error, `check of run ${runId}`);
  });
}

function endingOf({ release, dropsJournal, patch }: Commit): 0 | 1 | 2 | 3 {
  if (release === 'terminal') return dropsJournal ? 3 : 1;
  return patch?.cancel === '' ? 2 : 0;
}

/** Field and value strings of the record in one flat list. */
function changedFields({ clock }: RedisRunsOptions, commit: Commit): string[] {
  const { patch, release } = commit;
  const { cancel: _, ...changes } = patch ?? {};
  const fields = {
    ...recordToHash(changes as Partial<RunRecord>),
    updatedAt: new Date(clock.now()).toISOString(),
    ...(clearsCrashes(commit) && { crashes: '0' }),
    ...(release && { owner: '', held: '0', activity: 'idle' }),
  };
  return Object.entries(fields).flat();
}

/** Nobody waits for it either: who polls the flags of that set finds none. */
function forgetCancel({ redis, keys, log }: RedisRunsOptions, runId: string): void {
  redis.srem(keys.cancels, runId).catch((error: unknown) => {
    const err = redisError(error, `forget of the cancel of run ${runId}`);
    log.warn({ err, runId }, 'answered cancel still listed');
  });
}

/**
 * Takes an ended run out of the sets across runs. Nobody waits for it: the commit has happened, and the reconciler
 * removes what a crash leaves there.
 */
function forget({ redis, keys, lifecycle, log }: RedisRunsOptions, runId: string): void {
  const failed = (error: unknown) =>
    log.warn({ err: redisError(error, `forget of run ${runId}`), runId }, 'ended run still listed as open');
  redis
    .hget(keys.run(runId), 'tenant')
    .then((tenant) => forgetOpen({ redis, keys, lifecycle }, runId, tenant ?? undefined))
    .catch(failed);
}
