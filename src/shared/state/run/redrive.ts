import { loadScript, runScript, type RunKeySpace, runKeys, scriptEvent, eventTargets, stampOf } from '../script.ts';
import type { RunRecord } from '../../contract/run.ts';
import { newNonce } from '../../base/ids.ts';

const script = loadScript(import.meta.url, './redrive.lua');

/**
 * Queues a failed run again, to continue from its journal. Answers its new segment, or `gone`, or `not_failed`. The caller lists it as
 * open and adds its job.
 */
export async function redriveFailed(
  space: RunKeySpace,
  record: RunRecord,
  { queue, atMs, deadlineMs, startByMs }: Redrive,
): Promise<'gone' | 'not_failed' | { readonly segment: number }> {
  const { runId, kind } = record;
  const at = new Date(atMs).toISOString();
  const queued = scriptEvent({ ...stampOf(record), timestamp: at, type: 'run.queued', kind, queuedAt: at });
  const times = [deadlineMs, startByMs].map((time) => (time === undefined ? '' : new Date(time).toISOString()));
  const args = [newNonce(), queue, at, queued, ...eventTargets(space, runId), ...times];
  const reply = (await runScript(space.redis, script, runKeys(space, runId), args, {
    doing: `redrive of run ${runId}`,
  })) as [0] | [1, string] | [2, number];
  if (reply[0] === 0) return 'gone';
  return reply[0] === 1 ? 'not_failed' : { segment: reply[1] };
}

/** Times in milliseconds since the epoch. */
export interface Redrive {
  readonly queue: string;
  readonly atMs: number;
  /** A new deadline. Undefined: the run keeps the one that it has. */
  readonly deadlineMs: number | undefined;
  /** When a worker has to have begun it. */
  readonly startByMs: number | undefined;
}
