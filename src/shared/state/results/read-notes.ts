import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { noteField, progressNote, type ProgressNote } from '../../contract/progress.ts';
import type { RedisConnection } from '../connect.ts';
import type { Keys } from '../keys.ts';

const textsAtOnce = 10;

/** What is known of all notes of a run; those of another tenant are not there. */
export async function readNotes(
  redis: RedisConnection,
  keys: Keys,
  tenant: string,
  runId: string,
): Promise<ProgressNote[]> {
  const kept = await redis.hgetall(keys.progress(tenant, runId));
  return Object.values(kept).map((json) => progressNote.parse(JSON.parse(json)));
}

/**
 * The texts of notes, in their order: from the folder when there is one, else from Redis. Undefined for one that cannot be
 * read, or is not what was written.
 */
export async function readTexts(
  redis: RedisConnection,
  keys: Keys,
  tenant: string,
  notes: readonly ProgressNote[],
  root?: string,
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
