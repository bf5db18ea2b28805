import { relative } from 'node:path';
import { asRunError } from '../../../shared/base/errors.ts';
import type { LoadedFiles } from './child.ts';

const maxNamed = 5;

interface Terminal {
  readonly cwd: string;
  readonly say: (text: string) => void;
  readonly warn: (text: string) => void;
}

/** What serves the agents. */
interface Serving {
  /** Starts a worker with the files as they are now. Throws what is wrong with them while the present one goes on. */
  readonly replace: () => Promise<void>;
  /** Called with the agents whose files are gone, once a worker serves the others. */
  readonly forget: (ids: readonly string[]) => Promise<void>;
}

/** Loads the agents again whenever their files change, one time after the other. */
export class AgentReload {
  readonly #terminal: Terminal;
  #serving: Serving | undefined;
  /** What the worker that serves has read. */
  #agents: readonly string[] = [];
  readonly #changed = new Set<string>();
  #running: Promise<void> | undefined;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  get agents(): readonly string[] {
    return this.#agents;
  }

  /** From now on, and for what has changed already. */
  begin(serving: Serving): void {
    this.#serving = serving;
    this.changed([]);
  }

  /** Takes paths that have changed. Never throws. */
  changed(paths: readonly string[]): void {
    for (const path of paths) this.#changed.add(path);
    if (this.#serving) this.#running ??= this.#run(this.#serving).finally(() => (this.#running = undefined));
  }

  /** A worker serves these. */
  loaded({ agents }: LoadedFiles): void {
    const gone = this.#agents.filter((id) => !agents.includes(id));
    const added = agents.filter((id) => !this.#agents.includes(id));
    this.#agents = agents;
    if (!this.#serving) return;
    const news = [added.length > 0 && `new: ${added.join(', ')}`, gone.length > 0 && `gone: ${gone.join(', ')}`];
    this.#terminal.say(['agents', agents.join(', ') || 'none', ...news.filter(Boolean)].join('  '));
    // Their announcement ends by itself after days; until then they would be listed.
    void this.#serving.forget(gone).catch((error: unknown) => this.#terminal.warn(asRunError(error).message));
  }

  /** Nothing is loaded from now on. */
  end(): void {
    this.#serving = undefined;
  }

  async #run({ replace }: Serving): Promise<void> {
    const { say, warn, cwd } = this.#terminal;
    while (this.#changed.size > 0 && this.#serving) {
      const names = [...this.#changed].map((path) => relative(cwd, path)).sort();
      this.#changed.clear();
      const more = names.length > maxNamed ? ` and ${names.length - maxNamed} more` : '';
      say(`${names.slice(0, maxNamed).join(', ')}${more} changed: loading the agents again`);
      try {
        await replace();
      } catch (error) {
        if (!this.#serving) return;
        warn(`${asRunError(error).message}\nThe agents stay as they were until this is repaired.`);
      }
    }
  }
}
