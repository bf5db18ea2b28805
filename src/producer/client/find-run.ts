import { RunError } from '../../shared/base/errors.ts';
import { runId as runIdSchema } from '../../shared/base/ids.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import { listedRecord } from '../../shared/state/run/listed-record.ts';
import { checkRunId, runNotFound } from './accept/validate.ts';
import { reach, type Reached, type TenantClient } from './client-core.ts';
import { inGroups } from './read-run.ts';
import { archivedRuns } from './record/archived-list.ts';
import { missingRun } from './record/missing-run.ts';

const minChars = 4;
const scanCount = 5_000;
/** Runs that are looked at when several ids begin alike, the newest first. */
const maxCandidates = 50;
const maxNamed = 5;

/**
 * The id of the tenant's run that begins so, in any case of letters. A whole id is answered as it is, also of a run that does not
 * exist. Throws `run_not_found`, `gone` for one run that is past its time, `invalid_id`, or `validation` for a beginning that is too short or fits several runs, which
 * the message and the details name.
 */
export async function findRunId(beginning: string, client: TenantClient): Promise<string> {
  const start = beginning.toUpperCase();
  if (runIdSchema.safeParse(start).success) return start;
  if (!/^[0-9A-HJKMNP-TV-Z]{1,25}$/.test(start)) return checkRunId(beginning);
  if (start.length < minChars)
    throw new RunError('validation', `give at least the first ${minChars} characters of the run id, not only ${start}`);
  const ids = await reach(client, async (at) => await idsFrom(start, at));
  const found = await reach(client, async (at) => await readRuns(ids, at));
  const [first, second] = found;
  // One id that is remembered says more than none.
  if (!first) throw ids.length === 1 ? await missingRun(ids[0] as string, client) : runNotFound(beginning);
  if (!second) return first.runId;
  throw ambiguous(start, found);
}

/** The newest runs of the index whose id begins so. */
async function idsFrom(start: string, { core, redis, tenant }: Reached): Promise<readonly string[]> {
  const found = new Map<string, number>();
  let cursor = '0';
  do {
    const [next, flat] = await redis.zscan(core.keys.index(tenant), cursor, 'MATCH', `${start}*`, 'COUNT', scanCount);
    for (let i = 0; i < flat.length; i += 2) found.set(flat[i] as string, Number(flat[i + 1]));
    cursor = next;
  } while (cursor !== '0');
  const newestFirst = [...found].toSorted(([, a], [, b]) => b - a);
  return newestFirst.slice(0, maxCandidates).map(([runId]) => runId);
}

/** Of those whose record has expired the archive has one, as long as it keeps them. */
async function readRuns(runIds: readonly string[], at: Reached): Promise<readonly RunRecord[]> {
  const { core, redis, tenant } = at;
  const records = await inGroups(runIds, (runId) => listedRecord(redis, core.keys.run(runId), tenant));
  const archived = await archivedRuns(
    runIds.filter((_, i) => records[i] === undefined),
    at,
  );
  return runIds.flatMap((runId, i) => records[i] ?? archived.get(runId)?.record ?? []);
}

function ambiguous(start: string, found: readonly RunRecord[]): RunError {
  const details = found.map(({ runId, status, createdAt, request: { agent } }) => ({
    runId,
    status,
    agent,
    createdAt,
  }));
  const named = details.slice(0, maxNamed).map((run) => Object.values(run).join('  '));
  const others = found.length > maxNamed ? ['…'] : [];
  const count = found.length === maxCandidates ? `${maxCandidates} runs or more` : `${found.length} runs`;
  const lines = [`${count} begin with ${start}; give more of the id:`, ...named, ...others];
  return new RunError('validation', lines.join('\n  '), { details });
}
