import { defined } from '../../../shared/base/collections.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { jsonOr } from '../../../shared/base/json.ts';
import { type ArchivedRun, earlierIn } from '../../../shared/contract/archive/archived-run.ts';
import type { ChildView, RunSteps } from '../../../shared/contract/archive/run-steps.ts';
import { childIdsOf, childViewOf, type RunSource } from '../../../shared/contract/archive/steps-of.ts';
import type { DecisionRecord } from '../../../shared/contract/decisions.ts';
import type { RunEvent } from '../../../shared/contract/event.ts';
import { journalEntry, type JournalEntry } from '../../../shared/contract/journal/journal.ts';
import type { Message } from '../../../shared/contract/message.ts';
import { legibleRecord } from '../../../shared/contract/run-record.ts';
import { isTerminalStatus, type RunRecord } from '../../../shared/contract/run.ts';
import { listedRecord } from '../../../shared/state/run/listed-record.ts';
import { readBeginning } from '../../../shared/state/thread/beginning.ts';
import { reach, type TenantClient } from '../client-core.ts';
import { inGroups, loadDecisions } from '../read-run.ts';
import { missingRun } from './missing-run.ts';

/** A run as it can be read now, and where that was. */
export interface ReadRun {
  readonly from: RunSteps['source'];
  readonly source: RunSource;
  readonly decisions: readonly DecisionRecord[];
  /** The digest of its agent's definition, where it is known. */
  readonly definition: string | undefined;
}

/**
 * Everything that is known of a run: from the archive once it has ended and is there, else from what it keeps itself. Throws
 * `run_not_found`, and `gone` for one that is past its time.
 */
export async function readRun(runId: string, client: TenantClient): Promise<ReadRun> {
  const [record, logStart] = await reach(client, async ({ core, redis, tenant }) => {
    const hash = await redis.hgetall(core.keys.run(runId));
    const own = hash['tenant'] === tenant ? legibleRecord(hash) : undefined;
    return [own, Number(hash['logStart'] ?? 0)] as const;
  });
  const wasRedriven = logStart > 0;
  if (record && !isTerminalStatus(record.status) && !wasRedriven) return await readLive(record, client);
  const archived = await client.core.archive.read(client.tenant, runId).catch((error: unknown) => {
    // What is damaged there must not hide what Redis has.
    if (record && error instanceof RunError && error.code !== 'queue_unavailable') return undefined;
    throw error;
  });
  // One that was redriven since has ended again, and may be archived as it was before.
  if (archived && (!record || archived.record.lastSequence === record.lastSequence))
    return await fromArchive(archived, client);
  if (record) return await readLive(record, client, archived && { archived, upTo: logStart });
  throw await missingRun(runId, client);
}

async function fromArchive(
  { events, earlier, decisions, definition, ...source }: ArchivedRun,
  client: TenantClient,
): Promise<ReadRun> {
  const beginning = await readBeginningOf(source.record, client);
  return {
    from: 'archive',
    source: defined({
      ...source,
      events: events as RunEvent[],
      earlier: earlier as readonly RunEvent[],
      beginning,
    }),
    decisions,
    definition,
  };
}

async function readBeginningOf(record: RunRecord, client: TenantClient): Promise<readonly Message[] | undefined> {
  return await reach(client, async ({ core, redis }) => await readBeginning(core.threadKeySpace(redis), record));
}

/** `before`: what the archive has of a run from before it was redriven. */
async function readLive(
  record: RunRecord,
  client: TenantClient,
  before?: { readonly archived: ArchivedRun; readonly upTo: number },
): Promise<ReadRun> {
  const { runId } = record;
  const [events, journal, decisions, beginning] = await Promise.all([
    readEvents(runId, client),
    reach(client, async ({ core, redis }) => await redis.lrange(core.keys.journal(runId), 0, -1)),
    reach(client, async (at) => await loadDecisions(runId, at)),
    readBeginningOf(record, client),
  ]);
  const entries = journal.flatMap(entryIn);
  const children = await readChildren(childIdsOf(entries, events), client);
  const { firstTokens, truncated } = before?.archived ?? {};
  const earlier = before && (earlierIn(before.archived, before.upTo) as RunEvent[]);
  const source = defined({ record, journal: entries, events, earlier, firstTokens, truncated, children, beginning });
  return { from: 'live', source, decisions, definition: record.definition };
}

/** A later version may write entries that this one does not know. What is damaged must not hide the rest. */
function entryIn(json: string): JournalEntry[] {
  const parsed = journalEntry.safeParse(jsonOr(json));
  return parsed.success ? [parsed.data] : [];
}

/** All that its log has: at most `EVENT_LOG_MAX`. */
export async function readEvents(runId: string, { core }: TenantClient): Promise<readonly RunEvent[]> {
  const events: RunEvent[] = [];
  for (;;) {
    const page = await core.log.page(runId, events.at(-1)?.sequenceNumber ?? 0);
    events.push(...page.events);
    if (!page.more) return events;
  }
}

/** What the records of children say, as far as there are any. */
async function readChildren(ids: readonly string[], client: TenantClient): Promise<readonly ChildView[]> {
  const views = await inGroups(ids, (id) =>
    reach(client, async ({ core, redis, tenant }) => {
      const record = await listedRecord(redis, core.keys.run(id), tenant);
      return record && childViewOf(record);
    }),
  );
  return views.flatMap((view) => view ?? []);
}
