import { sensitivity } from '../../contract/message.ts';
import {
  type ProgressNote,
  type ProgressQuery,
  maxNotes,
  noteField,
  noteRef,
  progressNote,
  selectNotes,
  maxNoteBytes,
  progressQuery,
  progressRole,
  progressSeq,
  progressTags,
} from '../../contract/artifacts.ts';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import { problemsOf } from '../../base/problems.ts';
import { RunError } from '../../base/errors.ts';
import { jsonText } from '../../base/json.ts';
import { named } from '../errors.ts';
import { loadScript, runScript, sendAll } from '../script.ts';
import type { KeySpace } from '../keys.ts';
import { isMissing, writeWhole } from './folder-artifacts.ts';
import { createHash } from 'node:crypto';
import { cleanText } from '../../base/text.ts';

const draftForm = z.object({
  runId: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'is not a run id'),
  role: progressRole,
  /** Default: the next of this run and role. */
  seq: progressSeq.optional(),
  text: z
    .string()
    .refine((text) => Buffer.byteLength(text) <= maxNoteBytes, `must be at most ${maxNoteBytes} bytes of text`),
  sensitivity,
  tags: progressTags.readonly(),
});

/** A note to be written. */
export interface ProgressDraft extends Readonly<z.input<typeof draftForm>> {
  readonly tenant: string;
  /** The same key again writes nothing, and answers the note that there is. */
  readonly key: string;
}

/** A note with its text, which is absent when it cannot be read here. */
export interface StoredNote {
  readonly note: ProgressNote;
  readonly text?: string | undefined;
}

/**
 * Notes that agents leave for later sessions and other processes. Numbers and what is known of each are in Redis; the
 * texts are there too, or in the folder of kept results. All forms pass `test/contract/progress-notes.ts`.
 */
export interface ProgressNotes {
  /**
   * Numbers are unique for a run and role, and no note is ever replaced. Throws `validation` for a draft of a wrong form
   * and `progress_write_failed` for everything else, a number that is taken included.
   */
  write(draft: ProgressDraft): Promise<ProgressNote>;
  /** Notes of a run of this tenant, by number and then by role. Throws `validation`, `queue_unavailable`. */
  read(tenant: string, runId: string, query: ProgressQuery): Promise<readonly StoredNote[]>;
}

const claimScript = loadScript(import.meta.url, './progress-claim.lua');
const claimReply = z.union([
  z.tuple([z.literal('ok'), z.int(), z.string()]),
  z.tuple([z.enum(['taken', 'full', 'look'])]),
]);

export interface RedisProgressOptions extends KeySpace {
  readonly clock: Clock;
  /** How long the notes of a run are kept after its last one, in seconds. */
  readonly ttlS: number;
  /** The folder for the texts. Absent: they are in Redis. */
  readonly root?: string | undefined;
}

/** Progress notes: numbers, and what is known of each, in Redis; texts there or in a folder that all workers share. */
export function redisProgress(options: RedisProgressOptions): ProgressNotes {
  const { clock, root } = options;
  return {
    async write(draft) {
      checkDraft(draft);
      try {
        const { seq, written } = await claim(draft, options);
        if (written) return written;
        const { note, text } = noteOf(draft, seq, clock);
        if (root !== undefined) await writeWhole(join(root, note.ref), [text]);
        await announce(draft.tenant, note, text, options);
        return note;
      } catch (error) {
        if (error instanceof RunError && error.code === 'progress_write_failed') throw error;
        throw writeFailed('its store failed', error);
      }
    },
    async read(tenant, runId, query) {
      checkQuery(query);
      const read = async () => {
        const notes = selectNotes(await readNotes(tenant, runId, options), query);
        const texts = await readTexts(tenant, notes, options);
        return notes.map((note, index) => ({ note, text: texts[index] }));
      };
      return await named('read of progress notes', read());
    },
  };
}

