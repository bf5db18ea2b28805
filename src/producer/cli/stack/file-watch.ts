import { once } from 'node:events';
import { basename } from 'node:path';
import type { FSWatcher } from 'chokidar';

/** Editors write a file in several steps, and people save several files at once. */
const quietMs = 150;

/** What editors and tools keep beside the files of an author. */
const notAnAuthors = /^\.|~$|^node_modules$|^4913$/;

/** Watches files and folders, and reports what has changed once it has been quiet for a moment. */
export class FileWatch implements AsyncDisposable {
  readonly #watcher: FSWatcher;
  readonly #report: (paths: readonly string[]) => void;
  readonly #named: Set<string>;
  readonly #changed = new Set<string>();
  #quiet: NodeJS.Timeout | undefined;

  private constructor(named: Set<string>, watcher: FSWatcher, report: (paths: readonly string[]) => void) {
    this.#report = report;
    this.#named = named;
    this.#watcher = watcher;
    this.#watcher.on('all', (event, path) => {
      if (event !== 'addDir' && event !== 'unlinkDir') this.#note(path);
    });
    // A folder that cannot be watched is one whose changes are not seen; the stack works all the same.
    this.#watcher.on('error', () => {});
  }

  /** Paths are absolute; one that does not exist yet is watched for. Resolves when every change from now on is seen. */
  static async start(paths: readonly string[], report: (paths: readonly string[]) => void): Promise<FileWatch> {
    // An installation for producers' clients alone leaves this package out.
    const chokidar = await import('chokidar');
    const named = new Set(paths);
    const ignored = (path: string) => !named.has(path) && notAnAuthors.test(basename(path));
    const watch = new FileWatch(named, new chokidar.FSWatcher({ ignoreInitial: true, ignored }), report);
    const ready = once(watch.#watcher, 'ready');
    watch.#watcher.add([...paths]);
    await ready;
    return watch;
  }

  add(paths: readonly string[]): void {
    const more = paths.filter((path) => !this.#named.has(path));
    for (const path of more) this.#named.add(path);
    if (more.length > 0) this.#watcher.add(more);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#quiet);
    await this.#watcher.close();
  }

  #note(path: string): void {
    this.#changed.add(path);
    clearTimeout(this.#quiet);
    this.#quiet = setTimeout(() => {
      const paths = [...this.#changed];
      this.#changed.clear();
      this.#report(paths);
    }, quietMs);
  }
}
