import { defined } from '../../shared/base/collections.ts';
import { z } from 'zod';
import { systemClock } from '../../shared/base/clock.ts';
import { newNonce } from '../../shared/base/ids.ts';
import { sensitivity } from '../../shared/contract/message.ts';
import {
  progressRole,
  progressSeq,
  progressTags,
  progressNote,
  progressQuery,
  selectNotes,
  type ProgressNote,
  type ProgressQuery,
} from '../../shared/contract/artifacts.ts';
import { readNotes, readTexts, redisProgress } from '../../shared/state/results/progress-notes.ts';
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

/** A note as a program writes it. */
export const progressDraft = z.strictObject({
  text: z.string().describe('At most 64 KiB.'),
  role: progressRole.default('program').describe('Who writes. Every role has numbers of its own.'),
  seq: progressSeq.optional().describe('Default: the next number of the role. One that is taken is an error.'),
  sensitivity: sensitivity.default('public').describe('How far the note may travel.'),
  tags: progressTags.default([]),
});
export type ProgressInput = z.input<typeof progressDraft>;

export interface ProgressWriting {
  /** The same key again writes nothing, and answers the note that there is. */
  readonly idempotencyKey?: string;
}

export async function writeProgress(
  id: string,
  input: ProgressInput,
  { idempotencyKey: key = newNonce() }: ProgressWriting,
  client: TenantClient,
): Promise<ProgressNote> {
  const runId = checkRunId(id);
  const draft = parseAs(progressDraft, input, 'the progress note is not valid');
  return await reach(client, async (at) => {
    const { core, redis, tenant } = at;
    const { keys, artifactFolder: root, settings } = core;
    await loadRecord(runId, at);
    const notes = redisProgress({ redis, keys, root, clock: systemClock, ttlS: settings.progressTtlS });
    return await notes.write({ ...draft, runId, tenant, key });
  });
}

/** Bytes that a run of the tenant generated. */
export interface MediaFile {
  readonly mediaType: string;
  readonly bytes: Uint8Array;
}

export async function readMedia(handle: string, { core, tenant }: TenantClient): Promise<MediaFile> {
  const sha256 = sha256Of(handle);
  if (sha256 === undefined) throw new RunError('invalid_id', 'a handle is media://sha256- and 64 hexadecimal digits');
  const found = await core.media.read(tenant, sha256);
  if (!found) throw new RunError('not_found', `there is no file ${handle}, or it has expired`);
  return found;
}
