import type { RedisConnection } from '../connect.ts';
import { legibleRecord } from '../../contract/run-record.ts';
import { previewOf, runRecord, type Lineage, type RunRequest, type RunRequestInput } from '../../contract/run.ts';
import { defined } from '../../base/collections.ts';

const unlisted = ['request', 'files', 'parent', 'unfinished'];
/** A record without what no list shows: the input of the run, but for how it begins, and its files, the conversation that it began with, and what it left without an answer. */
const listedFields = Object.keys(runRecord.shape).filter((field) => !unlisted.includes(field));
const hashFields = ['listedRequest', 'listedParent', ...listedFields];

/** As much of a request as lists show; it is a request itself. Stands beside the whole one, and like that it never changes. */
export function listedRequestOf(request: RunRequest): RunRequestInput {
  const { agent, executionId, thread, batch, metadata, delayMs, deadlineMs, taskRun } = request;
  const task = taskRun && { adapter: taskRun.adapter };
  return {
    agent,
    input: previewOf(request.input),
    executionId,
    thread,
    batch,
    metadata,
    delayMs,
    deadlineMs,
    taskRun: task,
  };
}

/** The same of the lineage. */
export function listedParentOf({ runId, depth }: Lineage): Pick<Lineage, 'runId' | 'depth' | 'ancestors'> {
  return { runId, depth, ancestors: [] };
}

/** The record under a key as lists show it. Undefined where there is none of this tenant. Throws as `legibleRecord` does. */
export async function listedRecord(redis: RedisConnection, key: string, tenant: string) {
  const values = await redis.hmget(key, ...hashFields);
  const found = Object.fromEntries(
    hashFields.flatMap((field, i) => (typeof values[i] === 'string' ? [[field, values[i]]] : [])),
  );
  if (found['tenant'] !== tenant) return undefined;
  const { listedRequest, listedParent, ...rest } = found;
  // One that an earlier version made.
  if (listedRequest === undefined) return legibleRecord(await redis.hgetall(key));
  return legibleRecord(defined({ ...rest, request: listedRequest, parent: listedParent }));
}
