const maxAgeMs = 1_000;

interface Count {
  readonly readAt: number;
  readonly value: Promise<number>;
  added: number;
}

/**
 * Counts what Redis holds against limits. A number is read once a second and counted along in between, so that an
 * acceptance costs no command of its own; over several producers a limit is therefore approximate.
 */
export class Places {
  readonly #counts = new Map<string, Count>();

  /** Takes one place below `max`, or answers false. `name` tells the counts apart. */
  async take(name: string, max: number, read: () => Promise<number>): Promise<boolean> {
    const count = this.#countOf(name, read);
    if ((await count.value) + count.added >= max) return false;
    count.added += 1;
    return true;
  }

  #countOf(name: string, read: () => Promise<number>): Count {
    const now = performance.now();
    const known = this.#counts.get(name);
    if (known && now - known.readAt <= maxAgeMs) return known;
    const value = read();
    value.catch(() => this.#counts.delete(name));
    const count = { readAt: now, value, added: 0 };
    this.#counts.set(name, count);
    return count;
  }
}
