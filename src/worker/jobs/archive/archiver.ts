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
/** What these ask of Redis goes and comes together, see {@link GroupSize}. */
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
  const size = new GroupSize();
  const pass = async () => {
    await keepDefinitions();
    for (;;) {
      const { taken, written } = await archiveBatch(deps, size);
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

/** Returns how many it has taken and written. Throws the first error after which others would fail, too; the rest is due again later. */
async function archiveBatch(
  deps: ArchiverDeps,
  size: GroupSize,
): Promise<{ readonly taken: number; readonly written: number }> {
  const { space, log, onRun } = deps;
  const { runIds, lease } = await takeDue(space, atOnce);
  const done: string[] = [];
  let written = 0;
  let outage: unknown;
  for (let from = 0; from < runIds.length && outage === undefined;) {
    const group = runIds.slice(from, (from += size.now));
    const results = await archiveEnded(group, deps).catch((reason: unknown) =>
      group.map(() => ({ status: 'rejected', reason }) as const),
    );
    size.note(results);
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
  return { taken: runIds.length, written };
}

/** How many runs are read and written at once. All that they have is in memory meanwhile, so they are fewer where runs are long. */
class GroupSize {
  #now: number = together.first;

  get now(): number {
    return this.#now;
  }

  /** As many as if all were as large as the largest of these; half as many where the store fails, which may have been given too much. */
  note(results: readonly PromiseSettledResult<ArchivedAs>[]): void {
    const isOut = results.some((result) => result.status === 'rejected' && isUnavailable(result.reason));
    const largest = Math.max(0, ...results.map(bytesIn));
    if (isOut) this.#now = Math.ceil(this.#now / 2);
    else if (largest > 0) this.#now = Math.max(1, Math.min(together.most, Math.floor(together.maxBytes / largest)));
  }
}

function bytesIn(result: PromiseSettledResult<ArchivedAs>): number {
  return result.status === 'fulfilled' && result.value.kind === 'written' ? result.value.bytes : 0;
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
