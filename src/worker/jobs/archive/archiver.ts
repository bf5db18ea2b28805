import { setImmediate as turn } from 'node:timers/promises';
import { repeat } from '../../../shared/base/clock.ts';
import type { Log } from '../../../shared/base/log.ts';
import { archiveTtlOf } from '../../../shared/contract/agent/agent.ts';
import type { ArchiveStore } from '../../../shared/state/archive/archive.ts';
import { settleTaken, takeDue } from '../../../shared/state/archive/due-runs.ts';
import { isUnavailable } from '../../../shared/state/errors.ts';
import { definitionRecord } from '../../agents/definition-record.ts';
import { archiveEnded, type ArchivedAs, type ArchiveRunDeps } from './archive-run.ts';

export interface ArchiverDeps extends ArchiveRunDeps {
  readonly archive: Pick<ArchiveStore, 'read' | 'write' | 'dropErased' | 'writeDefinition' | 'ttlS'>;
  readonly log: Log;
  /** Counts a run. `failed`: it is tried again. */
  readonly onRun: (outcome: ArchivedAs | { readonly kind: 'failed' }) => void;
}

/** Every worker looks so often; each run is given to one of them. */
const everyMs = 1_000;
const atOnce = 192;
/** What these ask of Redis goes and comes together. All that they have is in memory meanwhile: long ones are fewer, see `groupAfter`. */
const together = { first: 24, most: 96, maxBytes: 500_000 };
/** A definition is kept two days longer than runs of now: long before that it is written again. */
const definitionsEveryMs = 6 * 3_600_000;

/**
 * Writes ended runs into the archive, off the path to their answers. A run stays listed until it is there: one whose worker dies on the
 * way is another one's a minute later, and while the store is away they wait, for a day at most. Disposing waits for what is under way.
 */
export function archiveRuns(deps: ArchiverDeps): AsyncDisposable {
  const { log } = deps;
  const stop = new AbortController();
  let isFailing = false;
  const failed = (err: unknown) => {
    if (isFailing) log.debug({ err }, 'ended runs wait for the archive');
    else log.warn({ err }, 'ended runs cannot be archived now, and wait');
    isFailing = true;
  };
  const keepDefinitions = definitionKeeper(deps);
  let group = together.first;
  const pass = async () => {
    await keepDefinitions();
    for (;;) {
      const { taken, written, ...next } = await archiveBatch(deps, group);
      group = next.group;
      // Only what was written says that the store is back.
      if (written > 0) isFailing = false;
      if (stop.signal.aborted || taken < atOnce) return;
      await turn();
    }
  };
  const loop = repeat(everyMs, pass, failed);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await loop[Symbol.asyncDispose]();
    },
  };
}

interface Batch {
  readonly taken: number;
  readonly written: number;
  /** How many are to be read at once from now on. */
  readonly group: number;
}

/** Returns how many it has taken and written. Throws the first error after which others would fail, too; the rest is due again later. */
async function archiveBatch(deps: ArchiverDeps, first: number): Promise<Batch> {
  const { space, log, onRun } = deps;
  const { runIds, lease } = await takeDue(space, atOnce);
  const done: string[] = [];
  let written = 0;
  let outage: unknown;
  let size = first;
  for (let from = 0; from < runIds.length && outage === undefined;) {
    const group = runIds.slice(from, (from += size));
    const results = await archiveEnded(group, deps).catch((reason: unknown) =>
      group.map(() => ({ status: 'rejected', reason }) as const),
    );
    size = groupAfter(size, results);
    for (const [i, runId] of group.entries()) {
      const result = results[i];
      if (result?.status === 'fulfilled') {
        onRun(result.value);
        if (result.value.kind === 'written') written += 1;
        done.push(runId);
        continue;
      }
      onRun({ kind: 'failed' });
      const err: unknown = result?.reason;
      if (isUnavailable(err)) outage ??= err;
      // Another version may have written it: a worker of that one archives it, or it goes with its time.
      else log.warn({ err, runId }, 'an ended run cannot be archived');
    }
    await turn();
  }
  await settleTaken(space, { runIds: done, lease });
  if (outage !== undefined) throw outage;
  return { taken: runIds.length, written, group: size };
}

/** How many are to be read at once after these: as many as all being as large as the largest of them. */
function groupAfter(size: number, results: readonly PromiseSettledResult<ArchivedAs>[]): number {
  const largest = Math.max(
    0,
    ...results.map(
      (result) => (result.status === 'fulfilled' && result.value.kind === 'written' && result.value.bytes) || 0,
    ),
  );
  if (largest === 0) return size;
  return Math.max(1, Math.min(together.most, Math.floor(together.maxBytes / largest)));
}

/** Writes the definitions of this worker's agents when that is due. */
function definitionKeeper({ agents, archive, redactor }: ArchiverDeps): () => Promise<void> {
  let writtenAt = Number.NEGATIVE_INFINITY;
  return async () => {
    const now = performance.now();
    if (now - writtenAt < definitionsEveryMs) return;
    for (const agent of agents.values()) {
      if (archiveTtlOf(agent.definition) === 0) continue;
      const { digest, json } = definitionRecord(agent, redactor);
      await archive.writeDefinition(digest, json);
    }
    writtenAt = now;
  };
}