/** The number of this note, and the note when this very write was made before. */
async function claim(draft: ProgressDraft, { redis, keys, ttlS, root }: RedisProgressOptions) {
  const { tenant, runId, role, key } = draft;
  const own = [keys.progressNumbers(tenant, runId), keys.progress(tenant, runId)];
  const ask = async (before: number | '') => {
    const args = [role, draft.seq ?? '', key, ttlS, maxNotes, before];
    return claimReply.parse(await runScript(redis, claimScript, own, args, { doing: `progress note of run ${runId}` }));
  };
  let reply = await ask(root === undefined ? 0 : '');
  // A folder may remember more than Redis does.
  if (reply[0] === 'look' && root !== undefined) reply = await ask(await highestIn(root, runId, role));
  if (reply[0] === 'ok') {
    const [, seq, json] = reply;
    return { seq, written: json === '' ? undefined : progressNote.parse(JSON.parse(json)) };
  }
  const why = reply[0] === 'full' ? `the run has ${maxNotes} notes already` : 'its number is taken';
  throw writeFailed(why, undefined, { retryable: false, http: 409 });
}

/** The highest number of a role that has a file, or 0. */
async function highestIn(root: string, runId: string, role: string): Promise<number> {
  const names = await readdir(dirname(join(root, noteRef(runId, role, 1)))).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
  const seqs = names.map((name) => (name.startsWith(`${role}.`) ? Number(/\.(\d+)\.txt$/.exec(name)?.[1] ?? 0) : 0));
  return Math.max(0, ...seqs);
}

/** Lets readers see the note: only now, when all of its text is there. */
async function announce(
  tenant: string,
  note: ProgressNote,
  text: Buffer,
  { redis, keys, ttlS, root }: RedisProgressOptions,
): Promise<void> {
  const { runId } = note;
  const write = redis.multi();
  if (root === undefined) {
    const texts = keys.progressTexts(tenant, runId);
    write.hset(texts, noteField(note), text).expire(texts, ttlS);
  }
  const notes = keys.progress(tenant, runId);
  write.hset(notes, noteField(note), jsonText(note)).expire(notes, ttlS);
  await sendAll(write);
}

/** Throws `validation`, with every problem. */
export function checkDraft(draft: ProgressDraft): void {
  const { error } = draftForm.safeParse(draft);
  if (error) throw invalid('the progress note is not valid', error);
}

/** Throws `validation`. */
export function checkQuery(query: ProgressQuery): void {
  const { error } = progressQuery.safeParse(query);
  if (error) throw invalid('the question for progress notes is not valid', error);
}

function invalid(what: string, error: z.ZodError): RunError {
  const problems = problemsOf(error, 'it');
  return new RunError('validation', `${what}: ${problems.join('; ')}`, { details: problems });
}

/** The note that a draft becomes, and its text as it is kept. */
export function noteOf(draft: ProgressDraft, seq: number, clock: Clock) {
  const { runId, role, sensitivity: label, tags } = draft;
  const text = Buffer.from(cleanText(draft.text));
  const sha256 = createHash('sha256').update(text).digest('hex');
  const at = new Date(clock.now()).toISOString();
  const ref = noteRef(runId, role, seq);
  return { note: { ref, runId, role, seq, bytes: text.length, sensitivity: label, tags: [...tags], at, sha256 }, text };
}

/** The error of a note that was not written. */
export function writeFailed(why: string, cause?: unknown, as: { retryable?: boolean; http?: number } = {}): RunError {
  return new RunError('progress_write_failed', `the progress note was not written: ${why}`, { cause, ...as });
}

const textsAtOnce = 10;

/** What is known of all notes of a run; those of another tenant are not there. */
export async function readNotes(tenant: string, runId: string, { redis, keys }: KeySpace): Promise<ProgressNote[]> {
  const kept = await redis.hgetall(keys.progress(tenant, runId));
  return Object.values(kept).map((json) => progressNote.parse(JSON.parse(json)));
}

/** The texts of notes, in their order. Undefined for one that cannot be read, or is not what was written. */
export async function readTexts(
  tenant: string,
  notes: readonly ProgressNote[],
  { redis, keys, root }: KeySpace & Pick<RedisProgressOptions, 'root'>,
): Promise<(string | undefined)[]> {
  const found: (Buffer | null)[] = [];
  for (let at = 0; at < notes.length; at += textsAtOnce) {
    const some = notes.slice(at, at + textsAtOnce);
    const [first] = some;
    if (!first) break;
    const texts =
      root === undefined
        ? await redis.hmgetBuffer(keys.progressTexts(tenant, first.runId), ...some.map(noteField))
        : await Promise.all(some.map(async ({ ref }) => await readFile(join(root, ref)).catch(() => null)));
    found.push(...texts);
  }
  return notes.map(({ sha256 }, index) => {
    const text = found[index];
    return text && createHash('sha256').update(text).digest('hex') === sha256 ? text.toString('utf8') : undefined;
  });
}
