import { z } from 'zod';
import { sensitivity } from './message.ts';

/** The text of one note, in bytes. */
export const maxNoteBytes = 64 * 1024;
/** Notes of one run, all roles together. */
export const maxNotes = 1_000;
export const maxNotesRead = 100;

export const progressRole = z.string().regex(/^[a-z0-9_-]{1,64}$/, 'must be 1 to 64 of a-z 0-9 _ -');
export const progressTags = z.array(z.string().min(1).max(64)).max(16);
export const progressSeq = z.int().min(1).max(1_000_000);

/** A note that an agent left for later sessions and other processes. */
export const progressNote = z.object({
  /** Its path below the folder of `ARTIFACT_STORE`, where its text is when that is a folder. */
  ref: z.string(),
  runId: z.string(),
  role: progressRole,
  /** Counts the notes of a run and role from 1. */
  seq: progressSeq,
  bytes: z.int().min(0),
  sensitivity,
  tags: z.array(z.string()),
  at: z.string(),
  sha256: z.string(),
});
export type ProgressNote = Readonly<z.infer<typeof progressNote>>;

/** Which notes are wanted. `sinceSeq`: only those with a higher number. */
export const progressQuery = z.strictObject({
  role: progressRole.optional(),
  sinceSeq: z.int().min(0).default(0),
  maxArtifacts: z.int().min(1).max(maxNotesRead).default(maxNotesRead),
});
export type ProgressQuery = Readonly<z.input<typeof progressQuery>>;

/** Where a note's text is, below the root of kept results. */
export function noteRef(runId: string, role: string, seq: number): string {
  return `${runId}/progress/${role}.${String(seq).padStart(3, '0')}.txt`;
}

/** The notes that a query means, by number and then by role. Throws zod's error for a query of a wrong form. */
export function selectNotes(notes: readonly ProgressNote[], query: ProgressQuery): ProgressNote[] {
  const { role, sinceSeq, maxArtifacts } = progressQuery.parse(query);
  return notes
    .filter((note) => (role === undefined || note.role === role) && note.seq > sinceSeq)
    .toSorted((a, b) => a.seq - b.seq || (a.role < b.role ? -1 : 1))
    .slice(0, maxArtifacts);
}

/** The name of a note within the hashes of its run. */
export function noteField({ role, seq }: Pick<ProgressNote, 'role' | 'seq'>): string {
  return `${role}.${seq}`;
}
