import { RunError } from '../../../shared/base/errors.ts';
import { jsonText } from '../../../shared/base/json.ts';
import { earlierIn } from '../../../shared/contract/archive/archived-run.ts';
import { lineKinds } from '../../../shared/contract/archive/line-kinds.ts';
import type { ArchiveStore } from '../../../shared/state/archive/archive.ts';
import type { EndedRun } from '../../../shared/state/archive/ended-run.ts';

/** Most of them that is kept; the newest stay. */
const maxChars = 500_000;

/** Of a run that was redriven: what the archive has of it from before, for its log has begun anew. */
export interface Earlier {
  /** Each with a newline at its end. */
  readonly lines: string;
  readonly firstTokens: Readonly<Record<string, string>>;
  readonly isCut: boolean;
}

/** Undefined: it was not redriven, or had not been archived by then. One that cannot be read is as if it were not there. */
export async function readEarlier(
  { runId, facts }: EndedRun,
  archive: Pick<ArchiveStore, 'read'>,
): Promise<Earlier | undefined> {
  const before = Number(facts.logStart ?? 0);
  if (before === 0) return undefined;
  const found = await archive.read(facts.tenant ?? '', runId).catch((error: unknown) => {
    if (error instanceof RunError && error.code !== 'queue_unavailable') return undefined;
    throw error;
  });
  if (!found) return undefined;
  const all = earlierIn(found, before).map((event) => `${lineKinds.earlier}${jsonText(event)}\n`);
  const first = firstWithin(all);
  const isCut = first > 0 || found.truncated === true;
  return { lines: all.slice(first).join(''), firstTokens: found.firstTokens, isCut };
}

function firstWithin(lines: readonly string[]): number {
  let chars = 0;
  const last = lines.findLastIndex((line) => (chars += line.length) > maxChars);
  return last + 1;
}
