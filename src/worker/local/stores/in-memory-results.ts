import type { Clock } from '../../../shared/base/clock.ts';
import {
  artifactTtlS,
  maxNotes,
  noteField,
  selectNotes,
  type ProgressNote,
} from '../../../shared/contract/artifacts.ts';
import {
  type ArtifactInfo,
  type Artifacts,
  checkNames,
  checkSize,
  keptInfo,
  rangeIn,
  runIsFull,
  type ArtifactBounds,
} from '../../../shared/state/results/artifacts.ts';
import {
  type ProgressNotes,
  checkDraft,
  checkQuery,
  noteOf,
  writeFailed,
} from '../../../shared/state/results/progress-notes.ts';
import { type MediaStore, namedMedia, type StoredMedia } from '../../../shared/state/results/media-store.ts';

interface Kept {
  readonly bytes: Buffer;
  readonly info: ArtifactInfo;
  readonly untilMs: number;
}

/** All runs together, in bytes; the results that were kept first make room. */
const maxBytesInAll = 256 * 1024 * 1024;

/** Kept results of one process. */
export function inMemoryArtifacts(bounds: ArtifactBounds, clock: Clock): Artifacts {
  const runs = new Map<string, Map<string, Kept>>();
  let used = 0;

  function forget(runId: string, name: string): void {
    const run = runs.get(runId);
    used -= run?.get(name)?.bytes.length ?? 0;
    run?.delete(name);
    if (run?.size === 0) runs.delete(runId);
  }

  function makeRoom(): void {
    const now = clock.now();
    for (const [runId, run] of runs) {
      for (const [name, { untilMs }] of run) if (used > maxBytesInAll || untilMs <= now) forget(runId, name);
    }
  }

  return {
    async put(runId, name, body, info) {
      checkNames(runId, name);
      checkSize(body, bounds);
      const others = [...(runs.get(runId) ?? [])].filter(([other]) => other !== name);
      const taken = others.reduce((sum, [, { bytes }]) => sum + bytes.length, 0);
      if (taken + body.length > bounds.maxRunBytes) throw runIsFull(bounds);
      forget(runId, name);
      used += body.length;
      makeRoom();
      const kept = { ...keptInfo.parse(info), totalBytes: body.length };
      const run = runs.get(runId) ?? new Map<string, Kept>();
      runs.set(runId, run);
      run.set(name, { bytes: Buffer.from(body), info: kept, untilMs: clock.now() + artifactTtlS * 1_000 });
    },
    async read(runId, name, offset, length) {
      checkNames(runId, name);
      const kept = runs.get(runId)?.get(name);
      if (!kept || kept.untilMs <= clock.now()) return undefined;
      return { bytes: kept.bytes.subarray(...rangeIn(kept.bytes.length, offset, length)), info: kept.info };
    },
    async drop(runId) {
      checkNames(runId);
      for (const name of runs.get(runId)?.keys() ?? []) forget(runId, name);
    },
  };
}

/** Runs whose notes are kept; the oldest make room. */
const maxRuns = 1_000;

interface KeptNote {
  readonly note: ProgressNote;
  readonly text: string;
}

/** Progress notes of one process. */
export function inMemoryProgress(clock: Clock): ProgressNotes {
  const runs = new Map<string, { readonly notes: Map<string, KeptNote>; readonly keys: Map<string, ProgressNote> }>();
  const nameOf = (tenant: string, runId: string) => `${tenant}/${runId}`;

  function open(name: string) {
    const run = runs.get(name) ?? { notes: new Map<string, KeptNote>(), keys: new Map<string, ProgressNote>() };
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
      const seqs = [...notes.values()].map(({ note }) => (note.role === draft.role ? note.seq : 0));
      const last = Math.max(0, ...seqs);
      const { note, text } = noteOf(draft, draft.seq ?? last + 1, clock);
      if (notes.has(noteField(note))) throw writeFailed('its number is taken');
      notes.set(noteField(note), { note, text: text.toString('utf8') });
      keys.set(key, note);
      return note;
    },
    async read(tenant, runId, query) {
      checkQuery(query);
      const { notes } = runs.get(nameOf(tenant, runId)) ?? { notes: new Map<string, KeptNote>() };
      const all = [...notes.values()].map(({ note }) => note);
      return selectNotes(all, query).map((note) => ({ note, text: notes.get(noteField(note))?.text ?? '' }));
    },
  };
}

export interface InMemoryMedia extends MediaStore {
  get(tenant: string, sha256: string): StoredMedia | undefined;
}

export interface InMemoryMedia extends MediaStore {
  get(tenant: string, sha256: string): StoredMedia | undefined;
}

/** All files together; the oldest make room. */
const maxBytes = 256 * 1024 * 1024;

/** The files of one process. */
export function inMemoryMedia(): InMemoryMedia {
  const files = new Map<string, StoredMedia>();
  let size = 0;
  return {
    async put(tenant, bytes, mediaType) {
      const { sha256, buffer } = namedMedia(bytes);
      const name = `${tenant}/${sha256}`;
      drop(name);
      files.set(name, { mediaType, bytes: buffer });
      size += buffer.length;
      for (const oldest of files.keys()) {
        if (size <= maxBytes) break;
        drop(oldest);
      }
      return sha256;
    },
    read: async (tenant, sha256) => files.get(`${tenant}/${sha256}`),
    keep: async (tenant, sha256) => files.has(`${tenant}/${sha256}`),
    get: (tenant, sha256) => files.get(`${tenant}/${sha256}`),
  };

  function drop(name: string): void {
    size -= files.get(name)?.bytes.length ?? 0;
    files.delete(name);
  }
}
