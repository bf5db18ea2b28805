import { parseEvent, type RunEvent } from '../../contract/event.ts';
import { z } from 'zod';
import { attempt } from '../../contract/journal/journal.ts';
import { isRecord, jsonOr } from '../../base/json.ts';
import type { KeySpace } from '../keys.ts';
import { countEntries, type LifecycleEntry } from './series.ts';
import type { CountedRun } from './counted.ts';

/** Entries of one round trip. */
const pageSize = 500;
/** As long as the marks of the tenants. */
const cursorTtlS = 8 * 86_400;
type Fields = readonly (string | null)[];

const fields = [
  'tenant',
  'createdAt',
  'listedRequest',
  'attempts',
  'toolCalls',
  'toolErrors',
  'logStart',
  'attemptsBefore',
  'toolCallsBefore',
  'toolErrorsBefore',
  'startedAt',
] as const;

/**
 * Counts the next entries of the lifecycle stream. Several processes may do so at the same time: each entry counts once. The
 * cursor moves on when they are counted, so that those of a process that dies are read again. Answers whether there
 * are more. Entries of runs whose record is gone are in no counter. Throws `queue_unavailable`.
 */
export async function countLifecycle(space: KeySpace & { readonly cluster: boolean }, nowMs: number): Promise<boolean> {
  const { redis, keys } = space;
  const cursor = (await redis.get(keys.seriesCursor)) ?? '0-0';
  const page = await redis.xrange(keys.lifecycle, `(${cursor}`, '+', 'COUNT', pageSize);
  const last = page.at(-1)?.[0];
  if (last === undefined) return false;
  const entries = await withRuns(page, space);
  const byTenant = Map.groupBy(entries, ({ run }) => run.tenant);
  for (const [tenant, own] of byTenant) await countEntries(space, tenant, own, nowMs);
  await redis.set(keys.seriesCursor, last, 'EX', cursorTtlS);
  return page.length === pageSize;
}

/** The entries that can be counted: not those of runs whose record is gone. */
async function withRuns(
  page: readonly (readonly [id: string, fields: readonly string[]])[],
  { redis, keys }: KeySpace,
): Promise<readonly LifecycleEntry[]> {
  const events = page.flatMap(([id, [, json = '']]) => {
    const event = eventOf(json);
    return event ? [{ id, event }] : [];
  });
  const runIds = [...new Set(events.map(({ event }) => event.runId))];
  const records = await Promise.all(runIds.map((runId) => redis.hmget(keys.run(runId), ...fields)));
  const runs = new Map(runIds.map((runId, index) => [runId, runOf(records[index] ?? [])]));
  return events.flatMap(({ id, event }) => {
    const run = runs.get(event.runId);
    return run ? [{ id, event, run }] : [];
  });
}

function eventOf(json: string): RunEvent | undefined {
  const value = jsonOr(json);
  return isRecord(value) && typeof value['runId'] === 'string' ? parseEvent(json) : undefined;
}

const attemptList = z.array(attempt);

function runOf(fields: Fields): CountedRun | undefined {
  const [tenant, createdAt, request, attempts, calls, errors, logStart, attemptsBefore, callsBefore, errorsBefore] =
    fields;
  const startedAt = fields.at(-1);
  if (!tenant) return undefined;
  const asked = jsonOr(request ?? '');
  const delayMs = isRecord(asked) ? Number(asked['delayMs'] ?? 0) : 0;
  const redriven = {
    sequenceNumber: Number(logStart),
    attempts: Number(attemptsBefore),
    toolCalls: Number(callsBefore),
    toolErrors: Number(errorsBefore),
  };
  return {
    tenant,
    readyAtMs: Date.parse(createdAt ?? '') + delayMs,
    startedAtMs: Date.parse(startedAt ?? ''),
    used: {
      attempts: attemptList.safeParse(jsonOr(attempts ?? '')).data ?? [],
      toolCalls: Number(calls ?? 0),
      toolErrors: Number(errors ?? 0),
    },
    redriven: attemptsBefore == null ? undefined : redriven,
  };
}
