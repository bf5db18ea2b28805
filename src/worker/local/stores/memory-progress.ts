import type { Clock } from '../../../shared/base/clock.ts';
import { maxNotes, noteField, selectNotes, type ProgressNote } from '../../../shared/contract/progress.ts';
import {
  type ProgressNotes,
  checkDraft,
  checkQuery,
  noteOf,
  writeFailed,
} from '../../../shared/state/results/progress-notes.ts';

/** Runs whose notes are kept; the oldest make room. */
const maxRuns = 1_000;

interface Kept {
  readonly note: ProgressNote;
  readonly text: string;
}

/** Progress notes of one process. */
export function memoryProgress(clock: Clock): ProgressNotes {
  const runs = new Map<string, { readonly notes: Map<string, Kept>; readonly keys: Map<string, ProgressNote> }>();
  const nameOf = (tenant: string, runId: string) => `${tenant}/${runId}`;

  function open(name: string) {
    const run = runs.get(name) ?? { notes: new Map<string, Kept>(), keys: new Map<string, ProgressNote>() };
    runs.set(name, run);
    for (const oldest of runs.keys()) {
      if (runs.size <= maxRuns) break;
      runs.delete(oldest);
    }
    return run;
  }

  return {
    async write(draft) {
      checkDraft(draft);
      const { notes, keys } = open(nameOf(draft.tenant, draft.runId));
      const key = `${draft.role}:${draft.key}`;
      const written = keys.get(key);
      if (written) return written;
      if (notes.size >= maxNotes) throw writeFailed(`the run has ${maxNotes} notes already`);
      const last = [...notes.values()].reduce(
        (max, { note }) => (note.role === draft.role ? Math.max(max, note.seq) : max),
        0,
      );
      const { note, text } = noteOf(draft, draft.seq ?? last + 1, clock);
      if (notes.has(noteField(note))) throw writeFailed('its number is taken');
      notes.set(noteField(note), { note, text: text.toString('utf8') });
      keys.set(key, note);
      return note;
    },
    async read(tenant, runId, query) {
      checkQuery(query);
      const notes = runs.get(nameOf(tenant, runId))?.notes;
      const selected = selectNotes(
        [...(notes?.values() ?? [])].map(({ note }) => note),
        query,
      );
      return selected.map((note) => ({ note, text: notes?.get(noteField(note))?.text ?? '' }));
    },
  };
}
