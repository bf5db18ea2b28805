import { defined } from '../../shared/base/collections.ts';
import { z } from 'zod';
import {
  progressNote,
  progressQuery,
  selectNotes,
  type ProgressNote,
  type ProgressQuery,
} from '../../shared/contract/artifacts.ts';
import { readNotes, readTexts } from '../../shared/state/results/progress-notes.ts';
import { reach, type TenantClient } from './client-core.ts';
import { loadRecord } from './read-run.ts';
import { checkRunId } from './accept/validate.ts';
import { parseAs } from '../../shared/base/problems.ts';
import { RunError } from '../../shared/base/errors.ts';
import { sha256Of } from '../../shared/contract/media.ts';

/** A note with its text, which is absent when this process cannot read it. */
export const progressEntry = progressNote.extend({ text: z.string().optional() });
export type ProgressEntry = ProgressNote & { readonly text?: string };

export async function readProgress(
  id: string,
  query: ProgressQuery,
  client: TenantClient,
): Promise<readonly ProgressEntry[]> {
  const runId = checkRunId(id);
  const asked = parseAs(progressQuery, query, 'the query is not valid');
  return await reach(client, async (at) => {
    const { core, redis, tenant } = at;
    const all = await readNotes(tenant, runId, { redis, keys: core.keys });
    if (all.length === 0) await loadRecord(runId, at);
    const notes = selectNotes(all, asked);
    const texts = await readTexts(tenant, notes, { redis, keys: core.keys, root: core.artifactFolder });
    return notes.map((note, index) => defined({ ...note, text: texts[index] }));
  });
}

/** Bytes that a run of the tenant generated. */
export interface MediaFile {
  readonly mediaType: string;
  readonly bytes: Buffer;
}

export async function readMedia(handle: string, { core, tenant }: TenantClient): Promise<MediaFile> {
  const sha256 = sha256Of(handle);
  if (sha256 === undefined) throw new RunError('invalid_id', 'a handle is media://sha256- and 64 hexadecimal digits');
  const [type, bytes] = await core.reach((redis) =>
    redis.hmgetBuffer(core.keys.media(tenant, sha256), 'type', 'bytes'),
  );
  if (!type || !bytes) throw new RunError('not_found', `there is no file ${handle}, or it has expired`);
  return { mediaType: type.toString('utf8'), bytes };
}
