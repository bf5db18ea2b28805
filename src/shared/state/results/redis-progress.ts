import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import { RunError } from '../../base/errors.ts';
import { jsonText } from '../../base/json-text.ts';
import { maxNotes, noteField, noteRef, progressNote, selectNotes, type ProgressNote } from '../../contract/progress.ts';
import { readNotes, readTexts } from './read-notes.ts';
import { redisError } from '../errors.ts';
import type { RedisConnection } from '../connect.ts';
import { loadScript, runScript } from '../script.ts';
import type { Keys } from '../keys.ts';
import type { ProgressDraft, ProgressNotes } from './progress-notes.ts';
import { checkDraft, checkQuery, noteOf, writeFailed } from './note-rules.ts';
import { isMissing, writeWhole } from './whole-file.ts';

const claimScript = loadScript(import.meta.url, './progress-claim.lua');
const claimReply = z.union([
  z.tuple([z.literal('ok'), z.int(), z.string()]),
  z.tuple([z.enum(['taken', 'full', 'look'])]),
]);

export interface RedisProgressOptions {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  readonly clock: Clock;
  /** How long the notes of a run are kept after its last one, in seconds. */
  readonly ttlS: number;
  /** The folder for the texts. Absent: they are in Redis. */
  readonly root?: string;
}

/** Progress notes: numbers, and what is known of each, in Redis; texts there or in a folder that all workers share. */
export function redisProgress(options: RedisProgressOptions): ProgressNotes {
  const { redis, keys, clock, root } = options;
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
      try {
        const notes = selectNotes(await readNotes(redis, keys, tenant, runId), query);
        const texts = await readTexts(redis, keys, tenant, notes, root);
        return notes.map((note, index) => {
          const text = texts[index];
          return { note, ...(text !== undefined && { text }) };
        });
      } catch (error) {
        throw redisError(error, 'read of progress notes');
      }
    },
  };
}

/** The number of this note, and the note when this very write was made before. */
async function claim(
  draft: ProgressDraft,
  { redis, keys, ttlS, root }: RedisProgressOptions,
): Promise<{ readonly seq: number; readonly written?: ProgressNote }> {
  const { tenant, runId, role, key } = draft;
  const places = [keys.progressNumbers(tenant, runId), keys.progress(tenant, runId)];
  const ask = async (before: number | '') => {
    const args = [role, draft.seq ?? '', key, ttlS, maxNotes, before];
    return claimReply.parse(await runScript(redis, claimScript, places, args));
  };
  let reply = await ask(root === undefined ? 0 : '');
  // A folder may remember more than Redis does.
  if (reply[0] === 'look' && root !== undefined) reply = await ask(await highestIn(root, runId, role));
  if (reply[0] === 'ok') {
    const [, seq, json] = reply;
    return { seq, ...(json !== '' && { written: progressNote.parse(JSON.parse(json)) }) };
  }
  throw writeFailed(reply[0] === 'full' ? `the run has ${maxNotes} notes already` : 'its number is taken');
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
  const results = await write.exec();
  const refused = results?.find(([error]) => error)?.[0];
  if (refused) throw refused;
}
