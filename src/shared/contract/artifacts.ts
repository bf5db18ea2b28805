import { isAbsolute, normalize } from 'node:path';
import { z } from 'zod';
import { sensitivity } from './message.ts';

/** Where what runs leave behind is kept. */
export type ArtifactStore =
  | { readonly kind: 'redis' }
  | { readonly kind: 'folder'; readonly root: string }
  | {
      readonly kind: 's3';
      readonly bucket: string;
      /** Without slashes at its ends; empty for none. */
      readonly prefix: string;
      readonly endpoint?: string;
      readonly region?: string;
    };

/** How long kept results stay unless they are removed, in seconds. */
export const artifactTtlS = 7 * 86_400;

/** Reads `ARTIFACT_STORE`. Answers a text for what is wrong with it. */
export function parseArtifactStore(text: string): ArtifactStore | string {
  if (text === 'redis') return { kind: 'redis' };
  if (text.startsWith('file:')) return folderOf(text);
  if (text.startsWith('s3:')) return bucketOf(text);
  return 'must be redis, file:/path or s3://bucket/prefix';
}

function folderOf(text: string): ArtifactStore | string {
  const path = text.replace(/^file:(\/\/(?=\/))?/, '');
  if (!isAbsolute(path) || path.startsWith('//')) return 'must name an absolute folder, like file:/var/lib/millrace';
  const root = normalize(path).replace(/(?<=.)\/$/, '');
  return root === '/' ? 'must name a folder of its own, not the root of the file system' : { kind: 'folder', root };
}

function bucketOf(text: string): ArtifactStore | string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^[a-z0-9][a-z0-9.-]{1,62}$/.test(url.host))
    return 'must be s3://bucket/prefix?endpoint=…&region=…, with a bucket of 3 to 63 lowercase letters, digits, . or -';
  if (url.username || url.password)
    return 'must hold no credentials: they come from the environment, for instance AWS_ACCESS_KEY_ID';
  const unknown = [...url.searchParams.keys()].filter((name) => name !== 'endpoint' && name !== 'region');
  if (unknown.length > 0) return 'takes the parameters endpoint and region, and no others';
  const [endpoint, region] = [url.searchParams.get('endpoint'), url.searchParams.get('region')];
  if (endpoint !== null && !/^https?:$/.test(URL.canParse(endpoint) ? new URL(endpoint).protocol : ''))
    return 'must name an http:// or https:// endpoint';
  const prefix = url.pathname.replaceAll(/^\/+|\/+$/g, '');
  if (!/^[A-Za-z0-9._/-]*$/.test(prefix)) return 'must have a prefix of letters, digits, . _ - and /';
  return {
    kind: 's3',
    bucket: url.host,
    prefix,
    ...(endpoint !== null && { endpoint }),
    ...(region !== null && { region }),
  };
}

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
