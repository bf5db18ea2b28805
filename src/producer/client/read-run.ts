import { childrenOf } from '../../shared/state/run/children/children.ts';
import { readDecision, type DecisionRecord } from '../../shared/contract/decisions.ts';
import { isTerminal } from '../../shared/contract/event.ts';
import { legibleRecord } from '../../shared/contract/run-record.ts';
import { isTerminalStatus, recordFromHash, viewOf, type RunRecord, type RunView } from '../../shared/contract/run.ts';
import { EventBuffer } from './follow/event-hub.ts';
import { reach, type Connected, type Reached, type TenantClient } from './client-core.ts';
import type { ResultOptions } from './options.ts';
import { Stop, untilStopped } from './stop-signal.ts';
import { checkRunId, runNotFound } from './accept/validate.ts';

/** Records that a list reads at a time. One may be 256 KB of input and as much of an answer. */
const groupSize = 10;

/** The record of a run that the tenant owns. Throws `run_not_found` for any other. */
export async function loadRecord(runId: string, at: Reached): Promise<RunRecord> {
  return recordFromHash(await ownHash(runId, at));
}

/** The same as far as it can be read, to stop the run, decide about it or redrive it. */
export async function loadLegible(runId: string, at: Reached): Promise<RunRecord> {
  return legibleRecord(await ownHash(runId, at));
}

async function ownHash(runId: string, { core, redis, tenant }: Reached): Promise<Record<string, string>> {
  const hash = await redis.hgetall(core.keys.run(runId));
  if (hash['tenant'] !== tenant) throw runNotFound(runId);
  return hash;
}

/** A run as it is shown, with what people decided about its calls. Throws `run_not_found` for one of another tenant. */
export async function loadView(runId: string, at: Reached): Promise<RunView> {
  const [record, decisions] = await Promise.all([loadLegible(runId, at), loadDecisions(runId, at)]);
  return { ...viewOf(record, decisions, await loadChildren(record, at)), request: record.request };
}

/** The children that a run waits for, as far as they exist by now. */
export async function loadChildren(record: RunRecord, { core, redis }: Connected): Promise<readonly RunRecord[]> {
  const hashes = await Promise.all(childrenOf(record).map((id) => redis.hgetall(core.keys.run(id))));
  return hashes.filter((hash) => hash['tenant'] === record.tenant).map(legibleRecord);
}

/** The decisions about the calls of a run, complete or not. */
export async function loadDecisions(runId: string, { core, redis }: Connected): Promise<readonly DecisionRecord[]> {
  const texts = await redis.hvals(core.keys.decisions(runId));
  return texts.flatMap((text) => legibleDecision(text, runId) ?? []);
}

/** One that cannot be read must not hide the others. */
function legibleDecision(text: string, runId: string): DecisionRecord | undefined {
  try {
    return readDecision(text, runId);
  } catch {
    return undefined;
  }
}

/** The record for an id that is not checked yet. Throws `invalid_id` as well. */
export async function getRecord(id: string, client: TenantClient): Promise<RunRecord> {
  const runId = checkRunId(id);
  return await reach(client, (at) => loadRecord(runId, at));
}

/**
 * The record once the run has ended, or as it is after `waitMs`. The terminal event on the channel wakes the wait; after
 * silence the record is read anyway. Rejects with the reason of an aborted signal.
 */
export async function waitForEnd(
  id: string,
  { waitMs, signal }: ResultOptions,
  client: TenantClient,
): Promise<RunRecord> {
  const { core } = client;
  signal?.throwIfAborted();
  let record = await getRecord(id, client);
  if (isTerminalStatus(record.status) || waitMs === 0) return record;

  using stop = new Stop({ signals: [signal, core.closing], afterMs: waitMs });
  const wakeUp = new EventBuffer(1);
  using subscription = core.hub.subscribeRun(core.keys.live(record.runId), {
    onEvents: (events) => void (events.some(isTerminal) && wakeUp.onSilence()),
    onSilence: () => wakeUp.onSilence(),
  });
  await untilStopped(subscription.ready, stop.signal);
  for (;;) {
    record = await readAgain(record, client, stop.signal);
    signal?.throwIfAborted();
    if (isTerminalStatus(record.status) || stop.signal.aborted) return record;
    await wakeUp.filled(stop.signal);
    wakeUp.take();
  }
}

/** When the wait ends while Redis is away, the last state that is known is the answer. */
async function readAgain(known: RunRecord, client: TenantClient, stop: AbortSignal): Promise<RunRecord> {
  try {
    return await client.core.patiently(() => getRecord(known.runId, client), stop);
  } catch (error) {
    if (stop.aborted) return known;
    throw error;
  }
}

/** What comes of each item, in order, with at most ten of them under way. */
export async function inGroups<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<readonly R[]> {
  const results: R[] = [];
  for (let start = 0; start < items.length; start += groupSize)
    results.push(...(await Promise.all(items.slice(start, start + groupSize).map(work))));
  return results;
}
