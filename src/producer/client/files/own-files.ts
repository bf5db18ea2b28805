import { systemClock } from '../../../shared/base/clock.ts';
import type { ArtifactStore } from '../../../shared/contract/artifacts.ts';
import type { Blobs } from '../../../shared/state/files/blobs.ts';
import { type FileStore, openFileStore } from '../../../shared/state/files/files.ts';
import { type OpenedBlobs, openBlobs } from '../../../shared/state/files/open-blobs.ts';
import type { ReachedKeys } from '../../../shared/state/keys.ts';

/** The files of all tenants, in a store that is opened when it is first needed. */
export class OwnFiles implements AsyncDisposable {
  readonly store: FileStore;
  readonly #open: () => Promise<OpenedBlobs>;
  #opened: Promise<OpenedBlobs> | undefined;

  constructor(store: ArtifactStore, maxTenantBytes: number, reached: ReachedKeys) {
    const deps = { ...reached, clock: systemClock };
    this.#open = async () => await openBlobs(store, deps);
    this.store = openFileStore({ ...deps, blobs: () => this.blobs(), maxTenantBytes });
  }

  /** Throws `invalid_config` for a folder or a bucket that cannot be written to; the next call tries again. */
  async blobs(): Promise<Blobs> {
    this.#opened ??= this.#open();
    try {
      return (await this.#opened).blobs;
    } catch (error) {
      this.#opened = undefined;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const opened = await this.#opened?.catch(() => undefined);
    opened?.[Symbol.dispose]();
  }
}
