import { RunError } from '../../../shared/base/errors.ts';
import { jsonText } from '../../../shared/base/json.ts';
import { earlierIn } from '../../../shared/contract/archive/archived-run.ts';
import type { ArchiveStore } from '../../../shared/state/archive/archive.ts';
import type { EndedRun } from '../../../shared/state/archive/ended-run.ts';

/** Most of them that is kept, as JSON; the newest stay. */
const maxChars = 500_000;

/** Of a run that was redriven: what the archive has of it from before, for its log has begun anew. */
export interface Earlier {
  readonly events: readonly string[];
  readonly firstTokens: Readonly<Record<string, string>>;
  readonly isCut: boolean;
}

/** Undefined: it was not redriven, or had not been archived by then. One that cannot be read is as if it were not there. */
export async function readEarlier(
  { runId, hash }: EndedRun,
  archive: Pick<ArchiveStore, 'read'>,
): Promise<Earlier | undefined> {
  const before = Number(hash['logStart'] ?? 0);
  if (before === 0) return undefined;
  const found = await archive.read(hash['tenant'] ?? '', runId).catch((error: unknown) => {
    if (error instanceof RunError && error.code !== 'queue_unavailable') return undefined;
    throw error;
  });
  if (!found) return undefined;
  const all = earlierIn(found, before).map((event) => jsonText(event));
  const events = all.slice(firstWithin(all));
  return {
    events,
    firstTokens: found.firstTokens ?? {},
    isCut: events.length < all.length || found.truncated === true,
  };
}

function firstWithin(events: readonly string[]): number {
  let chars = 0;
  const last = events.findLastIndex((event) => (chars += event.length) > maxChars);
  return last + 1;
}
