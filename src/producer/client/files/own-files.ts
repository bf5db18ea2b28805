import { systemClock } from '../../../shared/base/clock.ts';
import type { ArtifactStore } from '../../../shared/contract/artifacts.ts';
import type { Blobs } from '../../../shared/state/files/blobs.ts';
import { type FileStore, openFileStore } from '../../../shared/state/files/files.ts';
import { type OpenedBlobs, openBlobs } from '../../../shared/state/files/open-blobs.ts';
import { announceFolder, type Warnings } from '../../../shared/state/results/folder-artifacts.ts';
import type { ReachedKeys } from '../../../shared/state/keys.ts';

/** The files of all tenants, in a store that is opened when it is first needed. */
export class OwnFiles implements AsyncDisposable {
  readonly store: FileStore;
  readonly place: ArtifactStore;
  readonly #reached: ReachedKeys;
  #opened: Promise<OpenedBlobs> | undefined;

  constructor(place: ArtifactStore, maxTenantBytes: number, reached: ReachedKeys) {
    this.place = place;
    this.#reached = reached;
    const blobs = () => this.blobs();
    this.store = openFileStore({ ...reached, clock: systemClock, blobs, maxTenantBytes });
  }

  /** Throws `invalid_config` for a folder or a bucket that cannot be written to; the next call tries again. */
  async blobs(): Promise<Blobs> {
    this.#opened ??= openBlobs(this.place, { ...this.#reached, clock: systemClock });
    try {
      return (await this.#opened).blobs;
    } catch (error) {
      this.#opened = undefined;
      throw error;
    }
  }

  /** Opens the store now. Logs a warning, later, where the folder is not the one that other processes use. Throws as `blobs`. */
  async open(log: Warnings): Promise<void> {
    await this.blobs();
    if (this.place.kind !== 'folder') return;
    const failed = (error: unknown) =>
      log.warn({ err: error }, 'the folder of files cannot be compared with that of others');
    announceFolder(this.place.root, { ...this.#reached, log }).catch(failed);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // What could not be opened has nothing to close, and the call that needed it has had the error.
    const opened = await this.#opened?.catch(() => undefined);
    opened?.[Symbol.dispose]();
  }
}
