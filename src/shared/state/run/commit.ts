import { storedCancel } from '../../contract/control.ts';
import { waitsForPeople } from '../../contract/decisions.ts';
import { jsonText } from '../../base/json.ts';
import { forgetOpen, lookSoon } from './open-runs.ts';
import {
  loadScript,
  runScript,
  type RunKeySpace,
  recordTtlS,
  runKeys,
  scriptEvent,
  publishLifecycle,
  eventTargets,
} from '../script.ts';
import { redisError, named } from '../errors.ts';
import { type RunRecord, recordToHash } from '../../contract/run.ts';
import type { Commit, CommitReply, Ownership } from './run-store.ts';
import { clearsCrashes } from './rules.ts';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';

const script = loadScript(import.meta.url, './commit.lua');

type Space = RunKeySpace & { readonly clock: Clock; readonly log: Log };

/**
 * `commit.lua` as a function. Throws `queue_unavailable`; it is then unknown whether the commit took effect, and only
 * the very same commit may be sent again: the next claim finds out.
 */
export async function commitRun(space: Space, ownership: Ownership, commit: Commit): Promise<CommitReply> {
  const { runId, owner } = ownership;
  const fields = changedFields(space, commit);
  // What ends its wait may have come already, and the worker that knows of it may die.
  if (commit.patch?.status === 'suspended') await named(`check of run ${runId}`, lookSoon(space, runId));
  await named(`listing of run ${runId}`, listAsking(space, runId, commit));
  const args = [
    owner,
    commit.op,
    commit.seq,
    endingOf(commit),
    recordTtlS(space, false),
    recordTtlS(space, true),
    space.eventLogTtlS,
    ...eventTargets(space, runId),
    fields.length,
    commit.entries.length,
    ...fields,
    ...commit.entries.map((entry) => jsonText(entry)),
    ...commit.events.map(scriptEvent),
  ];
  const doing = `commit of run ${runId}`;
  const reply = (await runScript(space.redis, script, runKeys(space, runId), args, { doing })) as
    | readonly [0]
    | readonly [1, number, string];

  if (reply[0] === 0) return { kind: 'fenced' };
  const [, seq, cancel] = reply;
  if (commit.patch?.cancel === '' && cancel === '') forgetCancel(space, runId);
  if (commit.release === 'terminal') forget(space, runId);
  else publishLifecycle(space, runId, commit.events);
  return { kind: 'ok', seq, cancel: cancel === '' ? undefined : storedCancel(cancel) };
}

/**
 * Lists a run that is about to wait for people, before it does, so that none is missing there. A reader of the list removes
 * runs that no longer wait.
 */
async function listAsking({ redis, keys }: Space, runId: string, { patch }: Commit): Promise<void> {
  const asked = patch?.status === 'suspended' ? patch.pending?.find(waitsForPeople) : undefined;
  const tenant = asked && (await redis.hget(keys.run(runId), 'tenant'));
  if (!tenant) return;
  const atMs = Date.parse(asked.requestedAt);
  await Promise.all([redis.sadd(keys.tenantsAsking, tenant), redis.zadd(keys.asking(tenant), atMs, runId)]);
}

function endingOf({ release, dropsJournal, patch }: Commit): 0 | 1 | 2 | 3 {
  if (release === 'terminal') return dropsJournal ? 3 : 1;
  return patch?.cancel === '' ? 2 : 0;
}

/** Field and value strings of the record in one flat list. */
function changedFields({ clock }: Space, commit: Commit): string[] {
  const { patch, release } = commit;
  const { cancel: _, ...changes } = patch ?? {};
  const fields = {
    ...recordToHash(changes as Partial<RunRecord>),
    updatedAt: new Date(clock.now()).toISOString(),
  };
  const cleared = clearsCrashes(commit) ? ['crashes', '0'] : [];
  const released = release ? ['owner', '', 'held', '0', 'activity', 'idle'] : [];
  return [...Object.entries(fields).flat(), ...cleared, ...released];
}

/** Not awaited either: a worker that polls the set finds no flag in the record. */
function forgetCancel({ redis, keys, log }: Space, runId: string): void {
  redis.srem(keys.cancels, runId).catch((error: unknown) => {
    const err = redisError(error, `forget of the cancel of run ${runId}`);
    log.warn({ err, runId }, 'answered cancel still listed');
  });
}

/**
 * Takes an ended run out of the sets across runs. Not awaited: the commit has happened, and the reconciler removes what a crash
 * leaves there.
 */
function forget(space: Space, runId: string): void {
  const { redis, keys, log } = space;
  const failed = (error: unknown) =>
    log.warn({ err: redisError(error, `forget of run ${runId}`), runId }, 'ended run still listed as open');
  redis
    .hget(keys.run(runId), 'tenant')
    .then((tenant) => forgetOpen(space, runId, tenant ?? undefined))
    .catch(failed);
}
