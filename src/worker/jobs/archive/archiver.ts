import { setImmediate as turn } from 'node:timers/promises';
import { inLanes } from '../../../shared/base/collections.ts';
import { repeat } from '../../../shared/base/clock.ts';
import type { RunError } from '../../../shared/base/errors.ts';
import type { Log } from '../../../shared/base/log.ts';
import { isArchived } from '../../../shared/contract/agent/agent.ts';
import type { ArchiveStore } from '../../../shared/state/archive/archive.ts';
import { settleTaken, takeDue } from '../../../shared/state/archive/due-runs.ts';
import { isUnavailable } from '../../../shared/state/errors.ts';
import { definitionRecord } from '../../agents/definition-record.ts';
import { archiveRun, type ArchivedAs, type ArchiveRunDeps } from './archive-run.ts';

export interface ArchiverDeps extends ArchiveRunDeps {
  readonly archive: Pick<ArchiveStore, 'read' | 'write' | 'dropErased' | 'writeDefinition' | 'ttlS'>;
  readonly log: Log;
  /** Counts a run. `failed`: it is tried again. */
  readonly onRun: (outcome: ArchivedAs | { readonly kind: 'failed' }) => void;
}

/** Every worker looks so often; each run is given to one of them. */
const everyMs = 1_000;
const atOnce = 50;
/** Side by side: what they ask of Redis goes and comes together. */
const lanes = 8;
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
  const pass = async () => {
    await keepDefinitions();
    while (!stop.signal.aborted && (await archiveBatch(deps)) === atOnce) await turn();
    isFailing = false;
  };
  const loop = repeat(everyMs, pass, failed);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await loop[Symbol.asyncDispose]();
    },
  };
}

/** Returns how many it has taken. Throws the first error after which others would fail, too; the rest is due again later. */
async function archiveBatch(deps: ArchiverDeps): Promise<number> {
  const { space, log, onRun } = deps;
  const { runIds, lease } = await takeDue(space, atOnce);
  const done: string[] = [];
  let outage: RunError | undefined;
  await inLanes(runIds, lanes, async (runId) => {
    if (outage) return;
    try {
      onRun(await archiveRun(runId, deps));
      done.push(runId);
    } catch (error) {
      onRun({ kind: 'failed' });
      if (isUnavailable(error)) outage = error;
      // Another version may have written it: a worker of that one archives it, or it goes with its time.
      else log.warn({ err: error, runId }, 'an ended run cannot be archived');
    }
    await turn();
  });
  await settleTaken(space, { runIds: done, lease });
  if (outage) throw outage;
  return runIds.length;
}

/** Writes the definitions of this worker's agents when that is due. */
function definitionKeeper({ agents, archive, redactor }: ArchiverDeps): () => Promise<void> {
  let writtenAt = Number.NEGATIVE_INFINITY;
  return async () => {
    const now = performance.now();
    if (now - writtenAt < definitionsEveryMs) return;
    for (const agent of agents.values()) {
      if (!isArchived(agent.definition)) continue;
      const { digest, json } = definitionRecord(agent, redactor);
      await archive.writeDefinition(digest, json);
    }
    writtenAt = now;
  };
}
