import type { ArtifactStore } from '../../contract/artifacts.ts';
import { RunError } from '../../base/errors.ts';

/**
 * Bytes in the store that `ARTIFACT_STORE` names, under an owner (a file, or a large picture) that has an end. Kept in Redis, in a
 * shared folder or in an S3-compatible store; all pass `test/contract/files.ts`. Throws `queue_unavailable` when the store, or
 * Redis, cannot be reached.
 */
export interface Blobs {
  readonly kind: ArtifactStore['kind'];
  /** Keeps bytes under a name of this owner, all of whose blobs stay until then at least. The same name again replaces it. */
  put(owner: string, name: string, bytes: Uint8Array, untilMs: number): Promise<void>;
  /**
   * The same for many at once, for a fraction of the cost: in a folder they are on the disk only a little later, and lost with a host that
   * dies before. A failure of one leaves the others as they are.
   */
  putAll(blobs: readonly NewBlob[]): Promise<PromiseSettledResult<void>[]>;
  /** The bytes from `from` up to, without, `to`; undefined when the owner has nothing of this name. */
  read(owner: string, name: string, from: number, to: number): Promise<Uint8Array | undefined>;
  /** This is the end of all blobs of the owner, or the first moment at which it may be. */
  keepUntil(owner: string, untilMs: number, how: 'exactly' | 'at least'): Promise<void>;
  /** Removes all blobs of these owners. */
  drop(...owners: readonly string[]): Promise<void>;
}

/** The name of a blob that is the only one of its owner: a folder holds it as one file, without a folder around it. */
export const onlyBlob = 'record';

export interface NewBlob {
  readonly owner: string;
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly untilMs: number;
}

/** May this be the name of a blob, or of an owner? */
export function isBlobName(name: string): boolean {
  return /^[A-Za-z0-9_-]{1,80}$/.test(name);
}

/** Names become parts of paths and keys. Throws `internal`: they are made by us. */
export function checkBlobNames(...names: readonly string[]): void {
  if (!names.every(isBlobName)) throw new RunError('internal', 'the name of a blob or of its owner has a wrong form');
}
