import { isRecord, jsonOr } from '../../base/json.ts';
import type { ReachedKeys } from '../keys.ts';

const pageSize = 1_000;
/** The clocks of processes are mostly this close to that of Redis, in milliseconds. */
export const usualSkewMs = 60_000;
/** Of a run that ended so long before the oldest entry the stream has nothing, whatever the clocks say. */
const maxSkewMs = 3_600_000;

/** A run, and between which times its entries were written, by the clocks of processes. */
export interface LifecycleOfRun {
  readonly runId: string;
  readonly createdAt: string;
  readonly toMs: number;
  /** The number of its last event, where it is known. */
  readonly lastSequence?: number | undefined;
}

/**
 * The ids of the entries that runs have in the stream of lifecycle events. They are looked for in the time of the runs. Where one has no
 * first or no last entry there, and the stream goes back as far, clocks are further apart than usual: all of the stream is looked at.
 */
export async function* lifecycleEntries(
  space: ReachedKeys,
  runs: readonly LifecycleOfRun[],
): AsyncGenerator<readonly string[]> {
  const incomplete = new Map(runs.map((run) => [run.runId, { run, hasFirst: false, hasLast: false }]));
  const note = (event: Record<string, unknown>) => {
    const { runId, type, sequenceNumber } = event;
    const known = incomplete.get(String(runId));
    if (!known) return;
    known.hasFirst ||= type === 'run.queued';
    known.hasLast ||= Number(sequenceNumber) >= (known.run.lastSequence ?? Infinity);
    if (known.hasFirst && known.hasLast) incomplete.delete(known.run.runId);
  };
  const wanted = new Set(runs.map(({ runId }) => runId));
  const fromMs = Math.floor(Math.min(...runs.map(({ createdAt }) => Date.parse(createdAt))) - usualSkewMs);
  const toMs = Math.ceil(Math.max(...runs.map((run) => run.toMs)));
  yield* entriesIn(space, [String(Math.max(0, fromMs)), String(toMs)], wanted, note);
  const oldestMs = await oldestOf(space);
  const mayBeElsewhere = [...incomplete.values()].some(
    ({ run, hasFirst }) => oldestMs <= (hasFirst ? run.toMs : Date.parse(run.createdAt)) + maxSkewMs,
  );
  if (!mayBeElsewhere) return;
  if (fromMs > 0) yield* entriesIn(space, ['-', String(fromMs - 1)], wanted, note);
  yield* entriesIn(space, [String(toMs + 1), '+'], wanted, note);
}

async function oldestOf({ reach, keys }: ReachedKeys): Promise<number> {
  const [oldest] = await reach((redis) => redis.xrange(keys.lifecycle, '-', '+', 'COUNT', 1));
  return oldest === undefined ? Infinity : Number(oldest[0].split('-')[0]);
}

async function* entriesIn(
  { reach, keys }: ReachedKeys,
  [from, to]: readonly [string, string],
  runIds: ReadonlySet<string>,
  note: (event: Record<string, unknown>) => void,
): AsyncGenerator<readonly string[]> {
  for (let start = from; ;) {
    const first = start;
    const page = await reach((redis) => redis.xrange(keys.lifecycle, first, to, 'COUNT', pageSize));
    const found = page.filter(([, [, json = '']]) => {
      const event = jsonOr(json);
      if (!isRecord(event) || typeof event['runId'] !== 'string' || !runIds.has(event['runId'])) return false;
      note(event);
      return true;
    });
    if (found.length > 0) yield found.map(([id]) => id);
    if (page.length < pageSize) return;
    start = `(${page.at(-1)?.[0] ?? ''}`;
  }
}
